#include "incmanager/rpc/manager_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

// Keeps what ranks are told.
class StateWorld : public testing::IdleWorld {
 public:
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    told[session] = message;
  }
  void Install(NodeId node, const proto::GroupConfig& group) override {
    installs.emplace_back(node, group.group_id());
  }
  void Probe(NodeId witness, NodeId about, const proto::ProbeRequest& request) override {
    probes.push_back({witness, about, request});
  }

  void OnCalls(SessionId session, const proto::CallsMade* calls) override {
    answers.emplace_back(session, calls != nullptr);
  }

  void Locate(NodeId node, const proto::LocateRequest& request) override {
    located.emplace_back(node, request.ip());
  }

  std::vector<std::pair<SessionId, bool>> answers;  // of ranks that are asked; false: there will be none
  std::vector<std::pair<NodeId, uint32_t>> located;
  std::vector<std::pair<NodeId, uint64_t>> installs;  // not answered yet
  struct Probed {
    NodeId witness, about;
    proto::ProbeRequest request;
  };
  std::vector<Probed> probes;                      // not answered yet
  std::map<SessionId, proto::ServerMessage> told;  // last
};

proto::ClientMessage Join(const Topology& topology, uint32_t rank, const std::string& host_name) {
  proto::ClientMessage message;
  proto::Join& join = *message.mutable_join();
  join.set_group("g");
  join.set_rank(rank);
  join.set_world_size(3);
  join.set_ip(Raw(topology.nodes[topology.switches.size() + rank].address));
  join.set_qpn(0x11);
  join.set_max_path_mtu(1024);
  join.set_host_name(host_name);
  return message;
}

// What one rank says is told to all others.
TEST(ManagerState, PassesOnALineOfAHostsText) {
  const Topology topology = testing::Star(3).Build();
  StateWorld world;
  ManagerState state(topology, {}, 1, 1, &world);
  std::string text = "x";
  for (int i = 0; i < 100'000; ++i) text += "\u00e4";
  state.OnMessage(kSecond, 1, Join(topology, 0, text));
  state.OnMessage(kSecond, 2, Join(topology, 1, "h1"));
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason(text);
  state.OnMessage(kSecond, 1, abort);
  const proto::ServerMessage& told = world.told[2];
  EXPECT_EQ(told.failure().code(), proto::ERROR_ABORTED);
  EXPECT_EQ(told.failure().rank(), 0);
  EXPECT_LT(told.ByteSizeLong(), 1000u);
  proto::ServerMessage parsed;
  EXPECT_TRUE(parsed.ParseFromString(told.SerializeAsString())) << "not UTF-8";
}

// Who waits for it would wait until its time is over else.
TEST(ManagerState, ASessionThatEndsWhileItsRankIsAskedIsAnAnswer) {
  const Topology topology = testing::Star(3).Build();
  StateWorld world;
  ManagerState state(topology, {}, 1, 1, &world);
  for (const SessionId session : {1, 2, 3}) {
    state.OnMessage(kSecond, session, Join(topology, static_cast<uint32_t>(session) - 1, "h"));
    state.AskCalls(session);
    EXPECT_TRUE(world.told[session].has_calls());
  }
  proto::ClientMessage answer;
  answer.mutable_calls();
  state.OnMessage(kSecond, 1, answer);
  EXPECT_THAT(world.answers, ::testing::ElementsAre(std::pair(1, true)));
  state.OnClosed(kSecond, 2);
  EXPECT_THAT(world.answers, ::testing::ElementsAre(std::pair(1, true), std::pair(2, false)));
}

// Whoever looks minutes later is told, and so are those who ask as it was asked before: that it is not there.
TEST(ManagerState, TellsHowAGroupEndedThatIsGone) {
  const Topology topology = testing::Star(3).Build();
  StateWorld world;
  ManagerState state(topology, {}, 1, 1, &world);
  EXPECT_EQ(state.ShowGroup("g", true).status().message(),
            "there is no group g, and none of this name has ended lately");
  state.OnMessage(kSecond, 1, Join(topology, 0, "h0"));
  proto::ClientMessage abort;
  abort.mutable_abort()->set_reason("enough");
  state.OnMessage(2 * kSecond, 1, abort);
  state.OnClosed(2 * kSecond, 1);
  EXPECT_EQ(state.ShowGroup("g").status().message(), "there is no group g");
  const auto shown = state.ShowGroup("g", true, 662 * kSecond);
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->state(), "ended");
  EXPECT_EQ(shown->world_size(), 3u);
  EXPECT_EQ(shown->last_end().ms_ago(), 660'000);
  EXPECT_EQ(shown->last_end().joined(), 1u);
  EXPECT_EQ(shown->last_end().group_id(), shown->group_id());
  EXPECT_EQ(shown->last_end().failure().code(), proto::ERROR_ABORTED);
  EXPECT_THAT(shown->last_end().how(), ::testing::HasSubstr("failed: rank 0 on h0 (pid 0) aborted: enough"));
}

TEST(ManagerState, TellsWhatHasHappened) {
  const Topology topology = testing::Star(3).Build();
  StateWorld world;
  ManagerState state(topology, {}, 1, 1, &world);
  proto::RegisterRequest registers;
  registers.set_name("s7");
  registers.set_agent_address("10.0.0.1:7401");
  EXPECT_FALSE(state.Register(2 * kSecond, registers).ok());
  proto::CreateGroupRequest create;
  create.set_name("g");
  create.set_world_size(3);
  ASSERT_TRUE(state.CreateGroup(create).ok());
  state.OnMessage(3 * kSecond, 1, Join(topology, 0, "h0"));
  state.OnMessage(4 * kSecond, 2, Join(topology, 0, "h0"));
  const auto said = [&state](const std::string& about) {
    proto::EventsRequest request;
    request.set_about(about);
    const proto::EventsReply reply = state.Events(10 * kSecond, request);
    EXPECT_FALSE(reply.more());
    EXPECT_EQ(reply.newest(), 5u);
    std::vector<std::string> texts;
    for (const proto::Event& event : reply.events())
      texts.push_back(std::to_string(event.ms_ago()) + ": " + event.text());
    return texts;
  };
  // Two that are refused by turns, each second again.
  for (int i = 0; i < 3; ++i) {
    proto::RegisterRequest again;
    again.set_name(i % 2 == 0 ? "s8" : "s7");
    again.set_agent_address("10.0.0.1:7401");
    EXPECT_FALSE(state.Register((5 + i) * kSecond, again).ok());
  }
  EXPECT_THAT(said("switch s7"),
              ::testing::ElementsAre(::testing::StartsWith(
                  "8000: agent at 10.0.0.1:7401 refused: name: the topology has no switch s7")));
  EXPECT_THAT(
      said("group g"),
      ::testing::ElementsAre(
          "8000: reserved for 3 ranks", ::testing::StartsWith("7000: rank 0 of 3 joined"),
          ::testing::AllOf(::testing::StartsWith("6000: rank 0 of "), ::testing::HasSubstr(" refused: "))));
  EXPECT_EQ(said("").size(), 5u);
}

TEST(ManagerState, ExplainsWhatAGroupWouldGetAndKeepsNothingOfIt) {
  StateWorld world;
  ManagerState state(testing::Star(3).Build(), {}, 1, 1, &world);
  proto::ExplainRequest request;
  for (const char* host : {"h0", "h1"}) request.mutable_group()->add_hosts(host);
  request.mutable_group()->set_path(proto::PATH_NETWORK);
  const proto::ExplainReply reply = *state.Explain(request);
  ASSERT_EQ(reply.roots_size(), 1);
  EXPECT_EQ(reply.roots(0).why(), "its agent has never registered");
  EXPECT_EQ(reply.failure().code(), proto::ERROR_NO_TREE);
  EXPECT_EQ(reply.failure().switch_name(), "s1");
  request.mutable_group()->add_hosts("h9");
  EXPECT_EQ(state.Explain(request).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(state.ListGroups().groups_size(), 0);
  EXPECT_EQ(state.Events(kSecond, {}).newest(), 0U);
}

TEST(ManagerState, ListsGroupsByPages) {
  StateWorld world;
  ManagerState state(testing::Star(3).Build(), {}, 1, 1, &world);
  for (const char* name : {"c", "a", "b"}) {
    proto::CreateGroupRequest request;
    request.set_name(name);
    request.set_world_size(2);
    ASSERT_TRUE(state.CreateGroup(request).ok());
  }
  const auto names = [&state](const std::string& after, uint32_t most) {
    proto::ListGroupsRequest page;
    page.set_after(after);
    page.set_most_groups(most);
    const proto::ListGroupsReply reply = state.ListGroups(page);
    std::string out;
    for (const proto::GroupState& group : reply.groups()) out += group.name();
    return out + (reply.more() ? "+" : "");
  };
  EXPECT_EQ(names("", 0), "abc");
  EXPECT_EQ(names("", 2), "ab+");
  EXPECT_EQ(names("b", 2), "c");
  EXPECT_EQ(names("a", 2), "bc");
  EXPECT_EQ(names("c", 2), "");
}

// Without a switch that has ever registered there is no way either; with one whose agent is lost there is.
TEST(ManagerState, ByTheHostsRanksHearOfEachOthersEnds) {
  const Topology topology = testing::Star(3).Build();
  StateWorld world;
  ManagerState state(topology, {}, 1, 1, &world);
  const auto join_all = [&](proto::Path path) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      proto::ClientMessage join = Join(topology, rank, "h");
      join.mutable_join()->set_path(path);
      state.OnMessage(kSecond, 1 + rank, join);
    }
  };
  join_all(proto::PATH_AUTO);
  EXPECT_THAT(
      world.told[1].failure().message(),
      ::testing::HasSubstr("; nor by the hosts: h0 does not reach h1: s1 is between them, and its agent "
                           "has never registered"));
  testing::SwitchModel model(topology.nodes[0]);
  proto::RegisterRequest registers;
  registers.set_name("s1");
  registers.set_agent_address("10.0.0.1:7401");
  *registers.mutable_engine() = model.Describe();
  ASSERT_TRUE(state.Register(kSecond, registers).ok());
  state.OnForwardingSet(kSecond, 0, absl::OkStatus());
  join_all(proto::PATH_HOSTS);
  ASSERT_TRUE(world.told[1].has_joined()) << world.told[1].ShortDebugString();
  EXPECT_EQ(world.told[1].joined().path(), proto::PATH_HOSTS);
  const proto::GroupState shown = *state.ShowGroup("g");
  EXPECT_EQ(shown.path(), proto::PATH_HOSTS);
  EXPECT_EQ(shown.path_taken(), proto::PATH_HOSTS);
  EXPECT_EQ(shown.path_reason(), "asked for by rank 0");
  EXPECT_EQ(shown.tree_size(), 0);

  proto::ClientMessage message;
  proto::PeerEnd& end = *message.mutable_peer();
  end.set_rank(2);
  end.set_ip(0x01020304);
  end.set_qpn(0x1234);
  end.set_psn(5);
  end.set_ready(true);
  state.OnMessage(kSecond, 1, message);
  ASSERT_TRUE(world.told[3].has_peer());
  end.set_rank(0);
  end.set_ip(Raw(topology.nodes[topology.switches.size()].address));  // as it has joined, whatever it says
  EXPECT_EQ(world.told[3].peer().SerializeAsString(), end.SerializeAsString());
  end.set_rank(7);
  state.OnMessage(kSecond, 2, message);
  EXPECT_EQ(world.told[3].failure().code(), proto::ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(world.told[3].failure().rank(), 1);
}

// From a group that runs to the verdict, in virtual time, through the messages.
TEST(ManagerState, AsksSwitchesAndRanksAboutASilentSwitch) {
  const Topology topology = testing::RoutedTree32().Build();
  StateWorld world;
  ManagerState state(topology, {}, 1, 1, &world);
  Nanos now = kSecond;
  std::vector<testing::SwitchModel> models;
  for (const NodeId node : topology.switches) models.emplace_back(topology.nodes[node]);
  NodeId cut = kNoNode;  // whose first port has no carrier
  const auto heartbeats = [&](NodeId silent) {
    for (NodeId node = 0; node < models.size(); ++node) {
      if (node == silent) continue;
      proto::HeartbeatRequest request;
      request.set_name(topology.nodes[node].name);
      request.set_epoch(1);
      request.set_engine_up(true);
      *request.mutable_engine() = models[node].Describe();
      if (node == cut) request.mutable_engine()->mutable_ports(0)->set_up(false);
      const auto reply = state.Heartbeat(now, request);
      ASSERT_TRUE(reply.ok());
      if (!reply->register_again()) continue;
      proto::RegisterRequest registers;
      registers.set_name(request.name());
      registers.set_agent_address("10.0.0.1:7401");
      *registers.mutable_engine() = request.engine();
      ASSERT_TRUE(state.Register(now, registers).ok());
      state.OnForwardingSet(now, node, absl::OkStatus());
    }
  };
  heartbeats(kNoNode);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    proto::ClientMessage join = Join(topology, rank, "h");
    join.mutable_join()->set_world_size(4);
    state.OnMessage(now, 1 + rank, join);
  }
  for (const auto& [node, id] : std::exchange(world.installs, {}))
    state.OnInstalled(now, node, id, {.arena_bytes = 1000});
  ASSERT_TRUE(world.told[1].has_joined()) << world.told[1].ShortDebugString();

  const NodeId dead = *topology.FindSwitch("leaf2");
  const auto pass = [&](Nanos time, bool alive) {
    for (const Nanos end = now + time; now < end; now += 100 * kMillisecond) {
      if (now % kSecond == 0) heartbeats(alive ? kNoNode : dead);
      state.Tick(now);
      for (const StateWorld::Probed& probe : std::exchange(world.probes, {})) {
        EXPECT_EQ(probe.request.ip(), Raw(topology.nodes[probe.about].address));
        if (probe.about == dead) {
          EXPECT_EQ(probe.request.port(), "swp2");
          EXPECT_EQ(probe.request.mac(), std::string("\x02\xf0\0\0\0\x0a", 6)) << "the router's";
        }
        proto::ProbeReply reply;
        reply.set_asked(true);
        reply.set_answered(alive || probe.about != dead ? 1 : 0);
        state.OnProbed(now, probe.witness, probe.about, topology.nodes[probe.about].address, reply);
      }
      for (auto& [session, message] : world.told) {
        if (!message.has_probe()) continue;
        proto::ClientMessage answer;
        answer.mutable_probed()->set_ip(message.probe().ip());
        answer.mutable_probed()->set_asked(true);
        const bool echoes = alive || message.probe().ip() != Raw(topology.nodes[dead].address);
        answer.mutable_probed()->set_answered(echoes ? 1 : 0);
        message.Clear();
        state.OnMessage(now, session, answer);
      }
    }
  };
  EXPECT_FALSE(state.ShowGroup("g")->watched());
  pass(5 * kSecond, true);
  EXPECT_TRUE(state.ShowGroup("g")->watched());
  EXPECT_TRUE(state.ListGroups().groups(0).watched());
  const auto expect_all_well = [&] {
    for (const auto& [session, message] : world.told)
      EXPECT_FALSE(message.has_failure()) << message.ShortDebugString();
    const proto::ListSwitchesReply switches = state.ListSwitches(now);
    for (const proto::SwitchState& entry : switches.switches()) EXPECT_EQ(entry.state(), "up");
  };
  expect_all_well();

  // The manager stands still. A carrier that is away before is back meanwhile, and the words that say so
  // wait.
  cut = dead;
  heartbeats(kNoNode);
  state.Tick(now);
  cut = kNoNode;
  now += 6 * kSecond;
  state.Tick(now);
  expect_all_well();
  heartbeats(kNoNode);
  pass(5 * kSecond, true);
  expect_all_well();

  pass(8 * kSecond, false);
  for (SessionId session = 1; session <= 4; ++session) {
    const proto::Failure& failure = world.told[session].failure();
    EXPECT_EQ(failure.code(), proto::ERROR_SWITCH_LOST) << failure.message();
    EXPECT_EQ(failure.switch_name(), "leaf2");
    EXPECT_THAT(failure.message(), ::testing::HasSubstr("root and h2 and h3 have no echo from it"));
  }
  EXPECT_EQ(state.ListSwitches(now).switches(static_cast<int>(dead)).state(), "lost");
}

}  // namespace
}  // namespace epic::manager
