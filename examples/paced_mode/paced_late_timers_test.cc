// What late timers find: a mistake that shows only between the time at which a timer is due and the moment at
// which it runs. With them the explorer finds it, and without sees nothing, early timers, losses and late
// calls or not. Of the seeds every second finds it; of those with exact timers one in some hundred, which has
// a packet in the very nanosecond.
#include <gtest/gtest.h>

#include <string>

#include "check/explorer.h"
#include "check/setups_testing.h"
#include "examples/paced_mode/paced.h"
#include "incengine/modules/transmit.h"
#include "sim/trial.h"

namespace epic::engine {
namespace {

// Whether the mode has the mistake.
bool g_forgets = false;

// The mistake: the child's turn has come, so what waited has left, and the new result need not wait. But the
// timer has not run; when it does, nothing waits, and who asks for what did is told to wait.
void SendForgetting(Context& ctx, uint64_t outs, Index index, std::span<const uint8_t> payload, bool ack_req,
                    Env& env) {
  for (size_t c = 0; c < ctx.children.size(); ++c) {
    Endpoint& child = ctx.children[c];
    if ((outs >> c & 1) == 0 || env.now < child.hop.resend_at) continue;
    SendData(ctx, child, index, payload, ack_req, env);
    child.hop.resend_at = kNever;
    outs &= ~(uint64_t{1} << c);
  }
  kInTurns.send(ctx, outs, index, payload, ack_req, env);
}

class Forgetful final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    const ResultWay forgetting{.send = SendForgetting, .gone_end = kInTurns.gone_end};
    Env own = env;
    own.results = &forgetting;
    TranslatedMode().OnPacket(ctx, from, packet, own);
  }
  void OnTimer(Context& ctx, Env& env) const override { PacedMode().OnTimer(ctx, env); }
};

}  // namespace

// It has no number of its own: in this program it stands in the place of mode III.
const ModeLogic& AugmentedMode() {
  static const Forgetful forgetful;
  return g_forgets ? forgetful : PacedMode();
}

}  // namespace epic::engine
namespace epic::check {
namespace {

// Three ranks make two calls; inlined, since children are not alike in this mode, and of inlined calls the
// explorer takes none for another.
Setup TwoCalls(const FaultBounds& faults, const std::string& late_calls) {
  return {.mode = "3",
          .collective = "allreduce+*2",
          .calls = "apart",
          .topology = "star-3",
          .faults = faults,
          .late_calls = late_calls};
}

Report Explored(const Setup& setup) {
  Model model = ModelOf(setup);
  EXPECT_EQ(model.symmetries(), 1u);
  return Explore(model, {});
}

// Of the first hundred seeds, those that do not end right.
int SeedsThatFail(const char* timers) {
  int fail = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const auto scenario = sim::Complete({.seed = seed, .topology = "star-4", .mode = "3", .timers = timers});
    fail += sim::RunTrial(*scenario).verdict == sim::Verdict::kRight ? 0 : 1;
  }
  return fail;
}

class LateTimersTest : public testing::Test {
 protected:
  ~LateTimersTest() override { engine::g_forgets = false; }
};

TEST_F(LateTimersTest, TheModeIsRight) {
  const Report report = Explored(TwoCalls({.late_timers = 2}, "1"));
  EXPECT_EQ(report.verdict, Verdict::kRight) << Text(report.breach);
  EXPECT_EQ(SeedsThatFail("late"), 0);
}

TEST_F(LateTimersTest, TheExplorerFindsTheMistake) {
  engine::g_forgets = true;
  const Report report = Explored(TwoCalls({.late_timers = 1}, "1"));
  EXPECT_EQ(report.verdict, Verdict::kHung);
  ASSERT_TRUE(report.breach);
  EXPECT_EQ(report.breach->invariant, Invariant::kFairEnd) << Text(report.breach);
}

TEST_F(LateTimersTest, WithoutLateTimersTheExplorerDoesNot) {
  engine::g_forgets = true;
  for (const FaultBounds& faults : {FaultBounds{}, FaultBounds{.losses = 1}, FaultBounds{.timeouts = 1}}) {
    const Report report = Explored(TwoCalls(faults, "2"));
    EXPECT_EQ(report.verdict, Verdict::kRight) << Text(report.breach);
  }
}

TEST_F(LateTimersTest, SeedsFindTheMistake) {
  engine::g_forgets = true;
  EXPECT_GT(SeedsThatFail("late"), 20);
  EXPECT_LT(SeedsThatFail("exact"), 5);
}

}  // namespace
}  // namespace epic::check
