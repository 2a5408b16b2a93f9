// Random calls of every collective with their references, for tests in virtual time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/flow.h"
#include "sim/choices.h"
#include "sim/world.h"

namespace epic::sim {

// One call of a group: the same header on every rank, each rank's buffers and what must be in them after it.
// Elements are small integers in the type's encoding, so that sums are exact in every type and order.
class CollectiveCall {
 public:
  // Contributions follow from number, rank and element. Ranks are at most 64 with 32-bit types, 8 otherwise.
  CollectiveCall(const ControlHeader& header, int ranks, int number);

  // Starts it on one rank of a group of the world.
  void Start(World& world, int rank, int group = 0);

  // Elements of the rank's receive buffer that are not as they must be.
  size_t Wrong(int rank) const;

  // "AllGather of 17 float32, root 0, call 3", for failure messages.
  std::string Describe() const;

 private:
  uint32_t Value(int rank, int64_t part, uint64_t element) const;
  uint32_t Expected(int rank, int64_t part, uint64_t element) const;

  ControlHeader header_;
  int ranks_;
  int number_;
  std::vector<std::vector<uint8_t>> send_;
  std::vector<std::vector<uint8_t>> recv_;
};

// A random collective, root, type, operation and count of at most max_count elements per part.
ControlHeader RandomHeader(Choices& choices, int ranks, uint64_t max_count);

}  // namespace epic::sim
