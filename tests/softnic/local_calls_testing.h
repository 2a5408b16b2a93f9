// Every collective on every rank of a group in the test's own process, and what must come of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/softnic/local_ranks_testing.h"

namespace epic::softnic {

// Does the same on every rank of a group, a thread each.
inline void OnAll(Group& group, const std::function<void(int rank, Communicator& comm)>& act) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group.size(); ++rank) threads.emplace_back([&, rank] { act(rank, group[rank]); });
  for (std::thread& thread : threads) thread.join();
}

using Numbers = std::vector<int32_t>;

// What rank r gives: 1000 r + element.
inline Numbers Given(int rank, size_t count) {
  Numbers out(count);
  std::iota(out.begin(), out.end(), 1000 * rank);
  return out;
}

inline Numbers SumOfAll(int ranks, size_t count) {
  Numbers out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = 1000 * ranks * (ranks - 1) / 2 + ranks * static_cast<int32_t>(i);
  return out;
}

inline Numbers PartOf(const Numbers& all, int rank, size_t count) {
  const auto begin = all.begin() + rank * static_cast<ptrdiff_t>(count);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

inline void Succeed(const Error& error) { EXPECT_TRUE(error.ok()) << error.message(); }

// All collectives of a group, each with `count` elements per rank.
inline void AllCollectives(Group& group, size_t count) {
  SCOPED_TRACE(fmt::format("{} ranks, {} elements", group.size(), count));
  constexpr auto kInt = Datatype::kInt32;
  const int n = group.size();
  OnAll(group, [&](int rank, Communicator& comm) {
    const Numbers mine = Given(rank, count), all = Given(rank, count * static_cast<size_t>(n));
    Numbers out(count, -1), wide(all.size(), -1);
    Succeed(AllReduce(mine.data(), out.data(), count, kInt, RedOp::kSum, comm));
    EXPECT_EQ(out, SumOfAll(n, count));
    out = mine;
    Succeed(AllReduce(out.data(), out.data(), count, kInt, RedOp::kSum, comm));
    EXPECT_EQ(out, SumOfAll(n, count)) << "in place";
    for (const int root : {0, n - 1}) {
      out.assign(count, -1);
      Succeed(Reduce(mine.data(), out.data(), count, kInt, RedOp::kMax, root, comm));
      EXPECT_EQ(out, rank == root ? Given(n - 1, count) : Numbers(count, -1));
      Succeed(Broadcast(mine.data(), out.data(), count, kInt, root, comm));
      EXPECT_EQ(out, Given(root, count));
    }
    Succeed(ReduceScatter(all.data(), out.data(), count, kInt, RedOp::kSum, comm));
    EXPECT_EQ(out, PartOf(SumOfAll(n, all.size()), rank, count));
    Succeed(AllGather(mine.data(), wide.data(), count, kInt, comm));
    for (int r = 0; r < n; ++r) EXPECT_EQ(PartOf(wide, r, count), Given(r, count)) << "part " << r;
    Succeed(Barrier(comm));
  });
}

}  // namespace epic::softnic
