#include "commlib/messages.h"

#include "commlib/arguments.h"
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
  const Error error = RefusalError(reply, here);
  EXPECT_EQ(error.code(), ErrorCode::kMismatch);
  EXPECT_EQ(error.message(), "rank 2 called with another count (here 100, group 200)");
  EXPECT_EQ(RefusalError(reply, reply).message(),
            "rank 2 called with another count than this rank and the group (200)");
}

TEST(MessagesTest, SumAndAverageDifferInTheOperation) {
  const ControlHeader sum{.collective = Collective::kAllReduce, .op = ReduceOp::kSum};
  ControlHeader reply = sum;
  reply.flags = kAverageFlag;
  reply.status = ControlStatus::kMismatch;
  reply.field = ControlField::kFlags;
  EXPECT_EQ(RefusalError(reply, sum).message(), "rank 0 called with another op (here sum, group avg)");
}

TEST(MessagesTest, RefusalsHaveTheirOwnCodes) {
  const auto code = [](ControlStatus status) { return RefusalError({.status = status}, {}).code(); };
  EXPECT_EQ(code(ControlStatus::kNoResource), ErrorCode::kNoResource);
  EXPECT_EQ(code(ControlStatus::kAborted), ErrorCode::kAborted);
  EXPECT_EQ(code(ControlStatus::kUnsupported), ErrorCode::kUnsupported);
}

TEST(MessagesTest, EveryCodeHasItsName) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kLinkLost); ++code) {
    EXPECT_STRNE(ErrorName(static_cast<ErrorCode>(code)), "unknown error") << code;
  }
  EXPECT_STREQ(ErrorName(static_cast<ErrorCode>(99)), "unknown error");
}

TEST(LogTest, FileNamesAreExpanded) {
  EXPECT_EQ(ExpandLogName("/tmp/%h.%p.log", "h0", 42), "/tmp/h0.42.log");
  EXPECT_EQ(ExpandLogName("50%", "h0", 42), "50%");
}

}  // namespace
}  // namespace epic::internal
