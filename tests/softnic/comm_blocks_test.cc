// Groups that share memory in a switch (docs/PROTOCOL-BLOCKS.md): the host library on softnic in virtual
// time, with a manager in this process (local_manager_testing.h). Also under ThreadSanitizer.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/softnic/local_calls_testing.h"

namespace epic {
namespace {

using softnic::AllCollectives;
using softnic::Group;
using softnic::LocalWorld;
using softnic::OnAll;
using softnic::Succeed;
using softnic::Sum;

class SharingTest : public testing::Test {
 protected:
  SharingTest() { world_.manager().SetAbilities({.asks = true}); }
  std::unique_ptr<Group> Make(int size) {
    return std::make_unique<Group>("g" + std::to_string(++groups_), size);
  }
  // What has been granted is given back soon after the last rank has its result.
  void ExpectFree() {
    for (int i = 0; i < 1000000 && world_.a_switch().IsBlockHeld(); ++i) std::this_thread::yield();
    EXPECT_FALSE(world_.a_switch().IsBlockHeld());
  }
  LocalWorld world_;
  int groups_ = 0;  // made, each with a name of its own
};

// Lengths that are inlined, in one slice, and in several.
TEST_F(SharingTest, AGroupAloneIsGrantedAllItAsksFor) {
  world_.manager().SetInvocationBytes(100'000);
  constexpr size_t kCounts[] = {0, 1, 100, 9000, 60'003};
  for (const int n : {2, 3}) {
    const auto group = Make(n);
    for (const size_t count : kCounts) AllCollectives(*group, count);
    for (int rank = 0; rank < n; ++rank) {
      const Communicator& comm = (*group)[rank];
      uint64_t asked = 0;
      for (const size_t count : kCounts) {
        if (count == 0) continue;  // as barriers
        const auto way = comm.PathOfReduceScatter(count, Datatype::kInt32, RedOp::kSum).path;
        asked += 7 + (way == PathChoice::kNetwork ? 1 : 0);
      }
      EXPECT_TRUE(comm.Shared().shares);
      EXPECT_EQ(comm.Shared().granted, asked);
      EXPECT_EQ(comm.Shared().busy, 0u);
    }
    group->Destroy();
  }
}

TEST_F(SharingTest, GroupsThatContendAreRightWhicheverWayTheyGo) {
  constexpr int kCalls = 60, kRanks = 3;
  std::vector<std::unique_ptr<Group>> groups;
  for (int g = 0; g < 3; ++g) groups.push_back(Make(kRanks));
  std::vector<std::thread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([&group] {
      OnAll(*group, [](int rank, Communicator& comm) {
        // Several at a time: what is behind a request waits for its answer.
        for (int call = 0; call < kCalls; call += 3) {
          std::vector<std::unique_ptr<Sum>> sums;
          for (const size_t count : {size_t{20}, size_t{5000}, size_t{30'000}}) {
            sums.push_back(std::make_unique<Sum>(rank, call, count));
            sums.back()->Start(comm);
          }
          for (const auto& sum : sums) sum->Finish(kRanks);
          if (call % 4 == 0) Succeed(Barrier(comm));
        }
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t granted = 0, busy = 0;
  for (const auto& group : groups) {
    const Sharing of_first = (*group)[0].Shared();
    EXPECT_EQ(of_first.granted + of_first.busy, uint64_t{kCalls});
    for (int rank = 1; rank < kRanks; ++rank) {
      EXPECT_EQ((*group)[rank].Shared().granted, of_first.granted) << "all ranks go the same way";
      EXPECT_EQ((*group)[rank].Shared().busy, of_first.busy);
    }
    granted += of_first.granted;
    busy += of_first.busy;
  }
  RecordProperty("busy", static_cast<int>(busy));
  EXPECT_GT(granted, 0u);
  for (const auto& group : groups) group->Destroy();
  ExpectFree();
}

// One rank has not called, so that the other group's ranks, which have, find the block free; and when it is
// theirs, not.
TEST_F(SharingTest, WhoHasTheBlockIsDecidedWhenAllHaveCalled) {
  const auto one = Make(2), other = Make(2);
  Sum early(0, 1, 100);
  early.Start((*one)[0]);
  OnAll(*other, [](int rank, Communicator& comm) {
    Sum sum(rank, 1, 100);
    sum.Start(comm);
    sum.Finish(2);
    EXPECT_EQ(comm.Shared().granted, 1u);
  });
  ExpectFree();
  Sum late(1, 1, 100);
  late.Start((*one)[1]);
  late.Finish(2);
  early.Finish(2);
  EXPECT_EQ((*one)[0].Shared().granted, 1u);
  one->Destroy();
  other->Destroy();
}

TEST_F(SharingTest, AMismatchIsToldByTheRequest) {
  const auto group = Make(2);
  OnAll(*group, [](int rank, Communicator& comm) {
    std::vector<int32_t> data(100 + static_cast<size_t>(rank));
    const Error error = AllReduce(data.data(), data.data(), data.size(), Datatype::kInt32, RedOp::kSum, comm);
    EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.message();
    EXPECT_NE(error.message().find("count"), std::string::npos) << error.message();
    EXPECT_EQ(comm.Destroy().code(), ErrorCode::kMismatch);
  });
}

// What waits behind a request ends with it.
TEST_F(SharingTest, AnAbortEndsWhatHasNotBegun) {
  const auto group = Make(2);
  Sum first(0, 1, 100), second(0, 2, 100);
  first.Start((*group)[0]);
  second.Start((*group)[0]);
  (*group)[0].Abort("enough");
  EXPECT_EQ(first.request.Wait().code(), ErrorCode::kAborted);
  EXPECT_EQ(second.request.Wait().code(), ErrorCode::kAborted);
  OnAll(*group, [](int, Communicator& comm) { EXPECT_EQ(comm.Destroy().code(), ErrorCode::kAborted); });
  ExpectFree();
}

TEST_F(SharingTest, ADeadlineEndsWhatHasNotBegun) {
  const auto group = Make(2);
  (*group)[0].SetTimeout(std::chrono::milliseconds(50));
  Sum first(0, 1, 100), second(0, 2, 100);
  first.Start((*group)[0]);
  second.Start((*group)[0]);
  EXPECT_EQ(first.request.Wait().code(), ErrorCode::kTimeout);
  EXPECT_EQ(second.request.Wait().code(), ErrorCode::kTimeout);
  OnAll(*group, [](int rank, Communicator& comm) {
    EXPECT_EQ(comm.Destroy().code(), rank == 0 ? ErrorCode::kTimeout : ErrorCode::kAborted);
  });
}

}  // namespace
}  // namespace epic
