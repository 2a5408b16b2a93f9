// What the manager makes of what agents, engines and ranks say, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/groups/group_life_testing.h"
#include "incmanager/groups/health_watch.h"
#include "protocol/echo_history.h"

namespace epic::manager::testing {

constexpr Nanos kTick = 100 * kMillisecond;

// A group over a topology in virtual time: agents that speak unless they are silenced, engines that answer
// probes unless they are dead, and what the manager makes of it.
class Trial {
 public:
  explicit Trial(const TopologyBuilder& builder, uint32_t size = 4)
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
        for (const auto& ask : watch.Due(w.now, w.groups()->Watched())) Answer(ask);
      }
      for (const NodeId node : w.topology.switches) {
        const Verdict verdict = watch.VerdictOf(w.now, node);
        if (w.switches.OnVerdict(node, verdict) && verdict == Verdict::kSwitchLost)
          w.groups()->OnSwitchLost(w.now, node, "so it is");
      }
      for (const LinkEnd& end_of_link : watch.DownLinks()) {
        w.groups()->OnLinkDown(w.now, end_of_link,
                           [&](Nanos since) { return watch.IsLinkLost(w.now, end_of_link, since); });
      }
      watch.CheckInvariants();
      w.groups()->Tick(w.now);
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
  std::set<SessionId> stopped_ranks, lying_ranks;
  std::set<std::string> slow_engines;  // that do not answer their agents in time
  bool echoes_pass = true;
  Nanos echo_delay = 0;
  int asks = 0;

  // Agents say how things are: each second, and when an engine has told them of a change.
  void Heartbeats() {
    for (const NodeId node : w.topology.switches) {
      const std::string& name = w.topology.nodes[node].name;
      if (silent_agents.contains(name)) continue;
      EngineReport report = w.Report(node);
      for (PortState& port : report.ports) port.up = !cut.contains({node, port.name});
      report.repeated = slow_engines.contains(name);
      if (report.repeated) report.ports = said_[node];
      said_[node] = report.ports;
      const auto change = w.switches.Heartbeat(w.now, name, dead_engines.contains(name) ? nullptr : &report);
      ASSERT_TRUE(change.ok());
      if (change->contexts_lost) w.groups()->OnContextsLost(w.now, node);
      if (change->engine_down) w.groups()->OnSwitchLost(w.now, node, "its engine has stopped");
      if (!change->register_again) continue;
      ASSERT_TRUE(w.switches.Register(w.now, name, "agent", report).ok());
      w.switches.OnForwardingSet(node, true);
    }
  }

 private:
  void Answer(const HealthWatch::Ask& ask) {
    ++asks;
    if (ask.witness.is_rank && stopped_ranks.contains(ask.witness.id)) return;
    std::vector<Nanos>& echoes = echoes_[{ask.about, ask.witness}];
    uint32_t answered = 0;
    for (size_t back = 1; back <= EchoHistory::kRequests && back <= echoes.size() && answered == 0; ++back) {
      if (echoes[echoes.size() - back] <= w.now) answered = static_cast<uint32_t>(back);
    }
    const bool lies = ask.witness.is_rank && lying_ranks.contains(ask.witness.id);
    watch.OnAnswer(w.now, ask.about, ask.witness, !echoes.empty(), lies ? 1 : answered);
    const bool dead = dead_engines.contains(w.topology.nodes[ask.about].name);
    echoes.push_back(echoes_pass && !dead ? w.now + echo_delay : kNever);
  }

  std::map<std::pair<NodeId, Witness>, std::vector<Nanos>> echoes_;  // when the echo to each request comes
  std::map<NodeId, std::vector<PortState>> said_;                    // by the engines, last
};

}  // namespace epic::manager::testing
