// Calls between the hosts themselves: the host library on softnic in virtual time, with a manager in this
// process (local_manager_testing.h). Also under ThreadSanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::AllCollectives;
using softnic::Group;
using softnic::LocalWorld;
using softnic::Numbers;
using softnic::OnAll;
using softnic::Succeed;
using softnic::Sum;

TEST(CommHostsTest, AllCollectivesOfAllLengths) {
  for (const int size : {2, 3, 4, 5}) {
    LocalWorld world;
    Group group("g", size, PathChoice::kHosts);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{100}, size_t{9000}, size_t{100000}})
      AllCollectives(group, count);
    EXPECT_EQ(group[0].Path().path, PathChoice::kHosts);
    EXPECT_EQ(group[0].Path().reason, "asked for");
    group.Destroy();
  }
}

// Longer than what is staged at a time: slices, whose parts lie apart.
TEST(CommHostsTest, CallsInSlices) {
  LocalWorld world;
  Group group("g", 3, PathChoice::kHosts);
  AllCollectives(group, 3'000'001);
  group.Destroy();
}

TEST(CommHostsTest, CallsThatOverlap) {
  LocalWorld world;
  Group group("g", 3, PathChoice::kHosts);
  OnAll(group, [&](int rank, Communicator& comm) {
    std::vector<Sum> sums;
    for (int call = 0; call < 20; ++call) sums.emplace_back(rank, call, call % 3 == 0 ? 20000 : 10);
    for (Sum& sum : sums) sum.Start(comm);
    for (Sum& sum : sums) sum.Finish(3);
  });
  group.Destroy();
}

TEST(CommHostsTest, CallsThatDifferEndTheGroupOnEveryRank) {
  LocalWorld world;
  Group group("g", 3, PathChoice::kHosts);
  OnAll(group, [](int rank, Communicator& comm) {
    Numbers data(200);
    const Error error =
        AllReduce(data.data(), data.data(), rank == 2 ? 200 : 100, Datatype::kInt32, RedOp::kSum, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    EXPECT_NE(error.message().find("rank 2 called with another count"), std::string::npos) << error.message();
    EXPECT_EQ(comm.AsyncError().code(), ErrorCode::kMismatch);
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// What one rank calls is the first slice of what the other calls. By doubling a slice has at most 32 KiB
// - 64.
TEST(CommHostsTest, CallsThatDifferInTheirSlicesAlone) {
  LocalWorld world;
  setenv("EPIC_ALGORITHM", "doubling", 1);
  Group group("g", 2, PathChoice::kHosts);
  unsetenv("EPIC_ALGORITHM");
  OnAll(group, [](int rank, Communicator& comm) {
    constexpr size_t kSlice = 31 * 1024;
    std::vector<uint8_t> data(2 * kSlice, static_cast<uint8_t>(rank));
    Succeed(Broadcast(data.data(), data.data(), 2 * kSlice, Datatype::kByte, 1, comm));
    EXPECT_EQ(data, std::vector<uint8_t>(2 * kSlice, 1));
    const Error error =
        Broadcast(data.data(), data.data(), rank == 0 ? kSlice : 2 * kSlice, Datatype::kByte, 0, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    const std::string why = rank == 0 ? "rank 1 called with another count than rank 0 (rank 0: 31744)"
                                      : "rank 1 called with another count than rank 0";
    EXPECT_EQ(error.message(), why);
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// Each call is its rank's; who is told by the manager first has the bare words.
void ExpectMismatch(Group& group, const std::function<Error(int rank, Communicator& comm)>& call,
                    const std::string& told, const std::vector<std::string>& values) {
  OnAll(group, [&](int rank, Communicator& comm) {
    const Error error = call(rank, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    const std::string& more = values[static_cast<size_t>(rank)];
    EXPECT_TRUE(error.message() == told || error.message() == told + more) << error.message();
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// By another type or algorithm a call has slices of another length; that is not what differs.
TEST(CommHostsTest, CallsInSlicesThatDifferInMoreThanTheirLength) {
  LocalWorld world;
  {
    Group group("types", 2, PathChoice::kHosts);
    std::vector<double> data(2 * 3'000'000);
    ExpectMismatch(group,
                   [&data](int rank, Communicator& comm) {
                     double* const mine = data.data() + rank * 3'000'000;
                     return AllReduce(mine, mine, 3'000'000,
                                      rank == 0 ? Datatype::kFloat64 : Datatype::kFloat32, RedOp::kSum, comm);
                   },
                   "rank 1 called with another type than rank 0",
                   {" (rank 0: float64)", " (rank 0: float64, rank 1: float32)"});
  }
  Group group("algorithms", 2, PathChoice::kHosts, {HostAlgorithm::kRing, HostAlgorithm::kDoubling});
  Numbers data(2 * 100'000);
  ExpectMismatch(group,
                 [&data](int rank, Communicator& comm) {
                   int32_t* const mine = data.data() + rank * 100'000;
                   return AllReduce(mine, mine, 100'000, Datatype::kInt32, RedOp::kSum, comm);
                 },
                 "rank 1 called with another algorithm than rank 0",
                 {" (rank 0: ring)", " (rank 0: ring, rank 1: doubling)"});
}

// Slices are counted in 24 bits, and those of doubling are short. A call that is refused touches nothing.
TEST(CommHostsTest, MoreSlicesThanCanBeCounted) {
  LocalWorld world;
  setenv("EPIC_ALGORITHM", "doubling", 1);
  Group group("g", 2, PathChoice::kHosts);
  unsetenv("EPIC_ALGORITHM");
  OnAll(group, [](int, Communicator& comm) {
    uint8_t data = 0;
    const Error error = Broadcast(&data, &data, size_t{1} << 40, Datatype::kByte, 0, comm);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
    EXPECT_NE(error.message().find("at most 16777216 invocations"), std::string::npos) << error.message();
    Succeed(Barrier(comm));
  });
  group.Destroy();
}

TEST(CommHostsTest, AnAbortEndsTheCallsOfAllRanks) {
  LocalWorld world;
  Group group("g", 3, PathChoice::kHosts);
  OnAll(group, [](int rank, Communicator& comm) {
    if (rank == 1) return comm.Abort("enough");
    Numbers data(1 << 20);
    const Error error = AllReduce(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kSum, comm);
    EXPECT_EQ(error.code(), ErrorCode::kAborted) << error.message();
    EXPECT_EQ(error.message(), "enough");
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group[rank].Destroy().code(), ErrorCode::kAborted);
}

// Rank 2 does not call.
TEST(CommHostsTest, ADeadlineEndsTheCallsOfAllRanks) {
  LocalWorld world;
  Group group("g", 3, PathChoice::kHosts);
  group[0].SetTimeout(std::chrono::milliseconds(50));
  OnAll(group, [](int rank, Communicator& comm) {
    if (rank == 2) return;
    Numbers data(10);
    const Error error = AllReduce(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kSum, comm);
    const ErrorCode expected = rank == 0 ? ErrorCode::kTimeout : ErrorCode::kAborted;
    EXPECT_EQ(error.code(), expected) << error.message();
    EXPECT_EQ(comm.Destroy().code(), expected);
  });
  EXPECT_EQ(group[2].Destroy().code(), ErrorCode::kAborted);
}

// In a group with a switch, which lacks some: their control packets go through it, the data between the
// hosts.
TEST(CommHostsTest, WhatTheSwitchLacksGoesBetweenTheHosts) {
  LocalWorld world;
  internal::GroupAbilities abilities{.has = Abilities::First(),
                                     .where = {{"operation product", "s1 (version 0.1.0)"}}};
  world.manager().SetAbilities(abilities);
  Group group("g", 3);
  EXPECT_EQ(group[0].Path().path, PathChoice::kNetwork);
  EXPECT_EQ(group[0].PathOf(Datatype::kInt32, RedOp::kSum).path, PathChoice::kNetwork);
  EXPECT_EQ(group[0].PathOf(Datatype::kInt32, RedOp::kProduct).path, PathChoice::kHosts);
  EXPECT_EQ(group[0].PathOf(Datatype::kInt32, RedOp::kProduct).reason,
            "operation product is not in s1 (version 0.1.0)");
  EXPECT_EQ(group[0].PathOf(Datatype::kFloat64).path, PathChoice::kNetwork) << "as bytes";
  EXPECT_EQ(group[0].PathOf(Datatype::kFloat64, RedOp::kBitOr).path, PathChoice::kDefault) << "refused";
  OnAll(group, [](int rank, Communicator& comm) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{100000}}) {
      // By the network and between the hosts in turn, several outstanding.
      Sum before(rank, 1, count), after(rank, 2, count);
      before.Start(comm);
      Numbers product(count, rank + 1);
      Request request;
      Succeed(AllReduceAsync(product.data(), product.data(), count, Datatype::kInt32, RedOp::kProduct, comm,
                             &request));
      after.Start(comm);
      Succeed(request.Wait());
      EXPECT_EQ(product, Numbers(count, 6));
      after.Finish(3);
      before.Finish(3);
      std::vector<int64_t> wide(count, rank), least(count, -1);
      Succeed(Reduce(wide.data(), least.data(), count, Datatype::kInt64, RedOp::kMin, 1, comm));
      EXPECT_EQ(least, std::vector<int64_t>(count, rank == 1 ? 0 : -1));
    }
  });
  group.Destroy();
}

// The switch sees to the agreement of these too.
TEST(CommHostsTest, CallsThatDifferInAGroupWithASwitch) {
  LocalWorld world;
  world.manager().SetAbilities({.has = Abilities::First()});
  Group group("g", 3);
  OnAll(group, [](int rank, Communicator& comm) {
    Numbers data(100, 1);
    const Error error = AllReduce(data.data(), data.data(), data.size(), Datatype::kInt32,
                                  rank == 1 ? RedOp::kBitAnd : RedOp::kProduct, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    EXPECT_NE(error.message().find("another op"), std::string::npos) << error.message();
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// A group's switch could serve it; by the switch all of the data would pass a host's link.
TEST(CommHostsTest, ALargeReduceScatterGoesBetweenTheHosts) {
  LocalWorld world;
  world.manager().SetAbilities({});
  Group group("g", 3);
  constexpr size_t kLeast = size_t{3} * 2 * (24 << 10) / (3 * 4);  // elements of a share
  const auto path_of = [&](size_t count) {
    return group[0].PathOfReduceScatter(count, Datatype::kInt32, RedOp::kSum);
  };
  EXPECT_EQ(path_of(kLeast - 1).path, PathChoice::kNetwork);
  EXPECT_EQ(path_of(kLeast).path, PathChoice::kHosts);
  EXPECT_EQ(
      path_of(kLeast).reason,
      "reducescatter of 144 KiB and more: around the ring 2/3 of the data pass a host's link, through the "
      "switches all of them");
  OnAll(group, [](int rank, Communicator& comm) {
    for (const size_t count : {kLeast - 1, kLeast, 3 * kLeast}) {
      Sum before(rank, 1, 1000), after(rank, 2, 1000);
      before.Start(comm);
      Numbers shares(3 * count), mine(count, -1);
      for (size_t i = 0; i < shares.size(); ++i) shares[i] = rank + static_cast<int32_t>(i);
      Request request;
      Succeed(ReduceScatterAsync(shares.data(), mine.data(), count, Datatype::kInt32, RedOp::kSum, comm,
                                 &request));
      after.Start(comm);
      Succeed(request.Wait());
      Numbers expected(count);
      for (size_t i = 0; i < count; ++i)
        expected[i] = 3 + 3 * static_cast<int32_t>(static_cast<size_t>(rank) * count + i);
      EXPECT_EQ(mine, expected);
      after.Finish(3);
      before.Finish(3);
    }
  });
  group.Destroy();
}

// One of them is long enough to go between the hosts.
TEST(CommHostsTest, ReduceScattersThatDifferInTheirLengthAreNamedByIt) {
  LocalWorld world;
  world.manager().SetAbilities({});
  Group group("g", 2);
  std::vector<int32_t> data(4 * 100'000);
  ExpectMismatch(group,
                 [&data](int rank, Communicator& comm) {
                   const size_t count = rank == 0 ? 100 : 100'000;
                   int32_t* const mine = data.data() + rank * 200'000;
                   return ReduceScatter(mine, mine + static_cast<size_t>(rank) * count, count,
                                        Datatype::kInt32, RedOp::kSum, comm);
                 },
                 "rank 1 called with another count than rank 0",
                 {" (rank 0: 100)", " (rank 0: 100, rank 1: 100000)"});
}

// They agree on how the hosts compute what a switch lacks, which is nothing to calls by the network.
TEST(CommHostsTest, AlgorithmsThatDifferInAGroupWithASwitch) {
  LocalWorld world;
  world.manager().SetAbilities({.has = Abilities::First()});
  Group group("g", 3, PathChoice::kNetwork,
              {HostAlgorithm::kDoubling, HostAlgorithm::kRing, HostAlgorithm::kDoubling});
  OnAll(group, [](int rank, Communicator& comm) {
    Sum sum(rank, 1, 100);
    sum.Start(comm);
    sum.Finish(3);
    int64_t product = 2;
    const Error error = AllReduce(&product, &product, 1, Datatype::kInt64, RedOp::kProduct, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    EXPECT_NE(error.message().find("called with another algorithm"), std::string::npos) << error.message();
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// By each algorithm, calls with an exchange and around the ring in turn; the slices of doubling are short.
TEST(CommHostsTest, TheAlgorithmHoldsForWhatTheSwitchLacks) {
  for (const auto algorithm : {HostAlgorithm::kAuto, HostAlgorithm::kDoubling, HostAlgorithm::kRing}) {
    LocalWorld world;
    world.manager().SetAbilities({.has = Abilities::First()});
    Group group("g", 5, PathChoice::kNetwork, std::vector(5, algorithm));
    OnAll(group, [algorithm](int rank, Communicator& comm) {
      for (int call = 0; call < 6; ++call) {
        const size_t count = call % 2 == 0 ? 1 : 20'000;
        std::vector<int64_t> least(count, rank - call), sum(count, rank);
        Request request;
        Succeed(
            AllReduceAsync(least.data(), least.data(), count, Datatype::kInt64, RedOp::kMin, comm, &request));
        Succeed(AllReduce(sum.data(), sum.data(), count, Datatype::kInt64, RedOp::kProduct, comm));
        Succeed(request.Wait());
        EXPECT_EQ(least, std::vector<int64_t>(count, -call));
        EXPECT_EQ(sum, std::vector<int64_t>(count, 0));
      }
      if (algorithm != HostAlgorithm::kDoubling) return;
      uint8_t data = 1;
      const Error error = AllReduce(&data, &data, size_t{1} << 40, Datatype::kUint8, RedOp::kBitOr, comm);
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
      EXPECT_NE(error.message().find("at most 16777216 invocations"), std::string::npos) << error.message();
    });
    group.Destroy();
  }
}

// A group of one: no manager, no port; the calls are copies.
TEST(CommHostsTest, OneRankNeedsNobody) {
  Communicator comm;
  Succeed(comm.Init({.rank = 0, .size = 1}));
  EXPECT_EQ(comm.Path().path, PathChoice::kHosts);
  EXPECT_EQ(comm.Path().reason, "the group has one rank");
  const Numbers in = {0, 5, -7};
  Numbers out(3);
  Registration registration;
  Succeed(Register(comm, out.data(), 12, &registration));
  for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kProduct}) {
    out.assign(3, 1);
    Succeed(AllReduce(in.data(), out.data(), 3, Datatype::kInt32, op, comm));
    EXPECT_EQ(out, in);
  }
  Succeed(AllReduce(in.data(), out.data(), 3, Datatype::kInt32, RedOp::kLogicalOr, comm));
  EXPECT_EQ(out, (Numbers{0, 1, 1}));
  out = in;
  Succeed(ReduceScatter(out.data(), out.data(), 3, Datatype::kInt32, RedOp::kLogicalAnd, comm));
  EXPECT_EQ(out, (Numbers{0, 1, 1})) << "in place";
  Request request;
  Succeed(AllGatherAsync(in.data(), out.data(), 3, Datatype::kInt32, comm, &request));
  EXPECT_TRUE(request.Test());
  Succeed(request.Wait());
  EXPECT_EQ(out, in);
  Succeed(Broadcast(in.data(), out.data(), 3, Datatype::kInt32, 0, comm));
  Succeed(Reduce(in.data(), out.data(), 3, Datatype::kInt32, RedOp::kMax, 0, comm));
  Succeed(Barrier(comm));
  std::vector<TroubleCount> trouble(1);
  Succeed(comm.Trouble(&trouble));
  EXPECT_TRUE(trouble.empty());
  WaitState waits{.words = "of before"};
  Succeed(comm.Waiting(&waits));
  EXPECT_TRUE(waits.words.empty() && waits.call == -1);
  EXPECT_EQ(AllReduce(in.data(), out.data(), 3, Datatype::kInt32, RedOp::kSum, comm).code(), ErrorCode::kOk);
  registration.Reset();
  Succeed(comm.AsyncError());
  Succeed(comm.Destroy());
  Succeed(comm.Init({.rank = 0, .size = 1}));
  comm.Abort("enough");
  EXPECT_EQ(Barrier(comm).code(), ErrorCode::kAborted);
  EXPECT_EQ(comm.Destroy().code(), ErrorCode::kAborted);
}

}  // namespace
}  // namespace epic
