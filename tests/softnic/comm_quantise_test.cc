// FP32 as INT32, through a switch that has integers alone and between the hosts: the host library on softnic
// in virtual time, with a manager in this process (local_manager_testing.h). Also under ThreadSanitizer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::Group;
using softnic::LocalWorld;
using softnic::Numbers;
using softnic::OnAll;
using softnic::Succeed;

using Floats = std::vector<float>;
constexpr auto kFp32 = Datatype::kFloat32;
constexpr float kScale = 16;

class QuantiseTest : public testing::TestWithParam<PathChoice> {
 protected:
  QuantiseTest() {
    internal::GroupAbilities group{
        .has = {}, .where = {}, .hosts_reach = true, .why_not_hosts = {}, .scale = kScale};
    group.has.Add(DataType::kInt32);
    for (const ReduceOp op : {ReduceOp::kSaturatingSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum})
      group.has.Add(op);
    world_.manager().SetAbilities(group);
  }
  Group Make(int size) { return {"g" + std::to_string(++groups_), size, GetParam()}; }
  LocalWorld world_;
  int groups_ = 0;  // made, each with a name of its own
};

// In eighths, of which the scale makes whole numbers.
Floats Given(int rank, size_t count) {
  Floats out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(1000 * rank - 3 * static_cast<int>(i % 5000)) / 8;
  return out;
}

Floats SumOfAll(int ranks, size_t count, int divisor = 1) {
  Floats out(count);
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int r = 0; r < ranks; ++r)
      sum += std::nearbyint((1000 * r - 3 * static_cast<int>(i % 5000)) / 8.0 * kScale);
    out[i] = static_cast<float>(sum / (double{kScale} * divisor));
  }
  return out;
}

Floats PartOf(const Floats& all, int rank, size_t count) {
  const auto begin = all.begin() + rank * static_cast<ptrdiff_t>(count);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

// Lengths that are inlined, in one slice, and in several, with parts that lie apart.
TEST_P(QuantiseTest, AllCollectivesOfAllLengths) {
  for (const int n : {2, 3}) {
    Group group = Make(n);
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{100}, size_t{9000}, size_t{16 * 1024 + 1}, size_t{400'003}}) {
      SCOPED_TRACE(testing::Message() << n << " ranks, " << count << " elements");
      OnAll(group, [&](int rank, Communicator& comm) {
        const Floats mine = Given(rank, count), all = Given(rank, count * static_cast<size_t>(n));
        Floats out(count, -1), wide(all.size(), -1);
        Succeed(AllReduce(mine.data(), out.data(), count, kFp32, RedOp::kSum, comm));
        EXPECT_EQ(out, SumOfAll(n, count));
        out = mine;
        Succeed(AllReduce(out.data(), out.data(), count, kFp32, RedOp::kAvg, comm));
        EXPECT_EQ(out, SumOfAll(n, count, n)) << "in place";
        out.assign(count, -1);
        Succeed(Reduce(mine.data(), out.data(), count, kFp32, RedOp::kMax, n - 1, comm));
        EXPECT_EQ(out, rank == n - 1 ? Given(n - 1, count) : Floats(count, -1));
        Succeed(AllReduce(mine.data(), out.data(), count, kFp32, RedOp::kMin, comm));
        EXPECT_EQ(out, Given(0, count));
        Succeed(ReduceScatter(all.data(), out.data(), count, kFp32, RedOp::kSum, comm));
        EXPECT_EQ(out, PartOf(SumOfAll(n, all.size()), rank, count));
        wide = all;
        Succeed(ReduceScatter(wide.data(), wide.data() + rank * static_cast<ptrdiff_t>(count), count, kFp32,
                              RedOp::kSum, comm));
        EXPECT_EQ(PartOf(wide, rank, count), PartOf(SumOfAll(n, all.size()), rank, count)) << "in place";
        Succeed(AllGather(mine.data(), wide.data(), count, kFp32, comm));
        for (int r = 0; r < n; ++r) EXPECT_EQ(PartOf(wide, r, count), Given(r, count)) << "part " << r;
        Succeed(Barrier(comm));
        const Quantisation quantised = comm.Quantised();
        EXPECT_EQ(quantised.scale, kScale);
        EXPECT_EQ(quantised.saturated_inputs + quantised.saturated_results, 0u);
      });
    }
    group.Destroy();
  }
}

// Copies are the same bits, and what is not FP32 is what it is elsewhere: INT32 wraps.
TEST_P(QuantiseTest, OthersAreAsWithout) {
  Group group = Make(3);
  OnAll(group, [](int rank, Communicator& comm) {
    Floats data(100, rank == 1 ? std::numeric_limits<float>::infinity() : 0);
    Succeed(Broadcast(data.data(), data.data(), data.size(), kFp32, 1, comm));
    EXPECT_EQ(data, Floats(100, std::numeric_limits<float>::infinity()));
    Numbers whole(100, INT32_MAX);
    Succeed(AllReduce(whole.data(), whole.data(), whole.size(), Datatype::kInt32, RedOp::kSum, comm));
    EXPECT_EQ(whole, Numbers(100, INT32_MAX - 2));
    std::vector<double> wide(100, 0.25 * rank);
    Succeed(AllReduce(wide.data(), wide.data(), wide.size(), Datatype::kFloat64, RedOp::kSum, comm));
    EXPECT_EQ(wide, std::vector<double>(100, 0.75));
    const Error error = AllReduce(data.data(), data.data(), data.size(), kFp32, RedOp::kProduct, comm);
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.message();
  });
  group.Destroy();
}

// Element 0 is too large at one rank, element 1 as a sum, element 2 on the way back would be right and stays.
TEST_P(QuantiseTest, WhatSaturatesIsCounted) {
  for (const size_t count : {size_t{10}, size_t{50'000}}) {
    Group group = Make(3);
    OnAll(group, [&](int rank, Communicator& comm) {
      constexpr float kMost = 2147483648.0f / kScale;
      Floats data(count, 0.0625f);
      data[0] = rank == 0 ? 2 * kMost : -1;
      data[1] = -0.4f * kMost;
      data[2] = rank == 1 ? -2 * kMost : kMost;
      Floats out(count);
      Succeed(AllReduce(data.data(), out.data(), count, kFp32, RedOp::kSum, comm));
      EXPECT_EQ(out[0], kMost);
      EXPECT_EQ(out[1], -kMost);
      EXPECT_EQ(std::fabs(out[2]), kMost);
      EXPECT_EQ(out[3], 0.1875f);
      EXPECT_EQ(comm.Quantised().saturated_inputs, rank == 0 ? 2u : 1u);
      EXPECT_EQ(comm.Quantised().saturated_results, 3u);
      Succeed(Reduce(data.data(), out.data(), count, kFp32, RedOp::kMax, 2, comm));
      EXPECT_EQ(comm.Quantised().saturated_inputs, rank == 0 ? 4u : 2u);
      EXPECT_EQ(comm.Quantised().saturated_results, rank == 2 ? 5u : 3u) << "who receives them counts them";
    });
    group.Destroy();
  }
}

// In the last slice of a call behind others: nobody has it, nor what is called behind it.
TEST_P(QuantiseTest, AnInputThatIsNotFiniteEndsTheGroupOnEveryRank) {
  for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    Group group = Make(3);
    std::vector<std::string> told(3);
    OnAll(group, [&](int rank, Communicator& comm) {
      Floats before(100, 1), data(50'000, 1), behind(100, 1);
      Succeed(AllReduce(before.data(), before.data(), before.size(), kFp32, RedOp::kSum, comm));
      // Everybody has that call behind them; who is slow may hear of the end in this one.
      static_cast<void>(Barrier(comm));
      if (rank == 1) data.back() = value;
      Request request, next;
      // Whoever is slow is told so when it calls.
      const Error refused =
          AllReduceAsync(data.data(), data.data(), data.size(), kFp32, RedOp::kSum, comm, &request);
      const Error also =
          AllReduceAsync(behind.data(), behind.data(), behind.size(), kFp32, RedOp::kSum, comm, &next);
      const Error error = refused.ok() ? request.Wait() : refused;
      EXPECT_EQ(error.code(), ErrorCode::kNotFinite) << error.message();
      EXPECT_EQ((also.ok() ? next.Wait() : also).message(), error.message());
      told[static_cast<size_t>(rank)] = error.message();
      EXPECT_EQ(comm.AsyncError().message(), error.message());
      EXPECT_EQ(Barrier(comm).code(), ErrorCode::kNotFinite);
      EXPECT_EQ(comm.Destroy().code(), ErrorCode::kNotFinite);
    });
    EXPECT_NE(told[0].find("rank 1 called AllReduce with "), std::string::npos) << told[0];
    EXPECT_NE(told[0].find(" as element 49999"), std::string::npos) << told[0];
    EXPECT_TRUE(told[1] == told[0] && told[2] == told[0]);
  }
}

// What each rank calls a sum of, or the least, is not the same.
TEST_P(QuantiseTest, CallsThatDifferAreToldAsTheyWereMade) {
  for (const RedOp op : {RedOp::kSum, RedOp::kMin}) {
    Group group = Make(3);
    OnAll(group, [&](int rank, Communicator& comm) {
      Numbers data(100);
      const Error error =
          AllReduce(data.data(), data.data(), data.size(), rank == 1 ? Datatype::kInt32 : kFp32, op, comm);
      EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
      EXPECT_NE(error.message().find(op == RedOp::kMin ? "rank 1 called with another type than rank 0"
                                                       : "rank 1 called with another op than rank 0"),
                std::string::npos)
          << error.message();
      EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, QuantiseTest, testing::Values(PathChoice::kNetwork, PathChoice::kHosts),
                         [](const auto& given) {
                           return given.param == PathChoice::kHosts ? "Hosts" : "Network";
                         });

TEST(QuantiseAloneTest, AGroupOfOneRankIsNoException) {
  Communicator comm;
  Succeed(comm.Init({.group = "g", .rank = 0, .size = 1, .quantise = 10, .environment = false}));
  Floats in = {0.25f, 0.36f, 3e9f}, out(3);
  Succeed(AllReduce(in.data(), out.data(), in.size(), kFp32, RedOp::kSum, comm));
  EXPECT_EQ(out, (Floats{0.2f, 0.4f, static_cast<float>(INT32_MAX / 10.0)}));
  EXPECT_EQ(comm.Quantised().saturated_inputs, 1u);
  EXPECT_EQ(comm.Quantised().saturated_results, 1u);
  in[1] = std::nanf("");
  const Error error = AllReduce(in.data(), out.data(), in.size(), kFp32, RedOp::kSum, comm);
  EXPECT_EQ(error.code(), ErrorCode::kNotFinite);
  EXPECT_NE(error.message().find("rank 0 called AllReduce with nan as element 1"), std::string::npos);
  EXPECT_EQ(comm.Destroy().code(), ErrorCode::kNotFinite);
}

}  // namespace
}  // namespace epic
