// Groups whose switches bear hosts' addresses (docs/PROTOCOL-MODE-IV.md, section 3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using testing::Refusal;

GroupSpec Spliced(uint32_t world_size, Path path = Path::kUnspecified) {
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = world_size;
  spec.mode = Mode::kSpliced;
  spec.path = path;
  return spec;
}

const EndpointPlan& EndOf(const std::vector<ContextPlan>& contexts, uint32_t rank) {
  for (const ContextPlan& context : contexts) {
    for (const EndpointPlan& child : context.children) {
      if (child.is_host && child.ranks[0] == rank) return child;
    }
  }
  static const EndpointPlan kNone;
  return kNone;
}

TEST(GroupSpliced, EachRankIsToldAnotherHostsAddressAndItsSwitchBearsIt) {
  GroupWorldFixture w(testing::Tree32());
  ASSERT_TRUE(w.groups()->Create(Spliced(4)).ok());
  w.JoinAll(4);
  w.AnswerInstalls();
  ASSERT_EQ(w.installed.size(), 3u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const EndpointPlan& end = EndOf(w.installed, rank);
    const JoinedReply& reply = *w.Last<JoinedReply>(100 + rank);
    const std::string peer = "h" + std::to_string(rank ^ 1);
    EXPECT_EQ(reply.mode, Mode::kSpliced);
    EXPECT_EQ(reply.remote_ip, w.topology.nodes[w.Id(peer)].address);
    EXPECT_EQ(reply.remote_name, peer + ", for switch leaf" + std::to_string(rank / 2 + 1));
    EXPECT_EQ(end.borne_ip, reply.remote_ip);
    EXPECT_EQ(end.local_qpn, reply.remote_qpn);
    EXPECT_EQ(end.remote_ip, w.topology.nodes[w.Id("h" + std::to_string(rank))].address);
    EXPECT_NE(reply.send_psn, reply.recv_psn);
  }
  for (const ContextPlan& context : w.installed) {
    EXPECT_EQ(context.parent ? context.parent->borne_ip : Ipv4{}, Ipv4{});
    for (const EndpointPlan& child : context.children) EXPECT_EQ(child.borne_ip != Ipv4{}, child.is_host);
  }
}

TEST(GroupSpliced, InOtherModesRanksAreToldTheirSwitch) {
  GroupWorldFixture w(testing::Star(2));
  w.JoinAll(2);
  w.AnswerInstalls();
  EXPECT_EQ(w.Last<JoinedReply>(100)->remote_ip, w.topology.nodes[w.Id("s1")].address);
  EXPECT_EQ(w.Last<JoinedReply>(100)->remote_name, "");
  EXPECT_EQ(w.installed[0].children[0].borne_ip, Ipv4{});
}

// One range for all ends at switches, of one core, which hosts do not have.
TEST(GroupSpliced, AllItsQpnsAreOfTheRangeThatHostsDoNotHave) {
  GroupWorldFixture w(testing::Tree32());
  for (const std::string group : {"a", "b"}) {
    GroupSpec spec = Spliced(4);
    spec.name = group;
    ASSERT_TRUE(w.groups()->Create(spec).ok());
    for (uint32_t rank = 0; rank < 4; ++rank)
      w.groups()->OnJoin(w.now, (group == "a" ? 100 : 200) + rank,
                     w.Request("h" + std::to_string(rank), rank, 4, group));
    w.AnswerInstalls();
  }
  ASSERT_EQ(w.installed.size(), 6u);
  std::set<std::pair<NodeId, uint32_t>> qpns;
  const auto check = [&](NodeId node, uint32_t qpn) {
    EXPECT_GE(qpn, 0xf00000u);
    EXPECT_LE(qpn, 0xffffffu);
    EXPECT_EQ(qpn & 0xff, 0u);
    EXPECT_TRUE(qpns.emplace(node, qpn).second) << "used twice";
  };
  for (const ContextPlan& context : w.installed) {
    EXPECT_EQ(LowByteOf(context), 0);
    if (context.parent) check(context.node, context.parent->local_qpn);
    for (const EndpointPlan& child : context.children) check(context.node, child.local_qpn);
  }
}

TEST(GroupSpliced, ARankWithAQpnOfThatRangeIsRefused) {
  for (const bool reserved : {true, false}) {
    GroupWorldFixture w(testing::Star(2));
    if (reserved) {
      ASSERT_TRUE(w.groups()->Create(Spliced(2)).ok());
    }
    JoinRequest join = w.Request("h1", 1, 2);
    join.mode = Mode::kSpliced;
    join.qpn = 0xf01234;
    const Failure failure = Refusal(&w, join);
    EXPECT_EQ(failure.code, ErrorCode::kUnsupported);
    EXPECT_EQ(failure.rank, 1);
    EXPECT_EQ(failure.message,
              "mode spliced: rank 1 of h1 has QPN 0xf01234: its NIC numbers queue pairs from 0xf00000 on, a range "
              "that is kept for the switches of this mode");
    join.qpn = 0xefffff;
    w.groups()->OnJoin(w.now, 101, join);
    w.groups()->OnJoin(w.now, 100, w.Request("h0", 0, 2));
    EXPECT_EQ(w.Phase(), "installing");
  }
  GroupWorldFixture w(testing::Star(2));
  JoinRequest other = w.Request("h0", 0, 2);
  other.qpn = 0xf01234;
  w.groups()->OnJoin(w.now, 100, other);
  EXPECT_EQ(w.Phase(), "joining") << "in other modes it is a QPN as any";
}

TEST(GroupSpliced, RanksOfOneHostAloneHaveNoTree) {
  GroupWorldFixture w(testing::Star(2));
  ASSERT_TRUE(w.groups()->Create(Spliced(2, Path::kNetwork)).ok());
  for (uint32_t rank = 0; rank < 2; ++rank) w.groups()->OnJoin(w.now, 100 + rank, w.Request("h0", rank, 2));
  const auto* failure = w.Last<Failure>(100);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kNoTree);
  EXPECT_EQ(failure->message, "mode spliced needs ranks on two hosts");
}

// Two hosts behind a bridge at one port of the only switch: what they say to each other the bridge hands over.
Topology HostsAtOnePort() {
  testing::TopologyBuilder builder;
  builder.Switch("s1");
  for (const char* host : {"h0", "h1", "h2"}) builder.Host(host).Link("s1", host);
  Topology topology = builder.Build();
  for (Hop& hop : topology.nodes[*topology.FindNode("s1")].hops) {
    if (hop.peer == *topology.FindNode("h1")) hop.port = "swp1";
  }
  return topology;
}

// With path auto such groups go by the hosts, and say why.
TEST(GroupSpliced, WhoseFramesGoAnotherWayGoesByTheHosts) {
  for (const Path path : {Path::kAuto, Path::kNetwork}) {
    GroupWorldFixture w(HostsAtOnePort());
    ASSERT_TRUE(w.groups()->Create(Spliced(2, path)).ok());
    w.JoinAll(2);
    const std::string words = "mode spliced: frames from h0 to h1 do not pass s1";
    if (path == Path::kAuto) {
      EXPECT_EQ(w.groups()->Find("g")->path_taken, Path::kHosts);
      EXPECT_THAT(w.groups()->Find("g")->path_reason, HasSubstr(words));
      continue;
    }
    const auto* failure = w.Last<Failure>(100);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, ErrorCode::kNoTree);
    EXPECT_THAT(failure->message, HasSubstr(words));
    EXPECT_EQ(failure->switch_name, "s1");
  }
}

// Frames of two hosts go by one of two spines; a tree by the other has no addresses to bear.
TEST(GroupSpliced, AnotherRootIsTriedWhereATreeHasNoAddresses) {
  GroupWorldFixture w(testing::TwoSpines());
  size_t made = 0;
  for (const std::string a : {"h0", "h1"}) {
    for (const std::string b : {"h2", "h3"}) {
      GroupSpec spec = Spliced(2, Path::kNetwork);
      spec.name = a + b;
      ASSERT_TRUE(w.groups()->Create(spec).ok());
      const SessionId first = 100 * (w.world.sent.size() + 1);
      w.groups()->OnJoin(w.now, first, w.Request(a, 0, 2, spec.name));
      w.groups()->OnJoin(w.now, first + 1, w.Request(b, 1, 2, spec.name));
      ASSERT_FALSE(w.world.installs.empty()) << w.Last<Failure>(first)->message;
      w.AnswerInstalls();
      ++made;
    }
  }
  EXPECT_EQ(made, 4u);
}

// The ways to the other hosts are its own, as far as its switches.
TEST(GroupSpliced, ItsWaysToOtherHostsMayNotChange) {
  GroupWorldFixture w(testing::TwoSpines());
  ASSERT_TRUE(w.groups()->Create(Spliced(3)).ok());
  w.JoinAll(3);
  w.AnswerInstalls();
  const auto group = w.groups()->Find("g");
  ASSERT_EQ(group->path_taken, Path::kNetwork) << group->path_reason;
  // h2's edge spans leaf2: what it sends to its partner passes leaf2 before a switch takes it.
  const NodeId partner = *w.topology.FindHostByAddress(EndOf(w.installed, 2).borne_ip);
  const auto on_the_way = [&](NodeId to, const std::string& at) {
    return std::ranges::any_of(group->footprint.ways,
                               [&](const Way& way) { return way.to == to && way.at == w.Id(at); });
  };
  EXPECT_TRUE(on_the_way(partner, "leaf2"));
  EXPECT_FALSE(on_the_way(partner, "leaf1")) << "behind the switch that takes it";
  EXPECT_FALSE(on_the_way(w.Id("h1"), "leaf1")) << "h0's frames are taken by leaf1 itself";
}

TEST(GroupSpliced, MixesWithNoOtherMode) {
  GroupWorldFixture w(testing::Tree32());
  for (const Mode own : AllModes()) {
    GroupSpec spec = Spliced(4);
    spec.switch_modes["leaf1"] = own;
    const Status status = w.groups()->Create(spec);
    EXPECT_EQ(status.ok(), own == Mode::kSpliced) << NumeralOf(own);
    EXPECT_EQ(status.code(), own == Mode::kSpliced ? StatusCode::kOk : StatusCode::kInvalidArgument);
    if (status.ok()) {
      EXPECT_TRUE(w.groups()->Destroy(w.now, spec.name, false).ok());
    }
  }
}

// Owners of a block are of one core, and these of core 0. The switch has room for one block.
TEST(GroupSpliced, SharesOnlyBlocksOfCoreZero) {
  constexpr uint64_t kBlockTakes = 128 * (24 + 2 * 4096);
  for (const bool spliced_first : {false, true}) {
    GroupWorldFixture w(testing::Star(2));
    EngineReport report = w.Report(w.Id("s1"));
    report.arena_bytes = kBlockTakes + 1000;
    report.blocks = true;
    ASSERT_TRUE(w.switches.Heartbeat(w.now, report.name, &report).ok());
    SessionId session = 100;
    const auto start = [&](const std::string& name, Mode mode) {
      GroupSpec spec = Spliced(2);
      spec.name = name;
      spec.mode = mode;
      spec.policy = Policy::kTemporal;
      spec.duty = kWholeTime / 4;
      EXPECT_TRUE(w.groups()->Create(spec).ok());
      for (uint32_t rank = 0; rank < 2; ++rank) {
        JoinRequest join = w.Request("h" + std::to_string(rank), rank, 2, name);
        join.qpn = static_cast<uint32_t>(session);
        w.groups()->OnJoin(w.now, session++, join);
      }
      for (const auto& [node, context] : std::exchange(w.world.installs, {}))
        w.groups()->OnInstalled(w.now, node, context.group_id, {.arena_bytes = kBlockTakes});
      return *w.groups()->Find(name);
    };
    const Group first = start("first", spliced_first ? Mode::kSpliced : Mode::kTranslated);
    const Group second = start("second", spliced_first ? Mode::kTranslated : Mode::kSpliced);
    ASSERT_EQ(first.path_taken, Path::kNetwork) << first.path_reason;
    EXPECT_EQ(LowByteOf(first.plan.contexts[0]) == 0, spliced_first);
    // A group of another mode has its QPNs of core 0 where it shares.
    EXPECT_EQ(second.path_taken, spliced_first ? Path::kNetwork : Path::kHosts) << second.path_reason;
    if (!spliced_first) continue;
    EXPECT_EQ(second.plan.contexts[0].block, first.plan.contexts[0].block);
    EXPECT_EQ(LowByteOf(second.plan.contexts[0]), 0);
    EXPECT_LT(second.plan.contexts[0].children[0].local_qpn, 0xf00000u);
  }
}

}  // namespace
}  // namespace epic::manager
