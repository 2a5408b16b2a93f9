// Calls between the hosts: what is explored, what each message must be, and what is no setup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "check/explored_testing.h"

namespace epic::check {
namespace {

using testing::HasSubstr;

TEST(HostsTest, KnownCounts) {
  const Known known[] = {
      {{.path = "hosts", .ranks = 2}, 34, 14, 1},
      {{.path = "hosts", .ranks = 3}, 2453, 35, 1},
      {{.path = "hosts", .ranks = 3, .collective = "barrier"}, 66, 11, 1},
      {{.path = "hosts", .ranks = 3, .algorithm = "doubling", .faults = {.losses = 1}}, 200, 13, 1},
      {{.path = "hosts", .ranks = 3, .different = "count@1"}, 125, 13, 3},
  };
  ExpectKnown(known);
}

TEST(HostsTest, ReductionsLeaveVerdictAndFinalStatesAsTheyAre) {
  const struct Setup setups[] = {
      {.path = "hosts", .ranks = 3, .faults = {.losses = 1}},
      {.path = "hosts", .ranks = 3, .faults = {.duplicates = 1}},
      {.path = "hosts", .ranks = 2, .messages = 2, .faults = {.losses = 2}},
      {.path = "hosts",
       .ranks = 3,
       .algorithm = "doubling",
       .collective = "allreduce,barrier",
       .calls = "apart",
       .faults = {.losses = 1},
       .late_calls = "2"},
      {.path = "hosts",
       .ranks = 2,
       .collective = "allreduce*2",
       .calls = "after-results",
       .faults = {.timeouts = 1}},
      {.path = "hosts", .ranks = 4, .collective = "barrier", .faults = {.losses = 1, .late_timers = 1}},
  };
  ExpectReductionsChangeNothing(setups);
}

// Whichever rank's call differs, and in what.
TEST(HostsTest, CallsThatDifferEndInTheSameErrorOnEveryRank) {
  struct Case {
    const char* collective;
    const char* field;
  };
  const Case cases[] = {{"barrier,allreduce", "count"},
                        {"barrier,allreduce", "op"},
                        {"allreduce*2", "collective"},
                        {"allreduce,barrier", "collective"}};
  for (const char* algorithm : {"ring", "doubling"}) {
    for (const auto& [collective, field] : cases) {
      for (const char* rank : {"@0", "@1", "@2"}) {
        const struct Setup setup {
          .path = "hosts", .ranks = 3, .algorithm = algorithm, .different = std::string(field) + rank,
          .collective = collective, .faults = {
            .losses = 1
          }
        };
        SCOPED_TRACE(Line(setup));
        const Report report = Explored(setup);
        EXPECT_EQ(report.verdict, Verdict::kRight) << Text(report.breach);
      }
    }
  }
}

TEST(HostsTest, TheLowestRankThatDiffersIsNamed) {
  const auto refusal = [](const char* different) {
    const System system(
        Built({.path = "hosts", .ranks = 3, .different = different, .collective = "allreduce*2"}));
    EXPECT_EQ(system.RefusalOf(0), std::nullopt);
    return system.RefusalOf(1).value_or(ControlHeader{});
  };
  EXPECT_EQ(refusal("count@2").status, ControlStatus::kMismatch);
  EXPECT_EQ(refusal("count@2").field, ControlField::kCount);
  EXPECT_EQ(refusal("count@2").culprit, 2u);
  EXPECT_EQ(refusal("op@1").field, ControlField::kOp);
  EXPECT_EQ(refusal("op@1").culprit, 1u);
  EXPECT_EQ(refusal("collective@0").culprit, 1u) << "rank 0's header is the reference";
  EXPECT_EQ(refusal("collective@0").invocation, 1u);
}

// Rank 0 is the proxy of rank 1, and exchanges with rank 2 (docs/PROTOCOL.md, 11.1).
TEST(HostsTest, MessagesAreTheExchangeAndThePiecesOfTheRing) {
  const System system(Built({.path = "hosts", .ranks = 3, .messages = 2}));
  ASSERT_EQ(system.edges().size(), 3u);
  struct Direction {
    int from, to;
    size_t exchange, data;
  };
  for (const Direction& d :
       {Direction{0, 1, 1, 8}, {1, 0, 1, 0}, {1, 2, 0, 8}, {2, 1, 0, 0}, {2, 0, 1, 8}, {0, 2, 1, 0}}) {
    for (const Edge& edge : system.edges()) {
      const bool up = edge.child == d.from && edge.parent == d.to;
      if (!up && !(edge.parent == d.from && edge.child == d.to)) continue;
      const std::vector<Carried>& messages = up ? edge.up : edge.down;
      ASSERT_EQ(messages.size(), d.exchange + d.data) << d.from << " to " << d.to;
      for (size_t at = 0; at < messages.size(); ++at) {
        EXPECT_EQ(messages[at].has_data, at >= d.exchange);
        EXPECT_EQ(messages[at].payload.size(), at < d.exchange ? kControlBytes : kPathMtu);
        EXPECT_EQ(messages[at].imm, at);
      }
    }
  }
}

// From rank 0 to rank 1: blocks 2, 1, 0 and 2, as 0 has them; with the contributions of 0, of 2 and 0, and of
// all.
TEST(HostsTest, APieceHasTheSumOfTheRanksThatItHasPassed) {
  const System system(Built({.path = "hosts", .ranks = 3}));
  const auto sum = [&](std::initializer_list<uint32_t> ranks, size_t block) {
    std::vector<uint32_t> sums(kPathMtu / 4);
    for (const uint32_t rank : ranks) {
      const std::vector<uint8_t> data = system.SendBuffer(0, rank);
      EXPECT_EQ(data.size(), 3 * kPathMtu);
      for (size_t i = 0; i < sums.size(); ++i) {
        uint32_t x = 0;
        std::memcpy(&x, data.data() + block * kPathMtu + i * 4, 4);
        sums[i] += x;
      }
    }
    std::vector<uint8_t> bytes(kPathMtu);
    std::memcpy(bytes.data(), sums.data(), bytes.size());
    return bytes;
  };
  const std::vector<Carried>& sent = system.EdgeAt(0, 0).down;
  ASSERT_EQ(sent.size(), 5u);
  EXPECT_EQ(sent[1].payload, sum({0}, 2));
  EXPECT_EQ(sent[2].payload, sum({2, 0}, 1));
  EXPECT_EQ(sent[3].payload, sum({0, 1, 2}, 0));
  EXPECT_EQ(sent[4].payload, sum({0, 1, 2}, 2));
}

std::string ErrorOf(Setup setup) {
  setup.path = setup.path == "network" ? "hosts" : "network";
  const auto config = Build(setup);
  return config.ok() ? "none" : std::string(config.status().message());
}

TEST(HostsTest, AnErrorNamesWhatCallsBetweenTheHostsDoNotHave) {
  EXPECT_EQ(ErrorOf({}), "none");
  EXPECT_THAT(ErrorOf({.ranks = 9}), HasSubstr("ranks: 2 to 8"));
  EXPECT_THAT(ErrorOf({.algorithm = "auto"}), HasSubstr("algorithm: 'auto' is none of ring"));
  EXPECT_THAT(ErrorOf({.algorithm = "doubling", .messages = 2}), HasSubstr("messages: by doubling"));
  EXPECT_THAT(ErrorOf({.messages = 22}), HasSubstr("messages: 21 at most"));
  EXPECT_THAT(ErrorOf({.message_packets = 2}), HasSubstr("packets: "));
  EXPECT_THAT(ErrorOf({.mode = "3"}), HasSubstr("mode: not between the hosts"));
  EXPECT_THAT(ErrorOf({.topology = "star-2"}), HasSubstr("topology: not between the hosts"));
  EXPECT_THAT(ErrorOf({.window = 3}), HasSubstr("window: not between the hosts"));
  EXPECT_THAT(ErrorOf({.send_windows = "changing"}), HasSubstr("send-windows: not between the hosts"));
  EXPECT_THAT(ErrorOf({.buffers = "bounce"}), HasSubstr("buffers: not between the hosts"));
  EXPECT_THAT(ErrorOf({.faults = {.crashes = 1}}), HasSubstr("crashes: not between the hosts"));
  EXPECT_THAT(ErrorOf({.faults = {.regroups = 1}}), HasSubstr("regroups: not between the hosts"));
  EXPECT_THAT(ErrorOf({.collective = "reduce"}), HasSubstr("allreduce and barrier are explored"));
  EXPECT_THAT(ErrorOf({.collective = "allreduce+"}), HasSubstr("allreduce and barrier are explored"));
  for (const char* different :
       {"count@3", "count@", "count", "@1", "root@1", "count@1x", "count@+1", "count@1@1", "count@-1"})
    EXPECT_THAT(ErrorOf({.different = different}), HasSubstr("different: '")) << different;
  EXPECT_THAT(ErrorOf({.different = "count@1", .collective = "barrier"}), HasSubstr("different: 'count'"));
  // Of a tree.
  EXPECT_THAT(ErrorOf({.path = "hosts", .ranks = 4}), HasSubstr("ranks: with path hosts only"));
  EXPECT_THAT(ErrorOf({.path = "hosts", .algorithm = "doubling"}),
              HasSubstr("algorithm: with path hosts only"));
  EXPECT_THAT(ErrorOf({.path = "hosts", .different = "count@1"}),
              HasSubstr("different: with path hosts only"));
  EXPECT_EQ(Build({.path = "rail"}).status().message(), "path: 'rail' is neither network nor hosts");
}

TEST(HostsTest, ALineThatReplaysHasAllOfIt) {
  const struct Setup setup {
    .path = "hosts", .ranks = 4, .algorithm = "doubling", .different = "count@3", .faults = {.losses = 1 }
  };
  const auto replay = ParseReplay(Line(setup));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(Line(replay->setup), Line(setup));
  EXPECT_EQ(Line(setup),
            "path=hosts ranks=4 collective=allreduce algorithm=doubling messages=1 psn=0xfffffe "
            "different=count@3 losses=1");
}

}  // namespace
}  // namespace epic::check
