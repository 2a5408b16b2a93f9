// Which numbers a scenario's calls have, plain or in blocks.
#include <gtest/gtest.h>

#include <string>

#include "sim/scenario.h"

namespace epic::sim {
namespace {

// A line from before numbers travelled as blocks means what it did.
TEST(ScenarioTest, ALineSaysWhetherNumbersAreInBlocks) {
  const std::string line = "seed=1 topology=star-4 mode=1 scenario=loss calls=7";
  EXPECT_EQ(ParseReplayLine(line)->numbers, "plain");
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " numbers=plain")), line);
  EXPECT_EQ(ReplayLine(*ParseReplayLine(line + " numbers=blocks")), line + " numbers=blocks");
  for (const char* numbers : {"", "1", "Blocks"})
    EXPECT_FALSE(ParseReplayLine(line + " numbers=" + numbers).ok());
  int blocks = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed)
    blocks += Complete({.seed = seed})->numbers == "blocks" ? 1 : 0;
  EXPECT_GT(blocks, 200);
  EXPECT_LT(blocks, 300);
  EXPECT_FALSE(Complete({.seed = 1, .numbers = "int4"}).ok());
}

}  // namespace
}  // namespace epic::sim
