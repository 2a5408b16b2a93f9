// How ranks agree on a call between them, with small data (docs/PROTOCOL.md, section 11.3): the rounds of a
// rank's messages, what is in them, and how those that come are merged.
//
// Messages lie in memory of HostPath, which hands it in: positions here are offsets into it. A value, but for
// the caller's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/snapshot.h"
#include "commlib/core/host_call.h"
#include "commlib/core/host_peers.h"

namespace epic {

// What the ranks `begin` to `end` - 1 say together: the header of the lowest one, and in its status, field
// and culprit the lowest one that differs from it.
struct HostBlock {
  ControlHeader header;
  uint32_t begin = 0;
  uint32_t end = 0;
};

// Of two blocks that are neighbours, `lower` the one of lower ranks.
HostBlock MergeBlocks(const HostBlock& lower, const HostBlock& upper);

class HostExchange {
 public:
  // inline_bytes: most data in a message.
  HostExchange(uint32_t rank, uint32_t world_size, uint64_t inline_bytes);

  // What it needs of the memory, from offset 0 on.
  size_t memory_bytes() const { return memory_bytes_; }
  // The room for a message, in each direction.
  uint32_t message_bytes() const { return static_cast<uint32_t>(kControlBytes + inline_bytes_); }
  // Where the invocation's message from the peer is received: one of two places, in turn.
  size_t ReceivePlace(uint32_t peer, int64_t invocation) const;

  // A call, as the invocation of that number. Messages of it may have come before (OnMessage).
  void Begin(const HostCall& call, int64_t invocation, uint8_t* memory);

  struct Message {
    uint32_t peer = 0;
    size_t place = 0;
    uint32_t length = 0;
  };
  // The peer whose message is to be sent now; empty if none is, before those of others have come.
  std::optional<uint32_t> NextPeer() const;
  // That message, which is then sent.
  Message Send(uint8_t* memory);
  // The peer's message of the invocation has come, with so many bytes.
  void OnMessage(uint32_t peer, int64_t invocation, uint32_t bytes);
  // Merges what has come, as far as it is its turn. False if something is no message of an exchange.
  bool Proceed(uint8_t* memory);

  // From whom a message must come before it goes on; empty if it is this rank that sends next, or there is none.
  std::optional<uint32_t> AwaitedPeer() const;

  // All rounds are over: the header has the outcome, and if its status is OK, inlined data are where they
  // belong.
  bool done() const { return begun_ && round_ == rounds_.size(); }
  const ControlHeader& header() const { return block_.header; }

 private:
  friend struct epic::Snapshot;
  enum class Kind : uint8_t { kPre, kCube, kPost };
  struct Round {
    Kind kind = Kind::kCube;
    uint32_t peer = 0;
    uint32_t bit = 0;  // of kCube, 2^k
    bool sends = false;
    bool receives = false;
    size_t place = 0;  // of the message that is sent, if one is, and behind it of two that are received
    uint32_t arrived[2] = {0, 0};  // bytes, of even and odd invocations; 0: not yet
  };
  size_t RoundOf(uint32_t peer) const;
  // The ranks for which `sender` speaks in the round.
  HostBlock BlockIn(const Round& round, uint32_t sender) const;
  // Data behind the header that a sender has in the round, if its status is OK.
  uint64_t DataBytes(const ControlHeader& header, const Round& round, uint32_t sender) const;
  bool IsMessage(const ControlHeader& header, const Round& round, uint32_t bytes) const;
  bool Merge(const Round& round, uint8_t* memory);
  void MergeData(const Round& round, bool is_lower, uint64_t bytes, uint8_t* memory);
  void Deliver(uint64_t first_part, uint64_t parts, const uint8_t* data) const;
  void DeliverResult(const uint8_t* memory);
  // The round after this one in which something is sent; past the end if there is none.
  size_t NextSending() const;

  uint32_t rank_;
  HostCube cube_;
  uint64_t inline_bytes_;
  std::vector<Round> rounds_;
  size_t memory_bytes_ = 0;

  HostCall call_;
  int64_t invocation_ = 0;
  bool begun_ = false;
  HostBlock block_;
  size_t round_ = 0;
  bool sent_ = false;       // this round's message
  size_t message_ = 0;      // place of the header and data as merged so far
  bool is_shared_ = false;  // it has been sent, or received, and may not be written
  bool is_delivered_ = false;
};

}  // namespace epic
