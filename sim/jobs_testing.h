// AllReduces and Barriers with their references, and the trees to run them on, for tests in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "sim/world.h"

namespace epic::sim {

// A rank's input: rank-dependent and position-dependent, so that a missing, doubled or misplaced contribution
// shows.
inline uint32_t InputWord(int rank, size_t element, int call) {
  return (1u << (rank * 4 % 28)) * static_cast<uint32_t>(rank + 1) +
         static_cast<uint32_t>(element * 2654435761u) + static_cast<uint32_t>(call) * 97;
}

// Ranks' buffers for one call of INT32 AllReduce.
struct Job {
  Job(int ranks, size_t elements, int call) : count(elements), number(call) {
    for (int r = 0; r < ranks; ++r) {
      std::vector<uint8_t> in(elements * 4);
      for (size_t i = 0; i < elements; ++i) {
        const uint32_t word = InputWord(r, i, call);
        std::memcpy(in.data() + i * 4, &word, 4);
      }
      send.push_back(std::move(in));
      recv.emplace_back(elements * 4, uint8_t{0xee});
    }
  }
  size_t WrongElements(int rank) const {
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      uint32_t want = 0;
      for (int r = 0; r < static_cast<int>(send.size()); ++r) want += InputWord(r, i, number);
      uint32_t got;
      std::memcpy(&got, recv[static_cast<size_t>(rank)].data() + i * 4, 4);
      wrong += got != want;
    }
    return wrong;
  }

  // Starts it on one rank; of no elements it is a Barrier. in_place: the result comes where the input is, in
  // recv.
  void Start(World& world, int rank, bool in_place = false, int group = 0) {
    auto& in = send[static_cast<size_t>(rank)];
    auto& out = recv[static_cast<size_t>(rank)];
    if (count == 0) return void(world.host(rank, group).Barrier());
    if (in_place) out = in;
    world.host(rank, group).AllReduce(DataType::kInt32, in_place ? out : in, out);
  }

  size_t count;
  int number;
  std::vector<std::vector<uint8_t>> send;
  std::vector<std::vector<uint8_t>> recv;
};

// Posts one AllReduce per entry of counts on every rank (0 elements: a Barrier), runs, and checks every
// element. Returns the virtual time it took, or -1 on failure (with a test failure recorded).
inline Nanos RunJobs(World& world, const std::vector<size_t>& counts, Nanos limit, bool in_place = false) {
  const Nanos begin = world.now();
  std::vector<Job> jobs;
  for (size_t k = 0; k < counts.size(); ++k) jobs.emplace_back(world.ranks(), counts[k], static_cast<int>(k));
  for (Job& job : jobs) {
    for (int r = 0; r < world.ranks(); ++r) job.Start(world, r, in_place);
  }
  if (!world.RunUntil([&] { return world.AllDone(); }, begin + limit)) {
    ADD_FAILURE() << "not finished after " << limit / kMillisecond << " ms of virtual time";
    return -1;
  }
  for (const Job& job : jobs) {
    for (int r = 0; r < world.ranks(); ++r) {
      EXPECT_EQ(job.WrongElements(r), 0u) << "rank " << r << " call " << job.number << " count " << job.count;
    }
  }
  return world.now() - begin;
}

struct Shape {
  const char* name;
  TreeSpec tree;
};

inline const Shape kShapes[] = {{"star-2", Star(2)},
                                {"star-4", Star(4)},
                                {"star-64", Star(64)},
                                {"tree-3-2", FullTree(2, 2)},
                                {"three levels, 8 ranks", FullTree(3, 2)},
                                {"uneven", UnevenTree()}};

// Elements of a call of several windows; where ranks are many, of fewer.
inline size_t LongCallOf(const World& world) { return world.ranks() > 8 ? 20011 : 100003; }

}  // namespace epic::sim
