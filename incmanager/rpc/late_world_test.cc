// Slow is not dead (docs/PROTOCOL-CONTROL.md, section 7.1): processes that are scheduled late lose no group,
// and what is dead is named all the same.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string>

#include "base/seeds_testing.h"
#include "incmanager/rpc/late_world_testing.h"

namespace epic::manager {
namespace {

using testing::LateWorld;

class LateWorldTest : public ::testing::Test {
 protected:
  LateWorldTest() : level_(spdlog::get_level()) { spdlog::set_level(spdlog::level::off); }
  ~LateWorldTest() override { spdlog::set_level(level_); }

 private:
  const spdlog::level::level_enum level_;
};

std::string Replay(uint64_t seed) {
  return "EPIC_SEED=" + std::to_string(seed) + " late_world_test";
}

std::string Said(const LateWorld& world) {
  return world.failure ? std::to_string(world.failed_at / kMillisecond) + " ms: " + world.failure->ShortDebugString() : "";
}

TEST_F(LateWorldTest, LosesNoGroup) {
  const auto [first, count] = SeedsToRun(200);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    LateWorld world({.seed = seed, .seen = seed % 2 == 0});
    world.Run();
    ASSERT_FALSE(world.failure) << Said(world) << "; " << Replay(seed);
    ASSERT_EQ(world.joined, 4U) << Replay(seed);
  }
}

TEST_F(LateWorldTest, NorWhenAnAgentIsDead) {
  const auto [first, count] = SeedsToRun(100);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    LateWorld world({.seed = seed, .seen = seed % 2 == 0});
    world.KillAgent(seed % 3 == 0 ? "root" : "leaf1", 20 * kSecond);
    world.Run();
    ASSERT_FALSE(world.failure) << Said(world) << "; " << Replay(seed);
  }
}

// What docs/HOST.md promises: 5 s for a process, 10 s for a whole machine.
TEST_F(LateWorldTest, NamesWhatIsDeadInTime) {
  const auto [first, count] = SeedsToRun(20);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    for (const std::string name : {"root", "leaf1"}) {
      for (const bool whole : {false, true}) {
        LateWorld world({.seed = seed, .late = false});
        const Nanos at = 20 * kSecond + static_cast<Nanos>(seed) * 53 * kMillisecond;
        world.KillEngine(name, at);
        if (whole) world.KillAgent(name, at);
        world.Run();
        ASSERT_TRUE(world.failure) << name << whole << "; " << Replay(seed);
        EXPECT_EQ(world.failure->code(), proto::ERROR_SWITCH_LOST);
        EXPECT_EQ(world.failure->switch_name(), name);
        EXPECT_LE(world.failed_at - at, (whole ? 10 : 5) * kSecond) << Replay(seed);
      }
    }
    LateWorld world({.seed = seed, .late = false});
    world.KillHost(1, 20 * kSecond);
    world.Run();
    ASSERT_TRUE(world.failure);
    EXPECT_EQ(world.failure->code(), proto::ERROR_RANK_LOST);
    EXPECT_LE(world.failed_at, 30 * kSecond);
  }
}

}  // namespace
}  // namespace epic::manager
