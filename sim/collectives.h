// Random calls of every collective with their references, for runs in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "protocol/flow.h"
#include "sim/block_values.h"
#include "sim/choices.h"
#include "sim/path_rank.h"
#include "sim/world.h"

namespace epic::sim {

// One call of a group: the same header on every rank, each rank's buffers and what must be in them after it.
// Elements are small integers in the type's encoding, so that sums are exact in every type and order; for
// products of FP types they are 1 and 2, for those of integers odd.
class CollectiveCall {
 public:
  // Contributions and where the data lie follow from header and number. Ranks are at most 64 with 32-bit
  // types, 16 otherwise. Of a call in blocks: how many levels of blocks a sum has on its way at most, behind
  // the ranks' own.
  CollectiveCall(const ControlHeader& header, int ranks, int number, int levels = 1);

  // Starts it on one rank of a group of the world.
  void Start(World& world, int rank, int group = 0);

  // What the rank gives to it, and where its result comes.
  RankBuffers BuffersOf(int rank);

  // Elements of the rank's receive buffer that are not as they must be.
  size_t Wrong(int rank) const;

  const ControlHeader& header() const { return header_; }
  int number() const { return number_; }
  // "AllGather of 17 float32, root 0, call 3", for failure messages.
  std::string Describe() const;

 private:
  // Of every rank.
  enum class Buffers : uint8_t {
    kCopied,    // in the rank's own, if they fit there
    kSeparate,  // registered: in the caller's
    kInPlace,   // registered, and the results come where the contributions were
  };
  // What a rank sends or receives, in one of the two buffers that it has.
  struct BufferPlace {
    bool in_send = false;  // else in recv_
    size_t at = 0;
    size_t bytes = 0;
  };
  BlockValues Blocks() const;
  Buffers ChooseBuffers() const;
  bool InPlace(size_t rank) const;
  BufferPlace SendPlace(size_t rank) const;
  BufferPlace RecvPlace(size_t rank) const;
  template <typename Self>
  static auto BytesAt(Self& self, size_t rank, const BufferPlace& place) {
    return std::span(place.in_send ? self.send_[rank] : self.recv_[rank]).subspan(place.at, place.bytes);
  }
  uint32_t Value(int rank, int64_t part, uint64_t element) const;
  // What a rank gives instead where results would not be exact, or all alike.
  uint32_t ForOperation(int rank, uint32_t value) const;
  uint64_t Expected(int64_t part, uint64_t element) const;
  const std::vector<uint8_t>& Results() const;

  ControlHeader header_;
  int ranks_;
  int number_;
  int levels_;
  Buffers buffers_;
  std::vector<std::vector<uint8_t>> send_;
  std::vector<std::vector<uint8_t>> recv_;
  mutable std::vector<uint8_t> results_;  // what must be received; made when it is first asked for
};

// A random collective, root, type, operation and count of at most max_count elements per part. Types and
// operations are those with which there began to be seeds.
ControlHeader RandomHeader(Choices& choices, int ranks, uint64_t max_count);

// Operations that are drawn: those that there were when calls began to be of all types.
inline constexpr uint64_t kDrawnOps = 9;

// Any type, and an operation of it, in place of those of a header. Of INT32's sums those of an odd number of
// elements saturate.
void ChooseType(Choices& choices, ControlHeader* header);

// Where it reduces floating-point numbers, their sum instead, in blocks.
void PutInBlocks(ControlHeader* header);

// Of one group, in the order in which each of its ranks makes them.
using Calls = std::vector<CollectiveCall>;

// Starts the calls in order on one rank from `begin` on, each at most `spread` after the one before, while
// the rank is alive; returns when the last starts. `start` starts it, if it is not CollectiveCall::Start. The
// calls are borrowed until the world is gone.
Nanos StartCalls(World& world, int group, int rank, std::span<CollectiveCall> calls, Nanos begin,
                 Nanos spread, const std::function<void(CollectiveCall&)>& start = {});

// Every rank of the group that is alive has made all calls, and all have ended.
bool Finished(World& world, int group, const Calls& calls);

// Where every switch of the group stands, a line each, for failures.
std::string Standing(const World& world, int group);

}  // namespace epic::sim
