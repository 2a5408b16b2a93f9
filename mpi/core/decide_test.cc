#include "mpi/core/decide.h"

#include <gtest/gtest.h>

namespace epic::mpi {
namespace {

EpicMpiCall Call(EpicMpiCollective collective, EpicMpiType type = kEpicMpiFloat64, EpicMpiOp op = kEpicMpiSum,
                 int64_t count = 10) {
  return {.collective = collective,
          .type = type,
          .op = op,
          .root = 0,
          .equal_counts = 1,
          .count = count,
          .bytes = count * 8};
}

TEST(DecideTest, EveryCollectiveIsTaken) {
  for (int c = 0; c < kEpicMpiCollectives; ++c) {
    EXPECT_EQ(Decide(Call(static_cast<EpicMpiCollective>(c)), 4, {}), Reason::kEpic) << c;
  }
}

TEST(DecideTest, EveryTypeAndOperationIsTakenThatFit) {
  for (int t = 0; t <= kEpicMpiTypes; ++t) {
    for (int o = 0; o <= kEpicMpiOps; ++o) {
      const auto type = static_cast<EpicMpiType>(t);
      const auto op = static_cast<EpicMpiOp>(o);
      const bool is_float = type == kEpicMpiFloat32 || type == kEpicMpiFloat64;
      Reason want = Reason::kEpic;
      if (type == kEpicMpiNoType || type == kEpicMpiTypes) want = Reason::kType;
      if (is_float && op >= kEpicMpiBitAnd) want = Reason::kFloatOp;
      if (op == kEpicMpiNoOp || op == kEpicMpiOps) want = Reason::kOp;
      EXPECT_EQ(Decide(Call(kEpicMpiAllreduce, type, op), 4, {}), want) << t << " " << o;
    }
  }
}

TEST(DecideTest, CopiesNeedNeitherTypeNorOperation) {
  EXPECT_EQ(Decide(Call(kEpicMpiBcast, kEpicMpiNoType, kEpicMpiNoOp), 4, {}), Reason::kEpic);
  EXPECT_EQ(Decide(Call(kEpicMpiAllgather, kEpicMpiNoType, kEpicMpiNoOp), 4, {}), Reason::kEpic);
}

TEST(DecideTest, NothingAndWhatIsWrongIsTheMpis) {
  EXPECT_EQ(Decide(Call(kEpicMpiAllreduce, kEpicMpiInt32, kEpicMpiSum, 0), 4, {}), Reason::kNothing);
  EXPECT_EQ(Decide(Call(kEpicMpiBcast, kEpicMpiNoType, kEpicMpiNoOp, -1), 4, {}), Reason::kNothing);
  EXPECT_EQ(Decide(Call(kEpicMpiBarrier, kEpicMpiNoType, kEpicMpiNoOp, 0), 4, {}), Reason::kEpic);
}

TEST(DecideTest, UnequalCountsAreTheMpis) {
  EpicMpiCall call = Call(kEpicMpiReduceScatter);
  call.equal_counts = 0;
  EXPECT_EQ(Decide(call, 4, {}), Reason::kUnequalCounts);
}

TEST(DecideTest, BoundsAreOfTheWholeBuffer) {
  Settings settings;
  settings.min_bytes = 80;
  settings.max_bytes = 80;
  EXPECT_EQ(Decide(Call(kEpicMpiAllreduce), 4, settings), Reason::kEpic);
  EXPECT_EQ(Decide(Call(kEpicMpiAllgather), 4, settings), Reason::kTooLarge);
  settings.min_bytes = 81;
  EXPECT_EQ(Decide(Call(kEpicMpiAllreduce), 4, settings), Reason::kTooSmall);
  EXPECT_EQ(Decide(Call(kEpicMpiBarrier, kEpicMpiNoType, kEpicMpiNoOp, 0), 4, settings), Reason::kEpic);
  for (const auto part : {kEpicMpiAllgather, kEpicMpiReduceScatterBlock, kEpicMpiReduceScatter}) {
    EXPECT_EQ(WholeBytes(Call(part), 4), 320);
  }
  EXPECT_EQ(WholeBytes(Call(kEpicMpiReduce), 4), 80);
}

TEST(DecideTest, WhatCanHaveNoGroupHasAReasonOfItsOwn) {
  EXPECT_EQ(ReasonOf(kEpicMpiInside), Reason::kEpic);
  EXPECT_EQ(ReasonOf(kEpicMpiInter), Reason::kInter);
  EXPECT_EQ(ReasonOf(kEpicMpiOneRank), Reason::kOneRank);
  EXPECT_EQ(ReasonOf(kEpicMpiSeveralJobs), Reason::kSeveralJobs);
}

TEST(DecideTest, EverythingHasAName) {
  for (int r = 0; r < static_cast<int>(Reason::kCount); ++r) EXPECT_STRNE(TextOf(static_cast<Reason>(r)), "");
  for (int c = 0; c < kEpicMpiCollectives; ++c) {
    EXPECT_STRNE(NameOf(static_cast<EpicMpiCollective>(c)), "");
  }
}

}  // namespace
}  // namespace epic::mpi
