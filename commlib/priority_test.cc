#include "epic/priority.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "epic/epic_c.h"

namespace epic {
namespace {

using Limits = std::numeric_limits<double>;
constexpr double kLeast = 1 / 65536.0;

// DSA, Eq. (1), with the numbers of its simulation: two layers, Comm/Comp of 2 and of 0.5.
TEST(PrioritiesTest, OfATensorIsThePapers) {
  EXPECT_EQ(TensorPriority(1, 2, 1, 2, 1), 4);
  EXPECT_EQ(TensorPriority(1, 2, 2, 2, 1), 2);
  EXPECT_EQ(TensorPriority(4, 2, 1, 0.5, 1), 0.25);
  EXPECT_EQ(TensorPriority(0.5, 3, 2, 2, 4), 1.5);
}

TEST(PrioritiesTest, OfATensorIsClamped) {
  EXPECT_EQ(TensorPriority(0, 2, 1, 2, 1), 65535) << "nothing remains";
  EXPECT_EQ(TensorPriority(1, 1, 1, 0.5, 0), 32768) << "2^-16 for comp";
  EXPECT_EQ(TensorPriority(1, 1, 1, 2, 0), 65535);
  EXPECT_EQ(TensorPriority(1, 1, 1, 0, 1), kLeast) << "it does not communicate";
  EXPECT_EQ(TensorPriority(1e9, 1, 1, 1, 1), kLeast);
  EXPECT_EQ(TensorPriority(0, 1, 1, 0, 1), kLeast) << "no number";
  EXPECT_EQ(TensorPriority(Limits::quiet_NaN(), 1, 1, 1, 1), kLeast);
  EXPECT_EQ(TensorPriority(-1, 1, 1, 1, 1), kLeast);
  EXPECT_EQ(TensorPriority(1, 4, 0, 1, 1), 4) << "layers count from 1";
  EXPECT_EQ(TensorPriority(1, 0, 1, 1, 1), 1);
}

TEST(PrioritiesTest, WhatIsNoneIsRefusedAndChangesNothing) {
  Communicator comm;
  EXPECT_EQ(comm.SetPriority(1).code(), ErrorCode::kInvalidArgument) << "not initialised";
  ASSERT_TRUE(comm.Init({.rank = 0, .size = 1, .environment = false}).ok());
  for (const double right : {0.0, 1.0, 1e300}) EXPECT_TRUE(comm.SetPriority(right).ok()) << right;
  for (const double wrong : {-1.0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    const Error error = comm.SetPriority(wrong);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << wrong;
    EXPECT_NE(error.message().find("is not a number from 0 on"), std::string::npos) << error.message();
  }
  EXPECT_TRUE(Barrier(comm).ok());
}

TEST(PrioritiesTest, OfAGroupThatIsNotInC) {
  EXPECT_EQ(epicCommSetPriority(nullptr, 1), epicInvalidArgument);
}

}  // namespace
}  // namespace epic
