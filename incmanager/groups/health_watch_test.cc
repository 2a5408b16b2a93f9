#include "incmanager/groups/health_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "incmanager/groups/group_table_testing.h"

namespace epic::manager {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Nanos kTick = 100 * kMillisecond;

// A group over a topology in virtual time: agents that speak unless they are silenced, engines that answer
// probes unless they are dead, and what the manager makes of it.
class Trial {
 public:
  explicit Trial(const testing::TopologyBuilder& builder, uint32_t size = 4)
      : w(builder), watch(&w.topology, &w.switches) {
    w.JoinAll(size);
    w.AnswerInstalls();
    EXPECT_EQ(w.Phase(), "running");
  }

  // As ManagerState::Tick; answers come before the next tick.
  void Pass(Nanos time) {
    for (const Nanos end = w.now + time; w.now < end;) {
      w.now += kTick;
      if (w.now % kSecond == 0) Heartbeats();
      if (watch.IsDue(w.now)) {
        for (const auto& ask : watch.Due(w.now, w.table.Watched())) Answer(ask);
      }
      for (NodeId node = 0; node < w.topology.switch_count; ++node) {
        const Verdict verdict = watch.VerdictOf(w.now, node);
        if (w.switches.OnVerdict(node, verdict) && verdict == Verdict::kSwitchLost)
          w.table.OnSwitchLost(w.now, node, "so it is");
      }
      for (const LinkEnd& end_of_link : watch.LostLinks(w.now)) w.table.OnLinkLost(w.now, end_of_link);
      w.table.Tick(w.now);
    }
  }

  // The failure that every rank has been told, after that many seconds; or none, after ten.
  std::pair<Failure, double> Outcome(uint32_t size = 4) {
    const Nanos begin = w.now;
    while (w.now < begin + 10 * kSecond && w.Last<Failure>(100) == nullptr) Pass(kTick);
    for (uint32_t rank = 0; rank < size; ++rank) {
      EXPECT_EQ(w.Last<Failure>(100 + rank) != nullptr, w.Last<Failure>(100) != nullptr);
    }
    const auto* failure = w.Last<Failure>(100);
    return {failure != nullptr ? *failure : Failure{}, static_cast<double>(w.now - begin) / kSecond};
  }

  void Cut(const std::string& node, const std::string& port) { cut.emplace(w.Id(node), port); }

  GroupWorldFixture w;
  HealthWatch watch;
  std::set<std::string> silent_agents, dead_engines;
  std::set<std::pair<NodeId, std::string>> cut;  // ports without a carrier
  std::set<SessionId> stopped_ranks;
  bool echoes_pass = true;
  int asks = 0;

 private:
  void Heartbeats() {
    for (NodeId node = 0; node < w.topology.switch_count; ++node) {
      const std::string& name = w.topology.nodes[node].name;
      if (silent_agents.contains(name)) continue;
      EngineReport report = w.Report(node);
      for (PortState& port : report.ports) port.up = !cut.contains({node, port.name});
      const auto change = w.switches.Heartbeat(w.now, name, dead_engines.contains(name) ? nullptr : &report);
      ASSERT_TRUE(change.ok());
      if (change->contexts_lost) w.table.OnContextsLost(w.now, node);
      if (change->engine_down) w.table.OnSwitchLost(w.now, node, "its engine has stopped");
      if (!change->register_again) continue;
      ASSERT_TRUE(w.switches.Register(w.now, name, "agent", report).ok());
      w.switches.OnForwardingSet(node, true);
    }
  }

  void Answer(const HealthWatch::Ask& ask) {
    ++asks;
    if (ask.witness.is_rank && stopped_ranks.contains(ask.witness.id)) return;
    const auto key = std::pair(ask.about, ask.witness);
    const auto [before, first] = echoed_.try_emplace(key, false);
    watch.OnAnswer(w.now, ask.about, ask.witness, !first, before->second);
    before->second = echoes_pass && !dead_engines.contains(w.topology.nodes[ask.about].name);
  }

  std::map<std::pair<NodeId, Witness>, bool> echoed_;  // the request sent last
};

TEST(HealthWatch, ADeadSwitchIsLostWithin5s) {
  // Over all phases of the heartbeat and of the rounds of probes.
  for (int phase = 0; phase < 10; ++phase) {
    Trial t(testing::Tree32());
    t.Pass(10 * kSecond + phase * kTick);
    t.silent_agents.insert("leaf1");
    t.dead_engines.insert("leaf1");
    const auto [failure, seconds] = t.Outcome();
    EXPECT_EQ(failure.code, ErrorCode::kSwitchLost);
    EXPECT_EQ(failure.switch_name, "leaf1");
    EXPECT_THAT(failure.message, HasSubstr("leaf1"));
    EXPECT_LE(seconds, 4.5) << phase;
    EXPECT_STREQ(Name(t.w.switches.entry(t.w.Id("leaf1")).state), "lost");
    EXPECT_THAT(t.w.switches.Unusable(t.w.Id("leaf1"), Mode::kTranslated), HasSubstr("lost"));
  }
}

TEST(HealthWatch, RanksAreTheWitnessesOfALoneSwitch) {
  Trial t(testing::Star(4));
  t.Pass(3 * kSecond);
  t.silent_agents.insert("s1");
  t.dead_engines.insert("s1");
  t.stopped_ranks.insert(101);
  const auto [failure, seconds] = t.Outcome();
  EXPECT_EQ(failure.code, ErrorCode::kSwitchLost);
  EXPECT_LE(seconds, 4.5);
}

TEST(HealthWatch, AnAgentAloneDisturbsNobody) {
  for (const auto& builder : {testing::Tree32(), testing::Star(4)}) {
    Trial t(builder);
    t.Pass(3 * kSecond);
    t.silent_agents = {"leaf1", "s1"};
    EXPECT_TRUE(t.Outcome().first.ok());
    EXPECT_EQ(t.w.Phase(), "running");
    EXPECT_STREQ(Name(t.w.switches.entry(t.w.topology.switch_count > 1 ? t.w.Id("leaf1") : 0).state),
                 "agent lost");
    // It comes back.
    t.silent_agents.clear();
    EXPECT_TRUE(t.Outcome().first.ok());
    EXPECT_STREQ(Name(t.w.switches.entry(t.w.topology.switch_count > 1 ? t.w.Id("leaf1") : 0).state), "up");
  }
}

TEST(HealthWatch, AllAgentsSilentIsNoVerdictEither) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.silent_agents = {"root", "leaf1", "leaf2"};
  EXPECT_TRUE(t.Outcome().first.ok());
  EXPECT_EQ(t.w.Phase(), "running");
}

TEST(HealthWatch, AnEngineThatDiesAfterItsAgentIsFound) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.silent_agents.insert("leaf2");
  t.Pass(20 * kSecond);
  t.dead_engines.insert("leaf2");
  const auto [failure, seconds] = t.Outcome();
  EXPECT_EQ(failure.code, ErrorCode::kSwitchLost);
  EXPECT_EQ(failure.switch_name, "leaf2");
  EXPECT_LE(seconds, 4.5);
}

TEST(HealthWatch, WhereNoEchoHasEverPassedSilenceSaysNothing) {
  Trial t(testing::Tree32());
  t.echoes_pass = false;  // a filter between them
  t.Pass(10 * kSecond);
  t.silent_agents.insert("leaf1");
  EXPECT_TRUE(t.Outcome().first.ok());
  EXPECT_EQ(t.w.Phase(), "running");
}

TEST(HealthWatch, NobodyIsAskedWhileAllIsWell) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  const int asked = t.asks;
  EXPECT_GT(asked, 0) << "whether echoes pass at all";
  t.Pass(60 * kSecond);
  EXPECT_EQ(t.asks, asked);
}

TEST(HealthWatch, AWitnessIsAskedAgainOnlyWhenItHasAnswered) {
  Trial t(testing::Star(4));
  t.stopped_ranks = {100, 101, 102, 103};
  t.silent_agents.insert("s1");
  t.Pass(30 * kSecond);
  EXPECT_EQ(t.asks, 4);
}

TEST(HealthWatch, ACutLinkIsLostWithBothEndsNamed) {
  for (const bool far_end : {false, true}) {
    Trial t(testing::Tree32());
    t.Pass(3 * kSecond);
    far_end ? t.Cut("root", "swp1") : t.Cut("leaf1", "swp3");
    const auto [failure, seconds] = t.Outcome();
    EXPECT_EQ(failure.code, ErrorCode::kLinkLost);
    EXPECT_THAT(failure.message, AllOf(HasSubstr("root:swp1"), HasSubstr("leaf1:swp3")));
    EXPECT_LE(seconds, 3.5);
  }
}

TEST(HealthWatch, AHostsCutLinkNamesHostAndPort) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.Cut("leaf2", "swp1");
  const auto [failure, seconds] = t.Outcome();
  EXPECT_EQ(failure.code, ErrorCode::kLinkLost);
  EXPECT_EQ(failure.switch_name, "leaf2");
  EXPECT_THAT(failure.message, AllOf(HasSubstr("h2"), HasSubstr("leaf2:swp1")));
  EXPECT_LE(seconds, 3.5);
}

TEST(HealthWatch, ALinkThatComesBackSoonIsNotLost) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.Cut("leaf1", "swp3");
  t.Pass(2 * kSecond);
  t.cut.clear();
  EXPECT_TRUE(t.Outcome().first.ok());
}

TEST(HealthWatch, LinksThatAGroupDoesNotCrossDoNotMatter) {
  Trial t(testing::Tree32(), 2);  // h0 and h1, both at leaf1
  t.Pass(3 * kSecond);
  t.Cut("root", "swp1");
  t.Cut("leaf2", "swp1");
  EXPECT_TRUE(t.Outcome(2).first.ok());
  // A group that comes to cross one learns of it at once.
  t.w.JoinAll(4, "late");
  t.w.AnswerInstalls();
  t.Pass(kTick);
  EXPECT_EQ(t.w.Last<Failure>(100)->code, ErrorCode::kLinkLost);
}

TEST(HealthWatch, AMachineThatDiesWithItsCarriersIsALostSwitch) {
  Trial t(testing::Tree32());
  t.Pass(3 * kSecond);
  t.silent_agents.insert("leaf1");
  t.dead_engines.insert("leaf1");
  t.Cut("root", "swp1");
  const auto [failure, seconds] = t.Outcome();
  EXPECT_EQ(failure.code, ErrorCode::kSwitchLost);
  EXPECT_EQ(failure.switch_name, "leaf1");
  EXPECT_LE(seconds, 4.5);
}

// A switch that only forwards between the ends of a tree edge.
TEST(HealthWatch, ASwitchInsideATreeEdgeCounts) {
  testing::TopologyBuilder line;
  line.Switch("a").Switch("between").Switch("middle").Switch("near").Switch("b");
  for (const char* host : {"h0", "h1", "h2", "h3"}) line.Host(host);
  line.Link("a", "h0").Link("a", "h1").Link("b", "h2").Link("b", "h3");
  line.Link("a", "between").Link("between", "middle").Link("middle", "near").Link("near", "b");

  Trial dies(line);
  for (const ContextPlan& context : dies.w.installed) ASSERT_NE(context.node, dies.w.Id("between"));
  dies.Pass(3 * kSecond);
  dies.silent_agents.insert("between");
  dies.dead_engines.insert("between");
  EXPECT_EQ(dies.Outcome().first.switch_name, "between");

  // The agent lives and says so.
  Trial stops(line);
  stops.Pass(3 * kSecond);
  stops.dead_engines.insert("between");
  EXPECT_EQ(stops.Outcome().first.switch_name, "between");

  Trial cut(line);
  cut.Pass(3 * kSecond);
  cut.Cut("between", "swp2");
  EXPECT_THAT(cut.Outcome().first.message, AllOf(HasSubstr("between:swp2"), HasSubstr("middle:swp1")));
}

TEST(HealthWatch, AnswersThatWereNotAskedForChangeNothing) {
  Trial t(testing::Star(4));
  t.Pass(3 * kSecond);
  t.silent_agents.insert("s1");
  t.Pass(kSecond);
  // All answers to what was asked have come: these are more than that, or of strangers.
  for (Nanos passed = 0; passed < 10 * kSecond; passed += kTick) {
    for (SessionId session = 90; session < 110; ++session) {
      t.watch.OnAnswer(t.w.now, 0, {true, session}, true, false);
      t.watch.OnNoAnswer(0, {true, session});
      t.watch.OnAnswer(t.w.now, 7, {true, session}, true, false);
    }
    t.Pass(kTick);
  }
  EXPECT_EQ(t.w.Phase(), "running");
}

}  // namespace
}  // namespace epic::manager
