#include "commlib/parallel_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace epic::internal {
namespace {

std::vector<RankHost> On(const std::vector<std::string>& hosts) {
  std::vector<RankHost> all(hosts.size());
  for (size_t r = 0; r < hosts.size(); ++r) EXPECT_TRUE(FindRankHost(hosts[r], &all[r]).ok());
  return all;
}

// By rank: host, hosts, rank on the host, ranks on each.
void ExpectPlace(const std::vector<RankHost>& all, int rank, const std::vector<int>& expected) {
  ParallelPlace place;
  const Error error = PlaceRank(all, rank, &place);
  EXPECT_TRUE(error.ok()) << error.message();
  EXPECT_EQ((std::vector<int>{place.host, place.hosts, place.local_rank, place.local_size}), expected)
      << "rank " << rank;
}

TEST(ParallelPlanTest, RanksInARowOrDealtOutInTurn) {
  const auto in_a_row = On({"a", "a", "b", "b", "c", "c"});
  ExpectPlace(in_a_row, 0, {0, 3, 0, 2});
  ExpectPlace(in_a_row, 3, {1, 3, 1, 2});
  const auto in_turn = On({"b", "a", "b", "a"});
  ExpectPlace(in_turn, 1, {1, 2, 0, 2});
  ExpectPlace(in_turn, 2, {0, 2, 1, 2});
  ExpectPlace(On({"a"}), 0, {0, 1, 0, 1});
  ExpectPlace(On({"a", "b"}), 1, {1, 2, 0, 1});
}

TEST(ParallelPlanTest, HostsWithDifferentNumbersOfRanksAreNamedTheSameToAll) {
  const auto all = On({"a", "b", "a", "c", "c"});
  for (int rank = 0; rank < 5; ++rank) {
    ParallelPlace place;
    const Error error = PlaceRank(all, rank, &place);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(),
              "the host of rank 0 (a) has 2 ranks, the host of rank 1 (b) has 1 rank: all hosts need the "
              "same number");
  }
}

TEST(ParallelPlanTest, ProcessesOfOneSystemAreOnOneHost) {
  std::vector<RankHost> all(2);
  EXPECT_TRUE(FindRankHost("", &all[0]).ok());
  EXPECT_TRUE(FindRankHost("", &all[1]).ok());
  ExpectPlace(all, 1, {0, 1, 1, 2});
  EXPECT_NE(all[0].id[0], 0);
  EXPECT_TRUE(FindRankHost(std::string(63, 'x'), &all[0]).ok());
  EXPECT_EQ(FindRankHost(std::string(64, 'x'), &all[0]).code(), ErrorCode::kInvalidArgument);
}

TEST(ParallelPlanTest, SharesAndWhatIsLeft) {
  const auto parts = [](size_t count, int n) {
    const Division d = Divide(count, n);
    return std::vector<size_t>{d.share, d.rest, static_cast<size_t>(d.has_rest_stage())};
  };
  EXPECT_EQ(parts(8, 4), (std::vector<size_t>{2, 0, 0}));
  EXPECT_EQ(parts(11, 4), (std::vector<size_t>{2, 3, 1}));
  EXPECT_EQ(parts(3, 4), (std::vector<size_t>{0, 3, 1}));
  EXPECT_EQ(parts(0, 4), (std::vector<size_t>{0, 0, 1})) << "a call all the same";
  EXPECT_EQ(parts(7, 1), (std::vector<size_t>{7, 0, 0}));
}

// The manager says who gave the reason.
Error Told(const Error& error) {
  return ErrorOf({ErrorCode::kAborted, "rank 1 on h0 (pid 17) aborted: " + ReasonOf(error)});
}

TEST(ParallelPlanTest, WhatAllRanksAreToHaveKeepsItsCodeOnTheWay) {
  for (const ErrorCode code : {ErrorCode::kMismatch, ErrorCode::kRankLost, ErrorCode::kSwitchLost,
                               ErrorCode::kLinkLost, ErrorCode::kFallbackLost, ErrorCode::kNotFinite}) {
    const Error told = Told({code, "ring 1: rank 2 is lost: why: so"});
    EXPECT_EQ(told.code(), code);
    EXPECT_EQ(told.message(), "ring 1: rank 2 is lost: why: so");
    EXPECT_EQ(Told(told).message(), told.message()) << "by a third rank";
  }
  for (const ErrorCode code : {ErrorCode::kTimeout, ErrorCode::kTransport, ErrorCode::kAborted}) {
    const Error told = Told({code, "ring 1: too late"});
    EXPECT_EQ(told.code(), ErrorCode::kAborted);
    EXPECT_EQ(told.message(), "rank 1 on h0 (pid 17) aborted: ring 1: too late");
  }
  EXPECT_EQ(ErrorOf({ErrorCode::kRankLost, "parallel: mismatch: no reason"}).code(), ErrorCode::kRankLost);
  EXPECT_EQ(ErrorOf({ErrorCode::kAborted, "parallel: nonsense"}).code(), ErrorCode::kAborted);
}

TEST(ParallelPlanTest, TheGroupIsNamedOnce) {
  const Error found = OfGroup("ring 1", {ErrorCode::kRankLost, "rank 2 is lost"});
  EXPECT_EQ(found.message(), "ring 1: rank 2 is lost");
  const Error told = OfGroup("host 3", {ErrorCode::kAborted, "rank 0 aborted: " + ReasonOf(found)});
  EXPECT_EQ(told.code(), ErrorCode::kRankLost);
  EXPECT_EQ(told.message(), "ring 1: rank 2 is lost");
}

// A group that goes by the hosts has all there is, and what a call refuses by itself is not asked.
TEST(ParallelPlanTest, WhatAGroupCanDo) {
  Communicator comm;
  ASSERT_TRUE(comm.Init({.rank = 0, .size = 1, .environment = false}).ok());
  const Doable doable = DoableBy(comm);
  EXPECT_TRUE(Has(doable, Datatype::kFloat32, RedOp::kAvg));
  EXPECT_TRUE(Has(doable, Datatype::kUint16, RedOp::kLogicalOr));
  EXPECT_FALSE(Has(doable, static_cast<Datatype>(99), RedOp::kSum));
  EXPECT_FALSE(Has(DoableBy(Communicator()), Datatype::kFloat32, RedOp::kSum));
  EXPECT_TRUE(comm.Destroy().ok());
}

}  // namespace
}  // namespace epic::internal
