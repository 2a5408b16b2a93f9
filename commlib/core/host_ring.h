// Data around the ring of ranks, in pieces (docs/PROTOCOL.md, section 11.4): ReduceScatter, AllGather and
// AllReduce in steps, Broadcast and Reduce along a chain. Which bytes each message has, where they lie, and
// when one may be sent.
//
// A value, but for the caller's buffers.
#pragma once

#include <cstdint>

#include "base/snapshot.h"
#include "commlib/core/host_call.h"

namespace epic {

struct HostRingConfig {
  uint32_t rank = 0;
  uint32_t world_size = 2;
  uint64_t message_bytes = 0;  // most of a message
  uint64_t staging_bytes = 0;
  int64_t most_messages = 0;  // of an invocation, in each direction
};

// Most data of an invocation around the ring, all parts together; the same on every rank. A multiple of
// what one element of each part takes.
uint64_t MostRingBytes(const HostRingConfig& config, const ControlHeader& header);

// Whether messages are received into the caller's result, and sent on from there. Of the others a rank puts
// what it has combined into its result by itself.
constexpr bool RingReceivesResults(Collective collective) {
  return collective != Collective::kReduce && collective != Collective::kReduceScatter;
}

// A message: bytes in the staging memory (an offset), or in the call's buffer.
struct HostPiece {
  HostWhere where = HostWhere::kOwn;
  uint64_t offset = 0;
  uint32_t length = 0;
};

class HostRing {
 public:
  explicit HostRing(const HostRingConfig& config) : config_(config) {}

  // A call whose data go around the ring; at most MostRingBytes of them.
  void Begin(const HostCall& call);
  // No data, or none any more.
  void Clear();

  // The next receive to post.
  bool NextReceive(HostPiece* piece);
  // Is another message to come? The next one's length, 0 if none is.
  uint32_t ExpectedBytes() const;
  // It has come: combines it with this rank's own, in `staging` or into the result.
  void OnReceived(uint8_t* staging);
  // The next message to send, once what it is made of is in.
  bool NextSend(HostPiece* piece);
  // All has been sent and received.
  bool done() const { return received_ == end_ && sent_ == end_; }

 private:
  friend struct epic::Snapshot;
  struct Range {
    uint64_t offset = 0;  // from the block's beginning
    uint32_t length = 0;
  };
  int64_t StepOf(int64_t message) const { return first_step_ + message / pieces_; }
  uint32_t BlockOf(int64_t step) const;
  uint32_t SentBlock(int64_t message) const;
  uint32_t ReceivedBlock(int64_t message) const;
  uint64_t BlockElements(uint32_t block) const;
  // Where a block begins in a buffer that has all.
  uint64_t BlockOffset(uint32_t block) const;
  Range RangeOf(int64_t message, uint32_t block) const;
  uint64_t StagingOffset(int64_t message) const;
  bool Combines(int64_t message) const;
  HostPiece SendPiece(int64_t message) const;
  HostPiece ReceivePiece(int64_t message) const;
  void SkipEmpty();

  HostRingConfig config_;
  HostCall call_;
  uint32_t element_bytes_ = 1;
  bool sends_ = false, receives_ = false;
  bool is_chain_ = false;
  int64_t first_step_ = 0;
  int64_t pieces_ = 1;  // of each block
  uint64_t piece_bytes_ = 0;
  uint64_t block_bytes_ = 0;  // of the largest
  int64_t lag_ = 0;           // message j may go when j - lag_ is in
  // Messages of each direction, with those that are empty; those before the cursors are passed.
  int64_t end_ = 0;
  int64_t posted_ = 0, received_ = 0, sent_ = 0;
};

}  // namespace epic
