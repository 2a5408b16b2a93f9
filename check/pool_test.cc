// Groups whose payloads lie in the pool of the only switch, and their servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/explorer.h"
#include "check/setups_testing.h"

namespace epic::check {
namespace {

using testing::HasSubstr;

Setup PoolSetup(uint32_t places, uint32_t groups) {
  return {.mode = "5", .topology = "star-2", .groups = groups, .pool = places};
}

void ExpectRight(const Setup& setup) {
  Model model = ModelOf(setup);
  const Report report = Explore(model, {});
  EXPECT_EQ(report.verdict, Verdict::kRight) << Line(setup) << ": " << Text(report.breach);
}

TEST(CheckPoolTest, EachGroupHasAServer) {
  const System system(Built(PoolSetup(1, 2)));
  EXPECT_EQ(system.nodes(), 1 + 2 * 2 + 2);
  EXPECT_EQ(system.edges().size(), 2u * 2 + 2);
  EXPECT_EQ(system.NodeName(6), "server1");
  EXPECT_FALSE(system.is_host(5));
  EXPECT_FALSE(system.asks()) << "no block: calls are made at once";
  const engine::GroupConfig group = system.GroupOf(0, 1);
  ASSERT_TRUE(group.server.has_value());
  EXPECT_EQ(group.server->remote_ip, system.AddressOf(6));
  EXPECT_EQ(group.children.size(), 2u);
}

TEST(CheckPoolTest, WhoeverLosesThePlaceAllIsRightAndGivenBack) {
  for (const char* policy : {"priority", "fcfs", "always", "coin"}) {
    check::Setup setup = PoolSetup(1, 2);
    setup.pool_policy = policy;
    ExpectRight(setup);
  }
}

TEST(CheckPoolTest, SoItIsWithLossesOnLegsToo) {
  for (const char* collective :
       {"allreduce", "reduce", "broadcast", "allgather", "reducescatter", "allreduce+"}) {
    check::Setup setup = PoolSetup(1, 1);
    setup.collective = collective;
    setup.messages = 2;
    setup.faults.losses = 1;
    ExpectRight(setup);
  }
}

TEST(CheckPoolTest, PartsOfSixteenBitNumbersAreTwiceAsLongAndNotRounded) {
  for (const char* type : {"bfloat16", "float16"}) {
    check::Setup setup = PoolSetup(1, 1);
    setup.type = type;
    setup.messages = 2;
    setup.faults.losses = 1;
    ExpectRight(setup);
  }
}

TEST(CheckPoolTest, AnySumThatIsNotWholeMayLoseItsPlaceAtAnyTime) {
  check::Setup setup = PoolSetup(1, 1);
  setup.faults.evictions = 2;
  Model model = ModelOf(setup);
  constexpr Action kEvict{ActionKind::kEvict, 0, 0};
  std::vector<Word> state = model.Initial();
  const auto possible = [&] {
    std::vector<Action> actions;
    model.Enabled(state, /*reduced=*/false, &actions);
    return std::ranges::find(actions, kEvict) != actions.end();
  };
  const auto step = [&](ActionKind kind, uint8_t object) {
    EXPECT_FALSE(possible()) << "nothing is summed yet";
    EXPECT_EQ(model.Apply(state, {kind, object}), nullptr);
  };
  for (uint8_t host = 1; host <= 2; ++host) step(ActionKind::kStart, host);
  for (int packet = 0; packet < 2; ++packet) step(ActionKind::kDeliver, 0);  // of the first: control, data
  ASSERT_TRUE(possible());
  EXPECT_EQ(model.Describe(state, kEvict), "a sum at root loses its place, the 1. of those that may");
  EXPECT_EQ(model.Apply(state, kEvict), nullptr);
  EXPECT_FALSE(possible()) << "its place is free";
  EXPECT_EQ(Explore(model, {}).verdict, Verdict::kRight);
  const auto replay = ParseReplay(Line(setup) + " steps=S1,V0:1");
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->setup.faults.evictions, 2u);
  EXPECT_EQ(replay->steps.back(), (Action{ActionKind::kEvict, 0, 1}));
}

TEST(CheckPoolTest, WhatAPoolIsNotThereForIsRefused) {
  const auto refusal = [](const check::Setup& setup) { return std::string(Build(setup).status().message()); };
  check::Setup setup = PoolSetup(65, 1);
  EXPECT_THAT(refusal(setup), HasSubstr("pool: 1 to 64 places"));
  setup = PoolSetup(1, 1);
  setup.pool_policy = "dice";
  EXPECT_THAT(refusal(setup), HasSubstr("pool-policy: 'dice'"));
  setup = PoolSetup(1, 1);
  setup.pool = 0;
  setup.mode = "3";
  setup.faults.evictions = 1;
  EXPECT_THAT(refusal(setup), HasSubstr("evictions: there is no pool"));
  setup = PoolSetup(1, 1);
  setup.mode = "2";
  EXPECT_THAT(refusal(setup), HasSubstr("pool: mode II has none, mode V has"));
  setup = PoolSetup(1, 1);
  setup.pool = 0;
  EXPECT_THAT(refusal(setup), HasSubstr("pool: mode V needs one of 1 to 64 places"));
  setup = PoolSetup(1, 1);
  setup.topology = "tree-3-2";
  EXPECT_THAT(refusal(setup), HasSubstr("pool: of one switch"));
  setup = PoolSetup(1, 1);
  setup.faults.crashes = 1;
  EXPECT_THAT(refusal(setup), HasSubstr("pool: without crashes"));
}

}  // namespace
}  // namespace epic::check
