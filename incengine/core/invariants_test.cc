// Each invariant ends the program where it does not hold.
#include "incengine/core/invariants.h"

#include <gtest/gtest.h>

#include <functional>

#include "incengine/core/engine_testing.h"

namespace epic::engine {
namespace {

using InvariantsTest = EngineTest;

TEST_F(InvariantsTest, HoldOfAGroupThatHasMadeACall) {
  Install(true);
  for (const uint32_t child : {0u, 1u}) Control(child, 4);
  ASSERT_EQ(context().results_end, 1);
  CheckInvariants(context());
}

TEST_F(InvariantsTest, HoldOfASwitchWhoseGroupHasGone) {
  Install(false);
  engine.CheckInvariants();
  const GroupConfig config = context().config;
  engine.Remove(config.group_id, config.generation);
  engine.CheckInvariants();
  ASSERT_TRUE(engine.groups().empty());
}

TEST_F(InvariantsTest, EachIsSeenToBeBroken) {
  Install(true);
  for (const uint32_t child : {0u, 1u}) Control(child, 4);
  const auto dies = [&](const std::function<void(Context&)>& damage, const char* which) {
    Context ctx = context();
    damage(ctx);
    EXPECT_DEATH(CheckInvariants(ctx), which);
  };
  dies([](Context& ctx) { ctx.results_end = 2; }, "results_end <= child.progress.up_epsn");
  dies([](Context& ctx) { ++ctx.children[0].progress.up_epsn; }, "child.progress.up_epsn <= ctx.max_up_epsn");
  dies([](Context& ctx) { ctx.children[1].progress.down_acked_end = 2; },
       "child.progress.down_acked_end <= ctx.results_end");
  dies([](Context& ctx) { ctx.invocations.push_back(ctx.invocations.front()); }, "number ==");
  dies(
      [](Context& ctx) {
        ctx.invocations.push_back(ctx.invocations.front());
        ++ctx.invocations.back().number;
      },
      "control_index ==");
  dies([](Context& ctx) { ctx.hold = {.most_window = 1, .most_slots = 2}; }, "most_window");
}

}  // namespace
}  // namespace epic::engine
