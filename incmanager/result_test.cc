#include "incmanager/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace epic::manager {
namespace {

Result<std::string> Named(bool known) {
  if (!known) return SwitchFailure(ErrorCode::kNotFound, "s1", "no name");
  return std::string("leaf1");
}

TEST(Result, IsAValueOrAFailure) {
  auto named = Named(true);
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(*named, "leaf1");
  EXPECT_EQ(named->size(), 5u);
  *named += "b";
  EXPECT_EQ(*std::move(named), "leaf1b");

  const auto unknown = Named(false);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.failure().code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.failure().switch_name, "s1");
}

// What can only be moved goes in and out.
TEST(Result, MovesItsValue) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 7);
}

// A failure is one, and neither is taken for the other.
TEST(ResultDeathTest, MistakesAreStopped) {
  EXPECT_DEATH(Result<int>(Failure{}), "failure");
  EXPECT_DEATH(static_cast<void>(*Named(false)), "index");
  EXPECT_DEATH(static_cast<void>(Named(true).failure()), "ok");
}

}  // namespace
}  // namespace epic::manager
