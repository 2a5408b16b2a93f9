// Groups whose memory in every switch is one block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "check/explorer.h"
#include "check/replay.h"
#include "check/setups_testing.h"
#include "incengine/modes/table.h"

namespace epic::check {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string RefusalOf(const Setup& setup) { return std::string(Build(setup).status().message()); }

std::vector<uint32_t> FlagsOf(const Setup& setup) {
  std::vector<uint32_t> flags;
  for (const Invocation& invocation : System(Built(setup)).Invocations())
    flags.push_back(invocation.header.flags);
  return flags;
}

TEST(GroupsTest, EachHasHostsAndQueuePairsOfItsOwn) {
  const System system(Built({.topology = "chain", .groups = 2}));
  EXPECT_EQ(system.nodes(), 2 + 2 * 2);
  EXPECT_EQ(system.edges().size(), 2u * 3);
  EXPECT_EQ(system.NodeName(2), "host0 of group 1");
  EXPECT_EQ(system.NodeName(5), "host1 of group 2");
  const engine::GroupConfig first = system.GroupOf(1, 0), second = system.GroupOf(1, 1);
  EXPECT_NE(first.group_id, second.group_id);
  EXPECT_EQ(first.block, second.block);
  EXPECT_EQ(first.block_bytes, engine::ArenaBytes(first));
  EXPECT_NE(first.parent->local_qpn, second.parent->local_qpn);
  EXPECT_NE(first.parent->port, second.parent->port);
  EXPECT_EQ(first.children.size(), 1u);
  EXPECT_NE(system.SendBuffer(0, 0, 0), system.SendBuffer(0, 0, 1));
}

TEST(GroupsTest, ACallWithDataIsARequestAndWhatItAsksFor) {
  EXPECT_THAT(FlagsOf({.collective = "barrier,allreduce+", .topology = "star-2", .groups = 2}),
              ElementsAre(0u, kRequestFlag, kGrantedFlag | kInlinedFlag));
  EXPECT_THAT(FlagsOf({.topology = "star-2"}), ElementsAre(0u)) << "one group has its memory for life";
  constexpr uint32_t kOneMore = 1 << kSlicesLeftShift;
  EXPECT_THAT(FlagsOf({.topology = "star-2", .groups = 2, .slices = 2, .messages = 2}),
              ElementsAre(kRequestFlag | kOneMore, kGrantedFlag | kOneMore, kGrantedFlag));
}

TEST(GroupsTest, ASliceHasItsStretchOfEachPart) {
  const System system(Built({.collective = "allgather", .topology = "star-2", .slices = 3, .messages = 6}));
  const std::vector<Invocation> slices = system.Invocations();
  ASSERT_EQ(slices.size(), 3u);
  for (size_t at = 0; at < slices.size(); ++at) {
    EXPECT_EQ(slices[at].header.count, 2 * kPathMtu / 4);
    EXPECT_EQ(slices[at].first, at * 2 * kPathMtu / 4);
  }
  // Of what comes to the first host, the other one's part, the second slice begins behind four packets.
  const std::vector<Carried>& down = system.EdgeAt(1, 0).down;
  const std::vector<uint8_t> sent = system.SendBuffer(0, 1);
  ASSERT_EQ(down.size(), 3u * (1 + 2));
  EXPECT_TRUE(std::ranges::equal(down[4].payload, std::span(sent).subspan(2 * kPathMtu, kPathMtu)));
}

TEST(GroupsTest, CallsInSlicesAreRight) {
  for (const char* mode : {"2", "3"}) {
    for (const char* collective : {"allreduce", "reduce", "allgather", "allreduce,barrier"}) {
      const check::Setup setup{.mode = mode,
                               .collective = collective,
                               .topology = "star-2",
                               .groups = 2,
                               .slices = 2,
                               .messages = 2};
      Model model = ModelOf(setup);
      const Report report = Explore(model, {});
      EXPECT_EQ(report.verdict, Verdict::kRight) << Line(setup) << ": " << Text(report.breach);
      EXPECT_GE(report.final_states.size(), 3u);
    }
  }
}

TEST(GroupsTest, AHostWaitsForTheReplyAndEndsWhenItIsBusy) {
  // The second group asks when the first has the block: S1, S2 are the first group's hosts.
  const std::string line =
      "mode=2 collective=allreduce topology=star-2 groups=2 steps=S1,S2,D0,D2,D1,D0,D0,S3,S4,D4,D6,D5";
  const auto replay = ParseReplay(line);
  ASSERT_TRUE(replay.ok()) << replay.status();
  Model model(Built(replay->setup), BoundsOf(replay->setup));
  const Told told = check::Run(model, replay->steps);
  EXPECT_EQ(told.possible, replay->steps.size());
  EXPECT_FALSE(told.breach);
  EXPECT_THAT(told.steps[4], HasSubstr("root -> host0 of group 1: packet 0, index 0, request"));
  EXPECT_THAT(told.steps[6], HasSubstr("packet 1, index 1, control")) << "its reply has come";
  EXPECT_THAT(told.steps[11], HasSubstr("root -> host0 of group 2: packet 0, index 0, request, busy"));
}

TEST(GroupsTest, AllIsRightAndGivenBack) {
  for (const char* mode : {"2", "3"}) {
    for (const char* topology : {"star-2", "chain", "fork"}) {
      Model model = ModelOf({.mode = mode, .topology = topology, .groups = 2});
      const Report report = Explore(model, {});
      EXPECT_EQ(report.verdict, Verdict::kRight) << mode << " on " << topology << ": " << Text(report.breach);
      // Each group granted its call after the other's, or one of them busy, if not both.
      EXPECT_GE(report.final_states.size(), 3u);
    }
  }
}

TEST(GroupsTest, WithAndWithoutReductions) {
  Model model = ModelOf(
      {.mode = "3", .collective = "reduce", .topology = "star-2", .groups = 2, .faults = {.losses = 1}});
  const Report reduced = Explore(model, {});
  const Report whole = Explore(model, {.reduced = false, .symmetric = false});
  EXPECT_EQ(reduced.verdict, Verdict::kRight);
  EXPECT_EQ(whole.verdict, Verdict::kRight);
  EXPECT_EQ(reduced.final_states, whole.final_states);
  EXPECT_LT(reduced.progress.states, whole.progress.states);
}

TEST(GroupsTest, WhatTheyDoNotHaveIsRefused) {
  EXPECT_THAT(RefusalOf({.groups = 0}), HasSubstr("groups: 1 to 3"));
  EXPECT_THAT(RefusalOf({.groups = 4}), HasSubstr("groups: 1 to 3"));
  EXPECT_THAT(RefusalOf({.mode = "1", .groups = 2}), HasSubstr("groups: block: in mode I"));
  EXPECT_THAT(RefusalOf({.groups = 2, .faults = {.crashes = 1}}), HasSubstr("crashes"));
  EXPECT_THAT(RefusalOf({.groups = 2, .faults = {.regroups = 1}}), HasSubstr("regroups"));
  EXPECT_THAT(RefusalOf({.path = "hosts", .groups = 2}), HasSubstr("groups"));
  EXPECT_THAT(RefusalOf({.slices = 0}), HasSubstr("slices: 1 to 8"));
  EXPECT_THAT(RefusalOf({.slices = 9}), HasSubstr("slices: 1 to 8"));
  EXPECT_THAT(RefusalOf({.slices = 2, .messages = 3}), HasSubstr("3 messages do not make 2 slices"));
  EXPECT_THAT(RefusalOf({.collective = "allreduce,allreduce+", .slices = 2, .messages = 2}),
              HasSubstr("slices: not beside"));
  EXPECT_THAT(RefusalOf({.path = "hosts", .slices = 2}), HasSubstr("slices"));
}

}  // namespace
}  // namespace epic::check
