// What late timers find: a mode with a mistake that shows only between the time at which a timer is due and
// the moment at which it runs. Both the explorer and the seeds find it with late timers, and without them see
// nothing, early timers, losses and late calls or not.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "check/explorer.h"
#include "check/setups_testing.h"
#include "incengine/modes/mode.h"
#include "incengine/modules/admit.h"
#include "incengine/modules/progress.h"
#include "sim/trial.h"

namespace epic::engine {
namespace {

// Whether the mode has the mistake.
bool g_forgets = false;

// Mode II, whose root sends a result to two children at once and to the others when a short time has passed,
// by the group's timer: a switch that must not send too much at a time.
constexpr size_t kAtOnce = 2;
Nanos Pause(const Context& ctx) { return ctx.config.prompt_ns / 8; }

// Two fields of mode III's, which mode II leaves alone: every result before this one has gone to the child;
// and when those that wait go.
Index& GoneEnd(Endpoint& child) { return child.ack_sent; }
Nanos& GoesAt(Endpoint& child) { return child.resend_at; }

std::span<Endpoint> Waiting(Context& ctx) {
  if (!ctx.is_root() || ctx.children.size() <= kAtOnce) return {};
  return std::span(ctx.children).subspan(kAtOnce);
}

// Mode II's effects, but for results that wait: they go later, and nobody has to ask for them.
class HoldingBack final : public Effects {
 public:
  HoldingBack(Context& ctx, Effects& effects) : ctx_(ctx), effects_(effects) {}
  void Send(PortId port, const OutPacket& out) override {
    for (Endpoint& child : Waiting(ctx_)) {
      if (child.config.remote_qpn != out.packet.bth.dest_qp || !IsSend(out.packet.bth.opcode)) continue;
      if (child.out.IndexOf(out.packet.bth.psn).value_or(-1) >= GoneEnd(child)) return;
    }
    effects_.Send(port, out);
  }
  void SetTimer(TimerId id, Nanos deadline) override { effects_.SetTimer(id, deadline); }
  void Drop(PortId port, DropReason reason) override { effects_.Drop(port, reason); }

 private:
  Context& ctx_;
  Effects& effects_;
};

void Go(Context& ctx, Endpoint& child, Env& env) {
  for (Index i = child.out.Next(GoneEnd(child)); i < ctx.results_end; i = child.out.Next(i + 1))
    SendHeld(ctx, child, i, /*ack_req=*/true, env);
  GoneEnd(child) = ctx.results_end;
  GoesAt(child) = kNever;
}

// A result is new.
void NewResult(Context& ctx, Endpoint& child, Env& env) {
  const Index newest = child.out.Previous(ctx.results_end);
  if (newest < GoneEnd(child)) return;
  if (GoesAt(child) == kNever) {
    GoesAt(child) = env.now + Pause(ctx);
    return ArmTimer(ctx, GoesAt(child), env);
  }
  if (!g_forgets || env.now < GoesAt(child)) return;
  // The mistake: their time has come, so those before it have gone, and this one has nothing to wait for. But
  // the timer has not run; when it does, nothing waits, and who asks for them is told to wait.
  SendHeld(ctx, child, newest, /*ack_req=*/true, env);
  GoesAt(child) = kNever;
}

class Paused final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    HoldingBack effects(ctx, env.effects);
    Env inner{.now = env.now, .address = env.address, .arena = env.arena, .effects = effects};
    const Index before = ctx.results_end;
    TranslatedMode().OnPacket(ctx, from, packet, inner);
    if (ctx.results_end == before) return;
    for (Endpoint& child : Waiting(ctx)) NewResult(ctx, child, env);
  }

  void OnTimer(Context& ctx, Env& env) const override {
    for (Endpoint& child : Waiting(ctx)) {
      if (env.now >= GoesAt(child)) Go(ctx, child, env);
    }
    HoldingBack effects(ctx, env.effects);
    Env inner{.now = env.now, .address = env.address, .arena = env.arena, .effects = effects};
    TranslatedMode().OnTimer(ctx, inner);
    for (Endpoint& child : Waiting(ctx)) ArmTimer(ctx, GoesAt(child), env);
  }
};

}  // namespace

// It has no number of its own: in this program it stands in the place of mode III.
const ModeLogic& AugmentedMode() {
  static const Paused mode;
  return mode;
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

// The first seed that does not end right, if any.
std::optional<uint64_t> FirstSeed(const char* timers, uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto scenario = sim::Complete({.seed = seed, .topology = "star-4", .mode = "3", .timers = timers});
    if (sim::RunTrial(*scenario).verdict != sim::Verdict::kRight) return seed;
  }
  return std::nullopt;
}

class LateTimersTest : public testing::Test {
 protected:
  ~LateTimersTest() override { engine::g_forgets = false; }
};

TEST_F(LateTimersTest, TheModeIsRight) {
  const Report report = Explored(TwoCalls({.late_timers = 2}, "1"));
  EXPECT_EQ(report.verdict, Verdict::kRight) << Text(report.breach);
  EXPECT_EQ(FirstSeed("late", 200), std::nullopt);
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

TEST_F(LateTimersTest, AFewSeedsFindTheMistake) {
  engine::g_forgets = true;
  EXPECT_NE(FirstSeed("late", 100), std::nullopt);
}

TEST_F(LateTimersTest, WithoutLateTimersSeedsDoNot) {
  engine::g_forgets = true;
  EXPECT_EQ(FirstSeed("exact", 200), std::nullopt);
}

}  // namespace
}  // namespace epic::check
