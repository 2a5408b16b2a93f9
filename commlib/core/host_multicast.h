// Broadcast and AllGather by multicast datagrams, what is lost being read from the left neighbour
// (docs/PROTOCOL-MULTICAST.md): which datagrams, words, tokens and Reads a rank posts and when, what it takes
// of what comes, and when a call ends. The ranks' agreement on the call, and connections, are HostPath's.
//
// A value, but for the caller's buffers. Takes no time and reads no clock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/snapshot.h"
#include "commlib/core/chunk_map.h"
#include "commlib/core/host_call.h"

namespace epic {

// Most chunks of an invocation: their number has 16 bits.
inline constexpr uint32_t kMostChunks = 1 << 16;
// In front of what a datagram carries, in the memory in which it is received: a GRH.
inline constexpr uint32_t kGrhBytes = 40;
inline constexpr uint32_t kRingMessageBytes = 32;
// Reads that one end of a connection of the fetch ring may have under way.
inline constexpr uint32_t kFetchReads = 8;

struct HostMulticastConfig {
  uint32_t rank = 0;
  uint32_t world_size = 2;
  uint32_t chunk_bytes = 0;  // of a datagram, the path MTU; 0: there are no datagrams
  uint32_t receive_bytes =
      0;  // room for a datagram, also a stranger's; 0: chunk_bytes, else at least as many
  uint32_t staging_chunks = 1024;  // receives for datagrams, as the ranks agree; at least 1
  // 1 to kMostTokens; the same on all ranks, and said nowhere: another number is another protocol.
  uint32_t tokens = 4;
  uint32_t addresses = 1;   // each part's chunks go to so many groups, a block to each
  uint32_t read_bytes = 0;  // most of a Read, at least chunk_bytes
  // Who has read makes so many Reads of no bytes before it says DONE: as many as a NIC may answer again when
  // the network repeats one. So none of those before comes to memory that is its owner's again.
  uint32_t empty_reads = kFetchReads;
};

// What has become of datagrams, since the beginning.
struct MulticastCounts {
  uint64_t expected = 0;  // chunks that other ranks were to send
  uint64_t came = 0;
  uint64_t read = 0;  // chunks read from the left neighbour
  // Datagrams dropped, by reason.
  uint64_t stranger = 0, stale = 0, alien = 0, length = 0, again = 0;

  friend bool operator==(const MulticastCounts&, const MulticastCounts&) = default;
};

// Most data of an invocation, all parts together; the same on every rank. A multiple of what one element of
// each part takes.
uint64_t MostMulticastBytes(const HostMulticastConfig& config, const ControlHeader& header);

// What is to be posted, by whom and where.
struct MulticastWork {
  enum class Kind : uint8_t {
    kQkey,          // none: the queue pair of datagrams takes the Q_Key of `epoch` from now on
    kDatagramRecv,  // receives, in own memory
    kMessageRecv,
    kDatagram,  // sends
    kMessage,
    kRead,
  };
  Kind kind = Kind::kDatagram;
  bool to_left = false;  // of kMessageRecv, kMessage and kRead: on which connection of the fetch ring
  uint32_t epoch = 0;    // of kQkey
  uint32_t group = 0;    // of kDatagram: to which of the addresses
  uint32_t imm = 0;      // of kDatagram
  HostWhere where = HostWhere::kOwn;
  uint64_t offset = 0;          // into what `where` says
  uint32_t length = 0;          // 0 of an empty Read alone
  uint64_t remote_address = 0;  // of kRead
  uint32_t rkey = 0;
};

class HostMulticast {
 public:
  static constexpr uint32_t kMostTokens = 4;
  // Requests of one direction that can be outstanding on a connection of the fetch ring.
  static uint32_t FetchReceives(const HostMulticastConfig& config);
  static constexpr uint32_t kFetchSends = 32;

  // `memory_begin`: where in the path's memory this has its own, of memory_bytes().
  HostMulticast(const HostMulticastConfig& config, uint64_t memory_begin);
  uint64_t memory_bytes() const;

  // Memory of this rank that others may read as long as there are connections: what Reads of no bytes name,
  // since a NIC that answers one again looks at its key (rdma_rxe).
  void SetOwnMemory(const RemoteMemory& own) { own_ = own; }

  // A call whose data go so; at most MostMulticastBytes of them, and some. The chunks come into its buffers
  // from now on.
  void Begin(const HostCall& call);
  // It has ended, or it goes another way.
  void Clear() { call_.reset(); }

  // Where in the path's memory the datagram lies, GRH and all, that came into the receive of this number.
  uint64_t ReceivePlace(uint64_t number) const;

  // The next receive to post, or a new Q_Key; once a call has begun. After a new Q_Key nothing before
  // OnQkeySet.
  bool NextReceive(MulticastWork* work);
  // The queue pair has the key, and every datagram that it took with the one before has been handed over.
  // Their immediates do not tell those of 65,536 invocations ago from this one's.
  void OnQkeySet() { changes_key_ = false; }
  bool changes_key() const { return changes_key_; }
  // The next request to send, once the ranks have agreed; `memory` is the path's. The ends of the fetch ring
  // that are not ready get none.
  bool NextSend(bool left_ready, bool right_ready, std::span<uint8_t> memory, MulticastWork* work);

  // A datagram came into the next of the receives: `bytes` without the GRH; `from`: the rank whose it is, if
  // it is one's.
  void OnDatagram(std::optional<uint32_t> from, uint32_t imm, uint32_t bytes,
                  std::span<const uint8_t> memory);
  // A message came on the fetch ring. False if it breaks the rules. `invocation`: of the call that is open,
  // or the next one.
  bool OnMessage(bool from_left, uint32_t bytes, int64_t invocation, std::span<const uint8_t> memory);
  // In each direction, in order: a datagram has been sent; a message, or a Read, on the fetch ring is done.
  void OnDatagramSent() { ++own_sent_; }
  void OnFetchSent(bool to_left);

  // Nothing is to be sent, read or to come for the call any more; or there is none.
  bool done() const;
  // Something must come from this neighbour.
  bool AwaitsLeft() const { return call_ && (!chunks_.all_whole() || AwaitsToken()); }
  bool AwaitsRight() const { return call_ && !right_done_; }
  const MulticastCounts& counts() const { return counts_; }

 private:
  friend struct epic::Snapshot;
  enum class Message : uint8_t { kToken = 1, kWhole = 2, kDone = 3 };
  enum class Sent : uint8_t { kToken, kWhole, kDone, kRead, kEmptyRead };
  struct Read {
    uint32_t part = 0;
    ChunkMap::Run run;
  };
  struct Token {
    int64_t visits = 0;  // that this rank has had, or has
    bool is_here = false;
  };
  // One connection of the fetch ring; with two ranks it is to the left and to the right.
  struct Fetch {
    uint64_t recvs = 0, recvs_done = 0;  // given out, and come
    uint64_t messages = 0;               // sent
    std::deque<Sent> unacked;
  };

  size_t Side(bool left) const { return left || config_.world_size == 2 ? 0 : 1; }
  size_t sides() const { return config_.world_size == 2 ? 1 : 2; }
  bool is_broadcast() const { return call_->header.collective == Collective::kBroadcast; }
  // Of a part's index, and back.
  uint32_t OwnerOf(uint32_t part) const { return is_broadcast() ? call_->header.root : part; }
  uint32_t DistanceOf(uint32_t owner) const {
    return (config_.rank + config_.world_size - owner) % config_.world_size;
  }
  std::optional<uint32_t> PartAt(uint32_t distance) const;
  uint64_t PlaceOf(uint32_t part, uint32_t chunk) const;  // in the result
  uint32_t BytesOf(uint32_t chunk, uint32_t count = 1) const;
  uint64_t FetchReceivePlace(size_t side, uint64_t number) const;
  uint64_t FetchSendPlace(size_t side, uint64_t number) const;
  uint32_t StartOf(uint32_t token) const { return token * config_.world_size / tokens_in_use_; }
  int64_t VisitsOf(uint32_t token) const;
  // Whether the token goes no further than this rank, whose last visit this is.
  bool EndsHere(uint32_t token) const;
  bool OnToken(uint32_t token);
  // None is here, and one is still to come.
  bool AwaitsToken() const;
  void SettleTokens();
  void OpenSlice();
  // The first token is here, and what this rank sends by it has been given out; and it may go on.
  bool IsSliceGiven() const { return is_slice_open_ && own_next_ == own_end_; }
  bool MayPassToken() const { return IsSliceGiven() && own_sent_ >= own_before_; }
  void TakeToken();
  void AdvanceWhole();
  bool NextDatagram(MulticastWork* work);
  bool NextToken(std::span<uint8_t> memory, MulticastWork* work);
  bool NextWord(std::span<uint8_t> memory, MulticastWork* work);
  bool NextDone(std::span<uint8_t> memory, MulticastWork* work);
  bool NextRead(MulticastWork* work);
  void Say(Message kind, uint32_t number, bool to_left, std::span<uint8_t> memory, MulticastWork* work);

  HostMulticastConfig config_;
  uint64_t memory_begin_;
  MulticastCounts counts_;
  RemoteMemory own_;

  // Of all calls.
  bool is_open_ = false;                 // one has begun
  uint32_t epoch_ = 0;                   // whose Q_Key the queue pair of datagrams has
  bool changes_key_ = false;             // or will have
  uint64_t recvs_ = 0, recvs_done_ = 0;  // of datagrams
  std::array<Fetch, 2> fetches_;         // to the left, to the right

  // Of the call that is open.
  std::optional<HostCall> call_;
  bool has_own_ = false;  // a part is this rank's
  uint32_t parts_ = 0;
  uint32_t part_chunks_ = 0;  // of each part
  uint32_t tokens_in_use_ = 1;
  uint32_t slice_ = 0;  // chunks of a slice; 0: every rank sends all at once
  // A token goes on beside its slice, behind the one before; if not, behind its own.
  bool is_beside_ = false;
  ChunkMap chunks_;
  uint32_t own_next_ = 0, own_end_ = 0;  // of the own part's chunks that may be sent: those between are to go
  uint32_t own_given_ = 0, own_sent_ = 0;  // of them, given out, and sent
  std::array<Token, kMostTokens> tokens_;
  std::deque<uint32_t> here_;   // tokens, in the order in which they came
  bool is_slice_open_ = false;  // of the first of them
  uint32_t own_before_ = 0;     // of the own part's chunks, that have left when it goes on
  int64_t whole_ = -1;          // parts up to this distance are whole
  int64_t said_ = -1;           // the largest distance said to the right
  bool awaits_ack_ = false;     // of the last word
  int64_t heard_ = -1;          // the largest distance said by the left
  uint64_t left_address_ = 0;
  uint32_t left_rkey_ = 0;
  RemoteMemory left_own_;
  uint32_t read_distance_ = 1, read_chunk_ = 0;  // what lies before has been asked for, or was there
  std::deque<Read> reads_;                       // under way
  uint32_t empty_reads_left_ = 0;
  bool right_done_ = false;
  bool said_done_ = false;
};

}  // namespace epic
