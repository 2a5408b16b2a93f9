#include "mpi/core/join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace epic::mpi {
namespace {

using Step = JoinAgreement::Step;

// Ranks of one communicator, and the MPI between them: every step is made by all, or the test fails.
class Ranks {
 public:
  explicit Ranks(const std::vector<std::string>& why_not) {
    const auto n = static_cast<int>(why_not.size());
    for (int rank = 0; rank < n; ++rank) {
      ranks_.emplace_back(rank, n, why_not[rank], "group" + std::to_string(rank));
    }
  }

  // To the end; what comes of each rank's join is in `results`. Returns the steps made, the last one
  // included.
  std::vector<Step> Run(const std::vector<JoinResult>& results) {
    std::vector<Step> steps;
    while (steps.empty() || (steps.back() != Step::kJoined && steps.back() != Step::kRefused)) {
      steps.push_back(ranks_[0].step());
      for (const JoinAgreement& rank : ranks_) EXPECT_EQ(rank.step(), steps.back());
      if (testing::Test::HasFailure() || steps.size() > 10) break;
      if (steps.back() == Step::kMin) Min();
      if (steps.back() == Step::kBroadcast) Broadcast();
      if (steps.back() == Step::kJoin) {
        for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r].OnJoin(results[r]);
      }
    }
    return steps;
  }

  void Min() {
    int least = ranks_[0].value();
    for (const JoinAgreement& rank : ranks_) least = std::min(least, rank.value());
    for (JoinAgreement& rank : ranks_) rank.OnMin(least);
  }
  void Broadcast() {
    const int root = ranks_[0].root();
    const Text text = ranks_[root].text();
    for (JoinAgreement& rank : ranks_) {
      EXPECT_EQ(rank.root(), root);
      rank.text() = text;
      rank.OnBroadcast();
    }
  }

  std::vector<JoinAgreement> ranks_;
};

TEST(JoinAgreementTest, AllJoinTheGroupThatRankZeroNames) {
  Ranks ranks({"", "", ""});
  EXPECT_EQ(ranks.Run(std::vector<JoinResult>(3)),
            (std::vector<Step>{Step::kMin, Step::kBroadcast, Step::kJoin, Step::kMin, Step::kJoined}));
  for (const JoinAgreement& rank : ranks.ranks_) EXPECT_EQ(rank.name(), "group0");
}

TEST(JoinAgreementTest, WhoeverIsNotReadyIsTheReasonOnAllRanksAndNobodyJoins) {
  Ranks ranks({"", "no library", "no port"});
  EXPECT_EQ(ranks.Run({}), (std::vector<Step>{Step::kMin, Step::kBroadcast, Step::kRefused}));
  for (const JoinAgreement& rank : ranks.ranks_) EXPECT_EQ(rank.reason(), "rank 1: no library");
}

TEST(JoinAgreementTest, AJoinRefusedOnOneRankIsRefusedOnAll) {
  for (size_t refused = 0; refused < 4; ++refused) {
    Ranks ranks({"", "", "", ""});
    // The others wait in vain for the one that knows.
    std::vector<JoinResult> results(4, {.refusal = "somebody did not come", .for_others = true});
    results[refused] = {.refusal = "no room"};
    results[(refused + 2) % 4] = {};
    EXPECT_EQ(ranks.Run(results), (std::vector<Step>{Step::kMin, Step::kBroadcast, Step::kJoin, Step::kMin,
                                                     Step::kBroadcast, Step::kMin, Step::kRefused}));
    for (const JoinAgreement& rank : ranks.ranks_) {
      EXPECT_EQ(rank.reason(), "rank " + std::to_string(refused) + ": no room");
      EXPECT_FALSE(rank.lasts());
    }
  }
}

TEST(JoinAgreementTest, IfNobodyKnowsWhyTheLeastRankSaysWhatItSaw) {
  Ranks ranks({"", "", ""});
  ranks.Run(
      {{}, {.refusal = "nobody came", .for_others = true}, {.refusal = "nor here", .for_others = true}});
  for (const JoinAgreement& rank : ranks.ranks_) {
    EXPECT_EQ(rank.step(), Step::kRefused);
    EXPECT_EQ(rank.reason(), "rank 1: nobody came");
  }
}

TEST(JoinAgreementTest, WhatIsOfNoGroupLastsOnTheRankThatHasIt) {
  Ranks ranks({"", "", ""});
  const JoinResult in_vain = {.refusal = "nobody came", .for_others = true};
  ranks.Run({in_vain, {.refusal = "no port", .lasting = true}, in_vain});
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.ranks_[rank].lasts(), rank == 1) << rank;
}

// Others would wait for this rank in vain at every communicator.
TEST(JoinAgreementTest, WhatAHostLacksLasts) {
  Ranks ranks({"", "", ""});
  const JoinResult in_vain = {.refusal = "nobody came", .for_others = true};
  ranks.Run({in_vain, in_vain, {.refusal = "no locked memory", .lacking = true}});
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.ranks_[rank].lasts(), rank == 2) << rank;
}

// Another group may be smaller, or come when that one has gone.
TEST(JoinAgreementTest, WhatASwitchLacksDoesNot) {
  Ranks ranks({"", "", ""});
  ranks.Run(std::vector<JoinResult>(3, {.refusal = "leaf1 would have 65 children", .lacking = true}));
  for (const JoinAgreement& rank : ranks.ranks_) {
    EXPECT_EQ(rank.reason(), "rank 0: leaf1 would have 65 children");
    EXPECT_FALSE(rank.lasts());
  }
}

// All ranks of three, of which rank 0 offers a group that it has kept.
std::vector<JoinAgreement> Offered() {
  std::vector<JoinAgreement> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.emplace_back(rank, 3, "", "new", rank == 0 ? "old" : "");
  return ranks;
}

TEST(JoinAgreementTest, AGroupThatAllHaveKeptIsTheirs) {
  Ranks ranks({});
  ranks.ranks_ = Offered();
  ranks.Min();
  ranks.Broadcast();
  for (JoinAgreement& rank : ranks.ranks_) {
    ASSERT_EQ(rank.step(), Step::kTake);
    EXPECT_EQ(rank.name(), "old");
    rank.OnTake(true);
  }
  ranks.Min();
  for (const JoinAgreement& rank : ranks.ranks_) EXPECT_EQ(rank.step(), Step::kJoined);
}

TEST(JoinAgreementTest, OneThatARankHasNotIsGivenUpByAllForANewOne) {
  for (size_t has_not = 0; has_not < 3; ++has_not) {
    Ranks ranks({});
    ranks.ranks_ = Offered();
    ranks.Min();
    ranks.Broadcast();
    for (size_t rank = 0; rank < 3; ++rank) ranks.ranks_[rank].OnTake(rank != has_not);
    ranks.Min();
    for (JoinAgreement& rank : ranks.ranks_) {
      ASSERT_EQ(rank.step(), Step::kDrop);
      rank.OnDrop();
    }
    EXPECT_EQ(ranks.Run(std::vector<JoinResult>(3)),
              (std::vector<Step>{Step::kBroadcast, Step::kJoin, Step::kMin, Step::kJoined}));
    for (const JoinAgreement& rank : ranks.ranks_) EXPECT_EQ(rank.name(), "new");
  }
}

TEST(JoinAgreementTest, ALongReasonIsCut) {
  Ranks ranks({"", std::string(1000, 'x')});
  ranks.Run({});
  EXPECT_EQ(ranks.ranks_[0].reason(), "rank 1: " + std::string(kTextBytes - 1, 'x'));
}

}  // namespace
}  // namespace epic::mpi
