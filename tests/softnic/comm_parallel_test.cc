// Several ranks on each host: ParallelCommunicators of ranks in this process, which say on which host they
// are, over softnic in virtual time and a manager in this process (local_manager_testing.h). Also under
// ThreadSanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "epic/epic_c.h"
#include "epic/parallel.h"
#include "tests/softnic/fork_testing.h"
#include "tests/softnic/local_parallel_testing.h"

namespace epic {
namespace {

using softnic::Job;
using softnic::LocalWorld;
using softnic::Numbers;
using softnic::Succeed;
using softnic::SumOf;
using softnic::Sums;
using testing::AllOf;
using testing::HasSubstr;

void SumsOfAllLengths(const std::vector<std::string>& hosts, PathChoice path) {
  LocalWorld world;
  Job job("g", hosts, path);
  job.MustInit();
  EXPECT_EQ(job[0].ring().Path().path, path);
  Sums(job, {0, 1, 2, 5, 6, 20'011});
  job.Destroy();
}

TEST(CommParallelTest, AllLengthsOnHostsOfSeveralRanks) {
  SumsOfAllLengths({"a", "b", "a", "b"}, PathChoice::kHosts);
  SumsOfAllLengths({"a", "a", "a", "b", "b", "b"}, PathChoice::kNetwork);
  SumsOfAllLengths({"a", "a", "b", "b", "c", "c"}, PathChoice::kHosts);
}

TEST(CommParallelTest, OneHostAndOneRankOnEach) {
  for (const auto& hosts : {std::vector<std::string>{"a", "a", "a"}, {"a", "b", "c"}, {"a"}}) {
    LocalWorld world;
    Job job("g", hosts);
    job.MustInit();
    Sums(job, {0, 1, 3, 1000});
    job.Destroy();
  }
}

TEST(CommParallelTest, WhoIsWhere) {
  LocalWorld world;
  Job job("g", {"a", "b", "b", "a"});
  job.MustInit();
  ParallelCommunicator& comm = job[2];
  EXPECT_EQ((std::vector<int>{comm.rank(), comm.size(), comm.local_rank(), comm.local_size(), comm.host(),
                              comm.hosts()}),
            (std::vector<int>{2, 4, 1, 2, 1, 2}));
  EXPECT_EQ(comm.ring().rank(), 1);
  EXPECT_EQ(comm.ring().size(), 2);
  job.Destroy();
  EXPECT_EQ(comm.rank(), -1);
  EXPECT_EQ(comm.AsyncError().code(), ErrorCode::kInvalidArgument);
}

// Five elements: two shares of two, and one that is left. Rank r gives `from` + r in each.
template <typename T>
void Five(Job& job, Datatype type, RedOp op, T from, T expected) {
  SCOPED_TRACE(fmt::format("{} {}", DatatypeName(type), RedOpName(op)));
  job.OnAll([&](int rank, ParallelCommunicator& comm) {
    std::vector<T> data(5, static_cast<T>(from + static_cast<T>(rank)));
    Succeed(AllReduce(data.data(), data.data(), data.size(), type, op, comm));
    EXPECT_EQ(data, std::vector<T>(5, expected)) << "rank " << rank;
  });
}

TEST(CommParallelTest, AllTypesAndOperations) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  Five<float>(job, Datatype::kFloat32, RedOp::kSum, 0.5F, 8);
  Five<double>(job, Datatype::kFloat64, RedOp::kAvg, 0.5, 2);
  Five<int8_t>(job, Datatype::kInt8, RedOp::kMin, -7, -7);
  Five<uint8_t>(job, Datatype::kUint8, RedOp::kMax, 7, 10);
  Five<int16_t>(job, Datatype::kInt16, RedOp::kProduct, 1, 24);
  Five<uint16_t>(job, Datatype::kUint16, RedOp::kBitAnd, 4, 4);
  Five<uint32_t>(job, Datatype::kUint32, RedOp::kBitOr, 4, 7);
  Five<int64_t>(job, Datatype::kInt64, RedOp::kBitXor, 1, 1 ^ 2 ^ 3 ^ 4);
  Five<uint64_t>(job, Datatype::kUint64, RedOp::kLogicalAnd, 0, 0);
  Five<int32_t>(job, Datatype::kInt32, RedOp::kLogicalOr, 0, 1);
  // Sixteen bits: one and a half of each, 0x3e00 and 0x3fc0.
  job.OnAll([](int, ParallelCommunicator& comm) {
    std::vector<uint16_t> half(5, 0x3e00), brain(5, 0x3fc0);
    Succeed(AllReduce(half.data(), half.data(), 5, Datatype::kFloat16, RedOp::kSum, comm));
    Succeed(AllReduce(brain.data(), brain.data(), 5, Datatype::kBFloat16, RedOp::kSum, comm));
    EXPECT_EQ(half, std::vector<uint16_t>(5, 0x4600));
    EXPECT_EQ(brain, std::vector<uint16_t>(5, 0x40c0));
  });
  job.Destroy();
}

// The sum of 3, 0, 3 and 2 is 8; the averages of the hosts are 1 and 2, whose average is 1.
TEST(CommParallelTest, AnAverageIsRoundedOnce) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job.OnAll([](int rank, ParallelCommunicator& comm) {
    const Numbers values = {3, 0, 3, 2};
    Numbers data(7, values[static_cast<size_t>(rank)]);
    Succeed(AllReduce(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kAvg, comm));
    EXPECT_EQ(data, Numbers(7, 2));
  });
  job.Destroy();
}

TEST(CommParallelTest, HostsWithDifferentNumbersOfRanks) {
  LocalWorld world;
  Job job("g", {"a", "a", "b"});
  for (const Error& error : job.Init()) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
    EXPECT_THAT(error.message(), AllOf(HasSubstr("(a) has 2 ranks"), HasSubstr("(b) has 1 rank")));
  }
  EXPECT_FALSE(job[0].valid());
}

// Who cannot join its host's group or its ring holds up nobody: those that wait for it there give up.
TEST(CommParallelTest, ARankThatCannotJoinEndsInitOnAll) {
  for (const std::string group : {"g.host-0", "g.ring-1"}) {
    LocalWorld world;
    world.manager().Refuse(group, 1);
    Job job("g", {"a", "a", "b", "b"}, PathChoice::kNetwork);
    for (const Error& error : job.Init()) {
      EXPECT_FALSE(error.ok()) << group;
      EXPECT_THAT(error.message(), HasSubstr("refused")) << group;
    }
  }
}

TEST(CommParallelTest, OtherCollectivesAreRefusedAndNamed) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job.OnAll([&](int rank, ParallelCommunicator& comm) {
    Numbers data = softnic::Given(rank, 4);
    constexpr auto kInt = Datatype::kInt32;
    const auto refused = [](const Error& error, const std::string& name) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(error.message(), HasSubstr(name + " is no call of a ParallelCommunicator"));
    };
    refused(Reduce(data.data(), data.data(), 4, kInt, RedOp::kSum, 0, comm), "Reduce");
    refused(Broadcast(data.data(), data.data(), 4, kInt, 0, comm), "Broadcast");
    refused(ReduceScatter(data.data(), data.data(), 1, kInt, RedOp::kSum, comm), "ReduceScatter");
    refused(AllGather(data.data(), data.data(), 1, kInt, comm), "AllGather");
    refused(Barrier(comm), "Barrier");
    EXPECT_EQ(AllReduce(data.data(), data.data(), 4, Datatype::kByte, RedOp::kSum, comm).code(),
              ErrorCode::kUnsupported);
    EXPECT_EQ(AllReduce(nullptr, data.data(), 4, kInt, RedOp::kSum, comm).code(),
              ErrorCode::kInvalidArgument);
    Succeed(SumOf(&data, comm));
    EXPECT_EQ(data, softnic::SumOfAll(4, 4));
    data.assign(4, rank);
    Succeed(Broadcast(data.data(), data.data(), 4, kInt, 3, comm.everyone()));
    EXPECT_EQ(data, Numbers(4, 3));
  });
  job.Destroy();
}

// One ring alone could not do it; the others do not begin with it either.
TEST(CommParallelTest, WhatOneRingLacksIsRefusedOnAll) {
  LocalWorld world;
  world.manager().SetAbilitiesOf(
      "g.ring-1", {.has = Abilities::First(), .where = {{"operation product", "s1 (version 0.1.0)"}}});
  Job job("g", {"a", "a", "b", "b"}, PathChoice::kNetwork);
  job.MustInit();
  job.OnAll([](int rank, ParallelCommunicator& comm) {
    Numbers data(10, 2);
    const Error error = AllReduce(data.data(), data.data(), 10, Datatype::kInt32, RedOp::kProduct, comm);
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(
        error.message(),
        HasSubstr(rank % 2 == 1 ? "operation product is not in s1"
                                : "operation product of type int32 is not in the switches of another ring"));
    Succeed(SumOf(&data, comm));
    EXPECT_EQ(data, Numbers(10, 8));
  });
  job.Destroy();
}

// All ranks of a host make the calls of `counts`, those of the other host others.
void ExpectMismatch(const std::vector<size_t>& on_a, const std::vector<size_t>& on_b) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job.OnAll([&](int rank, ParallelCommunicator& comm) {
    Error error;
    for (const size_t count : rank < 2 ? on_a : on_b) {
      Numbers data(count, 1);
      if (error.ok()) error = SumOf(&data, comm);
    }
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    EXPECT_EQ(comm.AsyncError().code(), ErrorCode::kMismatch);
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// A share of the one host has the length of what is left on the other.
TEST(CommParallelTest, ARestIsNoShareOfAnotherHost) {
  ExpectMismatch({2}, {1});
  ExpectMismatch({7}, {6, 2});
}

TEST(CommParallelTest, CallsThatDifferOnOneHostEndAllRanks) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job.OnAll([&](int rank, ParallelCommunicator& comm) {
    Numbers data(rank == 3 ? 100 : 200);
    const Error error = SumOf(&data, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("host 1: rank 1 called with another count than rank 0"));
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// One group of `fails`, NAME's part behind the dot, ends with a lost rank. Rank 3 calls when the others have
// returned, so that these wait in different stages and groups: some for rank 3, which says nothing.
void ExpectLostEverywhere(const std::string& fails, const std::string& words) {
  SCOPED_TRACE(fails);
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  std::latch others(3);
  std::thread manager([&] { world.manager().Fail("g." + fails, {ErrorCode::kRankLost, "rank 1 is lost"}); });
  job.OnAll([&](int rank, ParallelCommunicator& comm) {
    Numbers data(100, 1);
    if (rank == 3) others.wait();
    const Error error = SumOf(&data, comm);
    EXPECT_EQ(error.code(), ErrorCode::kRankLost) << error.message();
    EXPECT_EQ(error.message(), words);
    if (rank != 3) others.count_down();
    EXPECT_EQ(SumOf(&data, comm).code(), ErrorCode::kRankLost);
    EXPECT_EQ(comm.AsyncError().message(), words);
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kRankLost);
  });
  manager.join();
}

TEST(CommParallelTest, ALostRankOfOneGroupEndsAllRings) {
  ExpectLostEverywhere("ring-1", "ring 1: rank 1 is lost");
  ExpectLostEverywhere("host-1", "host 1: rank 1 is lost");
  ExpectLostEverywhere("all", "rank 1 is lost");
}

TEST(CommParallelTest, AnAbortEndsAllRanks) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job.OnAll([](int rank, ParallelCommunicator& comm) {
    Numbers data(100);
    if (rank == 2) comm.Abort("enough");
    const Error error = SumOf(&data, comm);
    EXPECT_EQ(error.code(), ErrorCode::kAborted) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("enough"));
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kAborted);
  });
}

TEST(CommParallelTest, ADeadlineOfOneRankEndsAll) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job[0].SetTimeout(std::chrono::milliseconds(50));
  job.OnAll([](int rank, ParallelCommunicator& comm) {
    Numbers data(100);
    if (rank == 1) return;
    const ErrorCode expected = rank == 0 ? ErrorCode::kTimeout : ErrorCode::kAborted;
    const Error error = SumOf(&data, comm);
    EXPECT_EQ(error.code(), expected) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("host 0: call 0 did not end before its deadline"));
    EXPECT_EQ(comm.Destroy().code(), expected);
  });
  EXPECT_EQ(job[1].Destroy().code(), ErrorCode::kAborted);
}

// Without Destroy.
TEST(CommParallelTest, OneThatIsDroppedEndsAllRanks) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job[1] = ParallelCommunicator();
  job.OnAll([](int rank, ParallelCommunicator& comm) {
    Numbers data(100);
    EXPECT_EQ(SumOf(&data, comm).code(), rank == 1 ? ErrorCode::kInvalidArgument : ErrorCode::kAborted);
    EXPECT_EQ(comm.Destroy().code(), rank == 1 ? ErrorCode::kInvalidArgument : ErrorCode::kAborted);
  });
}

// They come one after the other, whatever the threads do.
TEST(CommParallelTest, CallsOfSeveralThreads) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  job.OnAll([&](int, ParallelCommunicator& comm) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&comm] {
        for (int call = 0; call < 5; ++call) {
          Numbers data(101, 1);
          Succeed(SumOf(&data, comm));
          EXPECT_EQ(data, Numbers(101, 4));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  job.Destroy();
}

// A child's copy does nothing, and its end leaves the parent's groups alone.
TEST(CommParallelTest, AChildOfForkLeavesItAlone) {
  LocalWorld world;
  Job job("g", {"a", "a", "b", "b"});
  job.MustInit();
  EXPECT_EQ(softnic::testing::InChild([&] {
              Numbers data(4);
              const bool refused =
                  SumOf(&data, job[0]).code() == ErrorCode::kInvalidArgument &&
                  job[0].AsyncError().code() == ErrorCode::kInvalidArgument &&
                  job[1].Destroy().code() == ErrorCode::kInvalidArgument &&
                  ParallelCommunicator().Init({.rank = 0, .size = 1}).code() == ErrorCode::kInvalidArgument;
              job[0].Abort();
              job[2] = ParallelCommunicator();
              return refused;
            }),
            0);
  Sums(job, {5});
  job.Destroy();
}

// The C interface has the same.
TEST(CommParallelTest, InC) {
  LocalWorld world;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([rank] {
      epicParallelComm_t comm = nullptr;
      ASSERT_EQ(epicParallelInitRank(&comm, 4, "g", "local", rank, rank < 2 ? "a" : "b"), epicSuccess)
          << epicGetLastError();
      int number = -1, count = 0, local_rank = -1, local_count = 0;
      EXPECT_EQ(epicParallelRanks(comm, &number, &count, &local_rank, &local_count), epicSuccess);
      EXPECT_EQ((Numbers{number, count, local_rank, local_count}), (Numbers{rank, 4, rank % 2, 2}));
      EXPECT_EQ(epicParallelRanks(comm, nullptr, nullptr, nullptr, nullptr), epicSuccess);
      epicPath_t path = epicPathHosts;
      const char* reason = nullptr;
      EXPECT_EQ(epicParallelPath(comm, &path, &reason), epicSuccess);
      EXPECT_EQ(path, epicPathNetwork);
      EXPECT_STREQ(reason, "");
      EXPECT_EQ(epicParallelSetTimeout(comm, 60), epicSuccess);
      EXPECT_EQ(epicParallelSetTimeout(comm, -1), epicInvalidArgument);
      Numbers data(7, rank);
      EXPECT_EQ(epicParallelAllReduce(data.data(), data.data(), 7, epicInt32, epicSum, comm), epicSuccess);
      EXPECT_EQ(data, Numbers(7, 6));
      EXPECT_EQ(
          epicParallelAllReduce(data.data(), data.data(), 7, static_cast<epicDataType_t>(99), epicSum, comm),
          epicUnsupported);
      epicResult_t error = epicInternalError;
      EXPECT_EQ(epicParallelGetAsyncError(comm, &error), epicSuccess);
      EXPECT_EQ(error, epicSuccess);
      EXPECT_EQ(epicParallelDestroy(comm), epicSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  epicParallelComm_t none = nullptr;
  EXPECT_EQ(epicParallelInitRank(&none, 2, "g", "local", 2, nullptr), epicInvalidArgument);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(epicParallelDestroy(nullptr), epicInvalidArgument);
  EXPECT_EQ(epicParallelAbort(nullptr), epicInvalidArgument);
}

}  // namespace
}  // namespace epic
