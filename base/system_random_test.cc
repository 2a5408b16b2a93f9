#include "base/system_random.h"

#include <set>

#include "gtest/gtest.h"

namespace epic {
namespace {

TEST(SystemRandom, GivesAsManyBytesAsAskedForAndOthersEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string bytes = SystemRandomBytes(16);
    EXPECT_EQ(bytes.size(), 16u);
    EXPECT_TRUE(seen.insert(bytes).second);
  }
  EXPECT_EQ(SystemRandomBytes(1000).size(), 1000u) << "more than one call of the system's gives for sure";
  EXPECT_NE(SystemRandom(), SystemRandom());
}

}  // namespace
}  // namespace epic
