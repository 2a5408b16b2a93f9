#include "incmanager/rpc/rank_waits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace epic::manager {
namespace {

void SetCall(proto::MadeCall* call, int64_t number, uint64_t ms, const char* collective) {
  call->set_number(number);
  call->set_ms(ms);
  call->set_collective(collective);
}

// A group of four ranks by the hosts; what they say can be changed before Wait.
class HostsWait {
 public:
  HostsWait() {
    for (const uint32_t rank : {0u, 1u, 2u, 3u}) {
      group.add_rank_hosts("h" + std::to_string(rank));
      group.add_joined_ranks(rank);
      asked.insert(rank);
      calls[rank].set_made(17);
    }
  }
  // The rank has made this call, and it has not ended.
  void Open(uint32_t rank, int64_t number, uint64_t ms, const char* collective = "allreduce") {
    calls[rank].set_made(number + 1);
    SetCall(calls[rank].add_open(), number, ms, collective);
  }
  proto::CallWait Wait() {
    proto::GroupState state = group;
    AddHostsWait(calls, asked, &state);
    tells = state.tells_waits();
    return state.wait();
  }
  std::string Words() { return Wait().words(); }

  proto::GroupState group;
  std::map<uint32_t, proto::CallsMade> calls;
  std::set<uint32_t> asked;
  bool tells = false;
};

TEST(HostsWaits, ForNobodyIfNoCallIsOpen) {
  HostsWait group;
  EXPECT_EQ(group.Words(), "");
  EXPECT_TRUE(group.tells);
  group.asked.clear();
  group.calls.clear();
  EXPECT_EQ(group.Words(), "") << "ranks of an earlier version";
  EXPECT_FALSE(group.tells);
}

TEST(HostsWaits, ForThoseThatHaveNotCalled) {
  HostsWait group;
  group.Open(0, 17, 4200);
  group.Open(2, 17, 3900);
  group.Open(3, 17, 4100);
  EXPECT_EQ(group.Words(),
            "allreduce 17: waits for rank 1 (h1) since 4.2 s; ranks 0, 2, 3 have called; rank 1 is in no call: "
            "it computes, or waits for something else");
  EXPECT_EQ(group.Wait().why(), proto::CallWait::WHY_NOT_CALLED);
  // Others are further ahead: it is the first call that counts.
  group.Open(3, 18, 100, "barrier");
  EXPECT_EQ(group.Wait().call(), 17);
  EXPECT_EQ(group.Wait().collective(), "allreduce");
}

TEST(HostsWaits, WhatBeganFirstStandsStillFirst) {
  HostsWait group;
  for (const uint32_t rank : {0u, 1u, 2u, 3u}) group.Open(rank, 17, 4200);
  group.Open(0, 18, 100, "barrier");
  EXPECT_EQ(group.Wait().call(), 17);
  EXPECT_EQ(group.Wait().collective(), "allreduce");
  EXPECT_EQ(group.Wait().why(), proto::CallWait::WHY_UNDER_WAY);
}

TEST(HostsWaits, SaysWhatTheyDoInstead) {
  HostsWait group;
  group.Open(0, 17, 4200);
  SetCall(group.calls[1].add_elsewhere()->mutable_call(), 3, 4000, "broadcast");
  group.calls[1].mutable_elsewhere(0)->set_group("b");
  group.calls[1].mutable_elsewhere(0)->set_waits(true);
  group.calls[2].set_leaves(true);
  group.calls.erase(3);
  const proto::CallWait wait = group.Wait();
  EXPECT_EQ(wait.words(),
            "allreduce 17: waits for ranks 1 (h1), 2 (h2) since 4.2 s; rank 0 has called; rank 1 waits in group b "
            "(broadcast 3 since 4.0 s); rank 2 has called Destroy; rank 3 does not answer: stopped, or without a "
            "processor");
  ASSERT_EQ(wait.doing_size(), 3);
  EXPECT_EQ(wait.doing(0).what(), proto::CallWait::Doing::WHAT_ELSEWHERE);
  EXPECT_EQ(wait.doing(2).what(), proto::CallWait::Doing::WHAT_SILENT);
}

// Two groups that are called in another order: each waits for who waits in the other one.
TEST(HostsWaits, NamesThoseTogetherThatDoTheSame) {
  HostsWait group;
  group.Open(1, 17, 4200);
  for (const uint32_t rank : {0u, 2u, 3u}) {
    proto::CallsMade::Elsewhere& elsewhere = *group.calls[rank].add_elsewhere();
    elsewhere.set_group("a");
    elsewhere.set_waits(true);
    SetCall(elsewhere.mutable_call(), 2, 4000 + 100 * rank, "allreduce");
  }
  EXPECT_EQ(group.Words(),
            "allreduce 17: waits for ranks 0 (h0), 2 (h2), 3 (h3) since 4.2 s; rank 1 has called; ranks 0, 2, 3 wait "
            "in group a (allreduce 2 since 4.3 s)");
}

// A call that does not wait, as MPI_Iallreduce: nobody knows whether the program waits for it.
TEST(HostsWaits, SaysWhichCallIsOpenElsewhere) {
  HostsWait group;
  group.Open(0, 17, 4200);
  proto::CallsMade::Elsewhere& elsewhere = *group.calls[1].add_elsewhere();
  elsewhere.set_group("b");
  SetCall(elsewhere.mutable_call(), 3, 4000, "broadcast");
  for (const uint32_t rank : {2u, 3u}) group.Open(rank, 17, 4200);
  EXPECT_EQ(group.Words(),
            "allreduce 17: waits for rank 1 (h1) since 4.2 s; ranks 0, 2, 3 have called; rank 1 is in no call "
            "(broadcast 3 of group b is open since 4.0 s): it computes, or waits for something else");
}

TEST(HostsWaits, AsItSeemsForThoseThatDoNotAnswer) {
  HostsWait group;
  for (const uint32_t rank : {0u, 1u}) group.Open(rank, 17, 4200);
  group.calls.erase(2);
  group.calls.erase(3);
  EXPECT_EQ(group.Words(),
            "allreduce 17: waits, as it seems, for ranks 2 (h2), 3 (h3) since 4.2 s; ranks 0, 1 have called; "
            "ranks 2, 3 do not answer: stopped, or without a processor");
  EXPECT_EQ(group.Wait().why(), proto::CallWait::WHY_SILENT);
  group.calls.clear();
  EXPECT_EQ(group.Words(), "no rank answers, so that nothing is known of whom it waits for");
  EXPECT_EQ(group.Wait().call(), -1);
}

TEST(HostsWaits, SaysWhatIsMissingOfACallThatAllHaveMade) {
  HostsWait group;
  for (const uint32_t rank : {0u, 1u, 2u, 3u}) group.Open(rank, 17, 130'000);
  EXPECT_EQ(group.Words(), "allreduce 17: all have called, and it is under way; it began 2 min ago");
  group.calls[2].add_awaits(1);
  EXPECT_EQ(group.Words(),
            "allreduce 17: all have called, and it is under way; it began 2 min ago; rank 2 waits for what comes "
            "from rank 1");
}

TEST(HostsWaits, SaysOfWhomNothingIsKnown) {
  HostsWait group;
  group.Open(0, 17, 4200);
  for (const uint32_t rank : {2u, 3u}) {
    group.asked.erase(rank);
    group.calls.erase(rank);
  }
  EXPECT_EQ(group.Words(),
            "allreduce 17: waits for rank 1 (h1) since 4.2 s; rank 0 has called; rank 1 is in no call: it computes, "
            "or waits for something else; of ranks 2, 3 nothing is known");
}

// What ranks say is theirs: it is cut, and no more of it is kept than a line.
TEST(HostsWaits, TakesAnythingThatRanksSay) {
  HostsWait group;
  group.Open(0, 17, 4200, std::string(1000, 'x').c_str());
  proto::CallsMade::Elsewhere& elsewhere = *group.calls[1].add_elsewhere();
  elsewhere.set_group(std::string(1000, 'y'));
  SetCall(elsewhere.mutable_call(), -1, UINT64_MAX, "");
  EXPECT_LT(group.Words().size(), 1000u);
}

// Through switches: these know who has not called; the ranks why not.
TEST(RanksDoing, IsAddedToWhatSwitchesSay) {
  proto::GroupState group;
  group.mutable_wait()->set_why(proto::CallWait::WHY_NOT_CALLED);
  group.mutable_wait()->set_words("allreduce 17: waits");
  for (const uint32_t rank : {1u, 2u, 3u}) group.mutable_wait()->add_for_ranks(rank);
  EXPECT_EQ(RanksToAsk(group), (std::set<uint32_t>{1, 2, 3}));
  std::map<uint32_t, proto::CallsMade> calls;
  SetCall(calls[2].add_open(), 16, 3000, "barrier");
  proto::GroupState asked = group;
  AddDoing(calls, {1, 2}, &asked);
  EXPECT_EQ(asked.wait().words(),
            "allreduce 17: waits; rank 1 does not answer: stopped, or without a processor; rank 2 is in barrier 16 "
            "since 3.0 s");
  // Whose data are missing has called: only that it does not answer is news.
  group.mutable_wait()->set_why(proto::CallWait::WHY_DATA);
  AddDoing(calls, {1, 2}, &group);
  EXPECT_EQ(group.wait().words(),
            "allreduce 17: waits; rank 1 does not answer: stopped, or without a processor");
}

TEST(RanksDoing, OfMostOfThemNobodyAsks) {
  proto::GroupState group;
  for (uint32_t rank = 0; rank < 100; ++rank) group.mutable_wait()->add_for_ranks(rank);
  EXPECT_EQ(RanksToAsk(group).size(), 8u);
}

}  // namespace
}  // namespace epic::manager
