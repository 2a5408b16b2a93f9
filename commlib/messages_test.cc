#include "commlib/messages.h"

#include <cmath>

#include "commlib/arguments.h"
#include "commlib/core/host_algorithm.h"
#include "commlib/log.h"
#include "gtest/gtest.h"

namespace epic::internal {
namespace {

TEST(MessagesTest, MismatchNamesFieldAndRank) {
  const ControlHeader here{.collective = Collective::kAllReduce, .count = 100};
  ControlHeader reply = here;
  reply.count = 200;
  reply.status = ControlStatus::kMismatch;
  reply.field = ControlField::kCount;
  reply.culprit = 2;
  const Error error = RefusalError(reply, here, 2);
  EXPECT_EQ(error.code(), ErrorCode::kMismatch);
  EXPECT_EQ(error.message(), "rank 2 called with another count than rank 0 (rank 0: 200, rank 2: 100)");
  EXPECT_EQ(RefusalError(reply, reply, 1).message(),
            "rank 2 called with another count than rank 0 (rank 0: 200)");
}

TEST(MessagesTest, SumAndAverageDifferInTheOperation) {
  const ControlHeader sum{.collective = Collective::kAllReduce, .op = ReduceOp::kSum};
  ControlHeader reply = sum;
  reply.flags = kAverageFlag;
  reply.status = ControlStatus::kMismatch;
  reply.field = ControlField::kFlags;
  reply.culprit = 3;
  EXPECT_EQ(RefusalError(reply, sum, 3).message(),
            "rank 3 called with another op than rank 0 (rank 0: avg, rank 3: sum)");
}

TEST(MessagesTest, RanksWithAnotherAlgorithmAreNamed) {
  const ControlHeader ring{.collective = Collective::kAllReduce, .flags = AlgorithmFlags(Algorithm::kRing)};
  ControlHeader reply = ring;
  reply.flags = 0;
  reply.status = ControlStatus::kMismatch;
  reply.field = ControlField::kAlgorithm;
  reply.culprit = 3;
  EXPECT_EQ(RefusalError(reply, ring, 3).message(),
            "rank 3 called with another algorithm than rank 0 (rank 0: auto, rank 3: ring)");
}

TEST(MessagesTest, TheCountOfASliceIsNotTheCalls) {
  const ControlHeader here{.collective = Collective::kAllReduce, .op = ReduceOp::kSum, .count = 100};
  ControlHeader reply = here;
  reply.status = ControlStatus::kMismatch;
  reply.field = ControlField::kCount;
  reply.culprit = 1;
  EXPECT_EQ(RefusalError(reply, here, 1, true).message(), "rank 1 called with another count than rank 0");
  reply.flags = 1u << kSlicesLeftShift;
  EXPECT_EQ(RefusalError(reply, here, 1).message(), "rank 1 called with another count than rank 0");
}

TEST(MessagesTest, RefusalsHaveTheirOwnCodes) {
  const auto code = [](ControlStatus status) { return RefusalError({.status = status}, {}, 0).code(); };
  EXPECT_EQ(code(ControlStatus::kNoResource), ErrorCode::kNoResource);
  EXPECT_EQ(code(ControlStatus::kAborted), ErrorCode::kAborted);
  EXPECT_EQ(code(ControlStatus::kUnsupported), ErrorCode::kUnsupported);
}

// The reply has the first call that came to the switch.
TEST(MessagesTest, WhatASwitchCannotDoIsNamedWithWhoCalledIt) {
  const ControlHeader here{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat32, .count = 1};
  ControlHeader reply = here;
  reply.status = ControlStatus::kUnsupported;
  reply.culprit = 2;
  EXPECT_EQ(RefusalError(reply, here, 1).message(), "a switch cannot do this AllReduce of float32");
  reply.type = DataType{40};
  reply.field = ControlField::kType;
  EXPECT_EQ(RefusalError(reply, here, 1).message(), "a switch cannot do rank 2's AllReduce of number 40");
  reply.type = here.type;
  reply.op = ReduceOp{41};
  reply.field = ControlField::kOp;
  EXPECT_EQ(RefusalError(reply, here, 1).message(),
            "a switch cannot do rank 2's AllReduce of number 41 of float32");
}

TEST(MessagesTest, ALaterTypeOrOperationHasItsNumber) {
  const ControlHeader here{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat32, .count = 1};
  ControlHeader reply = here;
  reply.status = ControlStatus::kMismatch;
  reply.culprit = 1;
  reply.field = ControlField::kType;
  reply.type = DataType{40};
  EXPECT_EQ(RefusalError(reply, here, 1).message(),
            "rank 1 called with another type than rank 0 (rank 0: number 40, rank 1: float32)");
  reply.field = ControlField::kOp;
  reply.op = ReduceOp{41};
  EXPECT_EQ(RefusalError(reply, here, 1).message(),
            "rank 1 called with another op than rank 0 (rank 0: number 41, rank 1: sum)");
}

TEST(MessagesTest, CallsInBlocksAreToldAsTheyWereMade) {
  const ControlHeader plain{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kFloat16, .count = 100};
  const ControlHeader here = InBlocks(plain);
  const auto told = [&here](ControlHeader other) {
    other.status = ControlStatus::kMismatch;
    other.field = FirstDifference(here, other);
    other.culprit = 1;
    return RefusalError(other, here, 1).message();
  };
  EXPECT_EQ(
      told(plain),
      "rank 1 called with another type than rank 0 (rank 0: float16, rank 1: float16 as blocks of int8)");
  ControlHeader other = plain;
  other.count = 110;
  EXPECT_EQ(told(InBlocks(other)), "rank 1 called with another count than rank 0 (rank 0: 110, rank 1: 100)");
  other.type = DataType::kBFloat16;
  EXPECT_EQ(
      told(InBlocks(other)),
      "rank 1 called with another type than rank 0 (rank 0: bfloat16 as blocks of int8, rank 1: float16 "
      "as blocks of int8)");
  ControlHeader refused = here;
  refused.status = ControlStatus::kUnsupported;
  refused.field = ControlField::kType;
  EXPECT_EQ(RefusalError(refused, here, 1).message(),
            "a switch cannot do this AllReduce of float16 as blocks of int8");
}

// What was called is told, not what it has become on its way.
TEST(MessagesTest, QuantisedCallsAreToldAsTheyWereMade) {
  const ControlHeader here{.collective = Collective::kAllReduce,
                           .op = ReduceOp::kSaturatingSum,
                           .type = DataType::kInt32,
                           .flags = kQuantisedFlag};
  ControlHeader reply = here;
  reply.status = ControlStatus::kMismatch;
  reply.culprit = 1;
  reply.field = ControlField::kType;
  reply.type = DataType::kFloat64;
  reply.flags = 0;
  EXPECT_EQ(RefusalError(reply, here, 1).message(),
            "rank 1 called with another type than rank 0 (rank 0: float64, rank 1: float32)");
  reply = here;
  reply.status = ControlStatus::kMismatch;
  reply.culprit = 1;
  reply.field = ControlField::kFlags;
  reply.flags |= kAverageFlag;
  EXPECT_EQ(RefusalError(reply, here, 1).message(),
            "rank 1 called with another op than rank 0 (rank 0: avg of float32, rank 1: sum of float32)");
  reply.op = ReduceOp::kMin;
  reply.flags = 0;
  EXPECT_EQ(RefusalError(reply, here, 1).message(),
            "rank 1 called with another type than rank 0 (rank 0: int32, rank 1: float32)");
  EXPECT_EQ(
      NotFiniteInWords(here, 2, 17, -INFINITY),
      "rank 2 called AllReduce with -inf as element 17: what is not finite is no whole number (quantise)");
}

TEST(MessagesTest, EveryCodeHasItsName) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kFallbackLost); ++code) {
    EXPECT_STRNE(ErrorName(static_cast<ErrorCode>(code)), "unknown error") << code;
  }
  EXPECT_STREQ(ErrorName(ErrorCode::kNotFinite), "not finite");
  EXPECT_STREQ(ErrorName(static_cast<ErrorCode>(99)), "unknown error");
}

TEST(LogTest, FileNamesAreExpanded) {
  EXPECT_EQ(ExpandLogName("/tmp/%h.%p.log", "h0", 42), "/tmp/h0.42.log");
  EXPECT_EQ(ExpandLogName("50%", "h0", 42), "50%");
}

}  // namespace
}  // namespace epic::internal
