// Which edges get super-frames: those of one link whose two ends have both said that they take them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SuperFramesTest : public ::testing::Test {
 protected:
  // Every switch says of its ports, other than those named ("leaf1:swp3"), that they carry super-frames;
  // every rank other than those in `plain` says that its NIC takes them.
  void Run(const testing::TopologyBuilder& builder, const std::set<std::string>& plain_ports = {},
           const std::set<uint32_t>& plain_ranks = {}) {
    w_ = std::make_unique<GroupWorldFixture>(builder);
    w_->path = path_;
    for (const NodeId node : w_->topology.switches) {
      EngineReport report = w_->Report(node);
      for (PortState& port : report.ports)
        port.super_frames = !plain_ports.contains(w_->topology.nodes[node].name + ":" + port.name);
      EPIC_CHECK(w_->switches.Register(w_->now, report.name, "agent", report).ok());
      w_->switches.OnForwardingSet(node, true);
    }
    for (uint32_t rank = 0; rank < 4; ++rank) {
      JoinRequest join = w_->Request("h" + std::to_string(rank), rank, 4);
      join.super_frames = !plain_ranks.contains(rank);
      w_->groups()->OnJoin(w_->now, 100 + rank, join);
    }
    w_->AnswerInstalls();
  }

  const ContextPlan& On(const std::string& name) const {
    for (const ContextPlan& context : w_->installed) {
      if (context.node == w_->Id(name)) return context;
    }
    throw std::out_of_range(name);
  }
  // Of rank's edge; both ends must have been told the same.
  bool AtHost(uint32_t rank) const {
    const EndpointPlan& host = On(rank < 2 ? "leaf1" : "leaf2").children[rank % 2];
    const auto* joined = w_->Last<JoinedReply>(100 + rank);
    EXPECT_NE(joined, nullptr);
    EXPECT_EQ(joined->super_frames, host.super_frames) << rank;
    return host.super_frames;
  }
  // Of the edge between the root and a leaf.
  bool Above(const std::string& leaf) const {
    const EndpointPlan& parent = *On(leaf).parent;
    EXPECT_EQ(On("root").children[leaf == "leaf1" ? 0 : 1].super_frames, parent.super_frames) << leaf;
    return parent.super_frames;
  }

  // What the rank `to` is told of an end that the rank `from` has made for it.
  bool Between(uint32_t from, uint32_t to) {
    w_->groups()->OnPeer(w_->now, 100 + from, {.rank = to, .qpn = 0x77, .psn = 1});
    const auto* told = w_->Last<PeerEnd>(100 + to);
    EXPECT_NE(told, nullptr);
    return told != nullptr && told->rank == from && told->super_frames;
  }

  // What the log says of links with one willing end.
  std::vector<std::string> NotesOfHalf() const {
    std::vector<std::string> found;
    std::ranges::copy_if(w_->world.notes, std::back_inserter(found), [](const std::string& note) {
      return note.find("one end takes super-frames") != std::string::npos;
    });
    return found;
  }

  Path path_ = Path::kUnspecified;
  std::unique_ptr<GroupWorldFixture> w_;
};

TEST_F(SuperFramesTest, WhereBothEndsTakeThem) {
  Run(testing::Tree32());
  EXPECT_THAT(NotesOfHalf(), IsEmpty());
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(AtHost(rank));
  EXPECT_TRUE(Above("leaf1"));
  EXPECT_TRUE(Above("leaf2"));
}

TEST_F(SuperFramesTest, NotToANicThatDoesNotSaySo) {
  Run(testing::Tree32(), {}, {1, 2});
  EXPECT_THAT(NotesOfHalf(), ElementsAre(AllOf(HasSubstr("h1 does not"), HasSubstr("h2 does not"),
                                               HasSubstr("\"Super-frames\""), Not(HasSubstr("h0")))));
  EXPECT_TRUE(AtHost(0));
  EXPECT_FALSE(AtHost(1));
  EXPECT_FALSE(AtHost(2));
  EXPECT_TRUE(AtHost(3));
  EXPECT_TRUE(Above("leaf1"));
}

TEST_F(SuperFramesTest, NotByAPortThatDoesNotCarryThem) {
  for (const auto* plain : {"leaf1:", "root:"}) {
    GroupWorldFixture shape(testing::Tree32());
    const NodeId node = shape.Id(std::string(plain).substr(0, std::string(plain).size() - 1));
    const NodeId other = shape.Id(std::string(plain) == "root:" ? "leaf1" : "root");
    std::string port;
    for (const Hop& hop : shape.topology.nodes[node].hops) {
      if (hop.peer == other) port = hop.port;
    }
    Run(testing::Tree32(), {plain + port});
    EXPECT_FALSE(Above("leaf1")) << plain << port;
    EXPECT_THAT(NotesOfHalf(), ElementsAre(HasSubstr(" does, " + (plain + port) + " does not")));
    EXPECT_TRUE(Above("leaf2"));
    EXPECT_TRUE(AtHost(0));
  }
  GroupWorldFixture shape(testing::Tree32());
  std::string port;
  for (const Hop& hop : shape.topology.nodes[shape.Id("leaf2")].hops) {
    if (hop.peer == shape.Id("h3")) port = hop.port;
  }
  Run(testing::Tree32(), {"leaf2:" + port});
  EXPECT_TRUE(AtHost(2));
  EXPECT_FALSE(AtHost(3));
}

TEST_F(SuperFramesTest, NotThroughARouter) {
  Run(testing::RoutedTree32());
  EXPECT_FALSE(Above("leaf2"));
  EXPECT_TRUE(Above("leaf1"));
  EXPECT_TRUE(AtHost(3));
}

TEST_F(SuperFramesTest, BetweenHostsWhereBothAndAllLinksOnTheWayTakeThem) {
  for (const Path path : {Path::kHosts, Path::kUnspecified}) {
    path_ = path;
    Run(testing::Tree32());
    EXPECT_TRUE(Between(0, 1));
    EXPECT_TRUE(Between(3, 0)) << "through three switches";
    Run(testing::Tree32(), {}, {1});
    EXPECT_FALSE(Between(0, 1));
    EXPECT_FALSE(Between(1, 0));
    EXPECT_TRUE(Between(0, 2));
    GroupWorldFixture shape(testing::Tree32());
    for (const auto& [at, peer] : {std::pair{"leaf2", "root"}, {"root", "leaf2"}}) {
      std::string port;
      for (const Hop& hop : shape.topology.nodes[shape.Id(at)].hops) {
        if (hop.peer == shape.Id(peer)) port = hop.port;
      }
      Run(testing::Tree32(), {std::string(at) + ":" + port});
      EXPECT_TRUE(Between(2, 3)) << "both at leaf2";
      EXPECT_FALSE(Between(2, 1));
      EXPECT_FALSE(Between(1, 2));
    }
  }
}

TEST_F(SuperFramesTest, NobodyIsToldOfThemUnasked) {
  GroupWorldFixture w(testing::Tree32());
  w.JoinAll(4);
  w.AnswerInstalls();
  for (const ContextPlan& context : w.installed) {
    EXPECT_FALSE(context.parent && context.parent->super_frames);
    for (const EndpointPlan& child : context.children) EXPECT_FALSE(child.super_frames);
  }
  for (SessionId session = 100; session < 104; ++session)
    EXPECT_FALSE(w.Last<JoinedReply>(session)->super_frames);
}

}  // namespace
}  // namespace epic::manager
