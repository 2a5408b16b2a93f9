// What switches have, beside what the manager means: contexts and forwarding tables that somebody else has
// changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_life_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Life;

class ManagerContexts : public ::testing::Test {
 protected:
  ManagerContexts() { sessions_ = life_.Join("g", proto::PATH_NETWORK); }

  NodeId Id(const std::string& name) const { return *life_.topology().FindSwitch(name); }
  testing::SwitchModel& model(const std::string& name) { return life_.model(Id(name)); }
  // A second later each switch's heartbeat.
  void Beats() {
    life_.Pass(kSecond);
    for (const NodeId node : life_.topology().switches) life_.Beat(node);
  }
  // Of the group's context there.
  std::pair<uint64_t, uint32_t> Context(const std::string& name) {
    const auto& group = *model(name).engine().groups().begin();
    return {group.first, group.second.config.generation};
  }
  void RemoveAt(const std::string& name) {
    const auto [id, generation] = Context(name);
    model(name).engine().Remove(id, generation);
  }
  proto::Failure End() {
    for (const proto::ServerMessage& message : life_.told[sessions_[0]])
      if (message.has_failure()) return message.failure();
    return {};
  }
  std::vector<std::string> EventsAbout(const std::string& about) {
    proto::EventsRequest request;
    request.set_about(about);
    const proto::EventsReply events = life_.state->Events(life_.now, request);
    std::vector<std::string> texts;
    for (const proto::Event& event : events.events()) texts.push_back(event.text());
    return texts;
  }
  std::vector<std::string> TableEvents(const std::string& name) {
    std::vector<std::string> texts = EventsAbout("switch " + name);
    std::erase_if(texts, [](const auto& text) { return text.find("forwarding table") == std::string::npos; });
    return texts;
  }
  // As it is with a context that nobody asked for.
  proto::EngineInfo WithStranger(const std::string& name) {
    proto::EngineInfo info = model(name).DescribeAll();
    info.add_group_ids(99);
    info.add_contexts()->set_group_id(99);
    info.mutable_contexts()->rbegin()->set_generation(3);
    return info;
  }

  Life life_{testing::Tree32().Build()};
  std::vector<SessionId> sessions_;
};

TEST_F(ManagerContexts, OneThatIsMissingEndsItsGroupAndNamesTheSwitch) {
  for (int time = 0; time < 3; ++time) Beats();
  ASSERT_EQ(End().message(), "");
  RemoveAt("leaf1");
  Beats();
  EXPECT_EQ(End().code(), proto::ERROR_SWITCH_LOST);
  EXPECT_EQ(End().switch_name(), "leaf1");
  EXPECT_EQ(End().message(),
            "switch leaf1 has no context of it any more, and its engine is the same: somebody has done that "
            "in this "
            "manager's name");
}

TEST_F(ManagerContexts, OneThatIsStoppedEndsItsGroup) {
  const auto [id, generation] = Context("root");
  model("root").engine().Fail(id, generation);
  Beats();
  Beats();
  EXPECT_EQ(End().switch_name(), "root");
  EXPECT_THAT(End().message(), HasSubstr("switch root has stopped it: "));
}

TEST_F(ManagerContexts, OneOfAnotherGenerationIsNotTheGroups) {
  Beats();
  proto::EngineInfo info = model("root").DescribeAll();
  info.mutable_contexts(0)->set_generation(info.contexts(0).generation() + 1);
  life_.Beat(Id("root"), info);
  EXPECT_THAT(End().message(), HasSubstr("switch root has no context of it any more"));
}

TEST_F(ManagerContexts, WhoElseHasTheSwitchIsSaid) {
  Beats();
  RemoveAt("root");
  model("root").fence.set_cluster("\x0a");
  model("root").fence.set_epoch(7);
  Beats();
  EXPECT_THAT(End().message(), HasSubstr("cluster 0a, epoch 7, has that switch now"));
}

// An engine that is slow to answer, or an agent, tells of what was before.
TEST_F(ManagerContexts, WhatWasSaidBeforeItWasInstalledDoesNotCount) {
  const proto::EngineInfo before = model("leaf1").DescribeAll();
  ASSERT_EQ(before.contexts_size(), 1);
  proto::EngineInfo without = before;
  without.clear_contexts();
  without.clear_group_ids();
  life_.now += kSecond;
  life_.Beat(Id("leaf1"), without);
  EXPECT_EQ(End().message(), "") << "as of the registration, behind which the group was installed";
  life_.now += kSecond;
  life_.Beat(Id("leaf1"), without);
  EXPECT_EQ(End().switch_name(), "leaf1");
}

TEST_F(ManagerContexts, OneThatNobodyMeansIsRemoved) {
  Beats();
  life_.now += kSecond;
  life_.Beat(Id("leaf1"), WithStranger("leaf1"));
  EXPECT_THAT(life_.removed, IsEmpty()) << "a removal may have been under way when it was told";
  life_.now += kSecond;
  life_.Beat(Id("leaf1"), WithStranger("leaf1"));
  EXPECT_THAT(life_.removed, ElementsAre(std::pair(99u, 3u)));
  EXPECT_THAT(EventsAbout("switch leaf1").back(), HasSubstr("it has a context of group 0x63, generation 3"));
  for (int time = 0; time < 5; ++time) {
    life_.now += kSecond;
    life_.Beat(Id("leaf1"), WithStranger("leaf1"));
  }
  EXPECT_EQ(life_.removed.size(), 1u) << "each second would be too often";
  for (int time = 0; time < 7; ++time) {
    life_.now += kSecond;
    life_.Beat(Id("leaf1"), WithStranger("leaf1"));
  }
  EXPECT_EQ(life_.removed.size(), 2u);
  EXPECT_EQ(End().message(), "");
}

// An agent takes seconds for each if its engine does. What waits for it would be more with each report.
TEST_F(ManagerContexts, NoMoreIsRemovedThanASwitchAnswers) {
  Beats();
  proto::EngineInfo many = model("leaf1").DescribeAll();
  for (uint64_t id = 1000; id < 1150; ++id) {
    many.add_group_ids(id);
    many.add_contexts()->set_group_id(id);
  }
  const auto beat = [&](int times) {
    for (int time = 0; time < times; ++time) {
      life_.now += kSecond;
      life_.Beat(Id("leaf1"), many);
    }
  };
  life_.holds_removals = true;
  beat(25);
  EXPECT_EQ(life_.removed.size(), 100u);
  life_.Register(Id("leaf1"));
  beat(25);
  EXPECT_EQ(life_.removed.size(), 100u) << "what was asked before is still under way";
  life_.AnswerRemovals();
  beat(15);
  EXPECT_EQ(life_.removed.size(), 200u) << "they are there all the same";
}

TEST_F(ManagerContexts, OneOfAnotherClusterIsNotTouched) {
  Beats();
  const std::string own = model("leaf1").fence.cluster();
  for (const auto& [cluster, epoch] : {std::pair<std::string, uint64_t>{"\x0a", 1}, {own, 1000}}) {
    proto::EngineInfo info = WithStranger("leaf1");
    info.mutable_fence()->set_cluster(cluster);
    info.mutable_fence()->set_epoch(epoch);
    for (int time = 0; time < 4; ++time) {
      life_.now += kSecond;
      life_.Beat(Id("leaf1"), info);
    }
  }
  EXPECT_THAT(life_.removed, IsEmpty());
}

// Between its last call and the removal of its contexts, and while that is under way.
TEST_F(ManagerContexts, WhatIsBeingRemovedIsNobodyElses) {
  Beats();
  const proto::EngineInfo with = model("leaf1").DescribeAll();
  life_.holds_removals = true;
  for (const SessionId session : sessions_) life_.Leave(session);
  ASSERT_EQ(life_.Contexts(), 3u);
  for (int time = 0; time < 3; ++time) Beats();
  EXPECT_EQ(life_.removed.size(), 3u) << "as the group was left";
  life_.holds_removals = false;
  life_.AnswerRemovals();
  EXPECT_EQ(life_.Contexts(), 0u);
  // What was asked before the removal was answered comes after it.
  life_.now += kSecond;
  life_.Beat(Id("leaf1"), with);
  Beats();
  EXPECT_EQ(life_.removed.size(), 3u);
}

// It does not say when it has asked.
TEST_F(ManagerContexts, WhatAnAgentOfAnEarlierVersionSaysIsNotCompared) {
  Beats();
  RemoveAt("leaf1");
  ASSERT_TRUE(model("leaf1").SetForwarding({}).ok());
  for (int time = 0; time < 3; ++time) {
    life_.now += kSecond;
    model("leaf1").as_of = 0;
    life_.Beat(Id("leaf1"));
  }
  EXPECT_EQ(End().message(), "");
  EXPECT_THAT(TableEvents("leaf1"), IsEmpty());
}

TEST_F(ManagerContexts, AfterARestartAllIsAsItWas) {
  Beats();
  life_.Restart();
  for (int time = 0; time < 3; ++time) Beats();
  EXPECT_THAT(life_.removed, IsEmpty());
  EXPECT_EQ(life_.state->ListGroups().groups(0).state(), "running");
  RemoveAt("leaf2");
  Beats();
  EXPECT_THAT(EventsAbout("group g"), Contains(HasSubstr("failed: switch leaf2 has no context of it any more")));
}

TEST_F(ManagerContexts, ATableThatIsEmptiedIsSetAnewAndThatIsSaid) {
  Beats();
  const int sent = life_.tables_sent;
  const uint64_t hash = model("root").DescribeAll().forwarding_hash();
  ASSERT_TRUE(model("root").SetForwarding({}).ok());
  Beats();
  EXPECT_EQ(life_.tables_sent, sent + 1);
  EXPECT_EQ(model("root").DescribeAll().forwarding_hash(), hash);
  EXPECT_THAT(
      TableEvents("root"),
      ElementsAre(HasSubstr("its forwarding table has been emptied, and is set anew: ")));
  for (int time = 0; time < 3; ++time) Beats();
  EXPECT_EQ(life_.tables_sent, sent + 1);
  proto::ForwardingTable other;
  other.add_flood_ports(life_.topology().nodes[Id("root")].hops[0].port);
  ASSERT_TRUE(model("root").SetForwarding(other).ok());
  Beats();
  EXPECT_EQ(model("root").DescribeAll().forwarding_hash(), hash);
  EXPECT_EQ(TableEvents("root").size(), 2u);
  EXPECT_THAT(TableEvents("leaf1"), IsEmpty());
}

TEST_F(ManagerContexts, ATableThatIsThereIsNotSentAgain) {
  Beats();
  const int sent = life_.tables_sent;
  life_.now += 20 * kSecond;
  life_.Register(Id("root"));
  EXPECT_EQ(life_.tables_sent, sent) << "its agent has started anew";
  life_.Restart();
  EXPECT_EQ(life_.tables_sent, sent) << "the manager has";
  const proto::ListSwitchesReply listed = life_.state->ListSwitches(life_.now);
  for (const proto::SwitchState& state : listed.switches()) EXPECT_EQ(state.state(), "up");
  life_.now += 20 * kSecond;
  ASSERT_TRUE(model("root").SetForwarding({}).ok());
  life_.Restart();
  EXPECT_EQ(life_.tables_sent, sent + 1);
  model("root").Start();
  Beats();
  EXPECT_EQ(life_.tables_sent, sent + 2) << "its engine has";
}

// The engine had been asked before it was sent the last one.
TEST_F(ManagerContexts, WhatWasSaidBeforeTheLastTableDoesNotCount) {
  proto::EngineInfo before = model("root").DescribeAll();
  before.set_forwarding_hash(1);
  life_.now += kSecond;
  life_.Beat(Id("root"), before);
  EXPECT_THAT(TableEvents("root"), IsEmpty());
  life_.now += kSecond;
  life_.Beat(Id("root"), before);
  EXPECT_EQ(TableEvents("root").size(), 1u);
}

}  // namespace
}  // namespace epic::manager
