// Which groups have multicast, and what becomes of their addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct MulticastWorld : GroupWorldFixture {
  explicit MulticastWorld(const testing::TopologyBuilder& builder = testing::Tree32(),
                          const GroupOptions& options = {})
      : GroupWorldFixture(builder, options) {}

  // Rank i on the i-th of these hosts, with session first + i.
  void JoinOn(const std::vector<std::string>& hosts, const std::string& group = "g", SessionId first = 100) {
    const auto size = static_cast<uint32_t>(hosts.size());
    for (uint32_t rank = 0; rank < size; ++rank) {
      JoinRequest join = Request(hosts[rank], rank, size, group);
      join.datagram_qpn = silent == rank ? 0 : 0x31 + rank;
      join.datagram_reach = reach;
      if (rank == deaf) join.datagram_reach = DatagramReach::kNobodys;
      join.super_frames = super_frames;
      join.datagrams_offered = offered;
      join.datagram_receives = 1024 + rank;
      if (few && few->first == rank) join.datagram_receives = few->second;
      if (asker == rank) join.datagrams_offered = false;
      groups()->OnJoin(now, first + rank, join);
    }
    AnswerInstalls();
  }
  JoinedReply Told(SessionId session = 100) const {
    const auto* reply = Last<JoinedReply>(session);
    EXPECT_NE(reply, nullptr);
    return reply == nullptr ? JoinedReply{} : *reply;
  }
  // Why the group of these hosts has none, as all its ranks are told.
  Failure Refused(const std::vector<std::string>& hosts) {
    JoinOn(hosts);
    for (SessionId session = 100; session < 100 + hosts.size(); ++session) {
      EXPECT_FALSE(Told(session).multicast);
      EXPECT_EQ(Told(session).no_multicast.message, Told().no_multicast.message);
    }
    EXPECT_THAT(groups()->Multicasts(), IsEmpty());
    return Told().no_multicast;
  }
  void Leave(size_t size, SessionId first = 100) {
    for (SessionId session = first; session < first + size; ++session) groups()->OnLeave(now, session);
    AnswerRemovals();
  }

  DatagramReach reach = DatagramReach::kRemote;
  std::optional<uint32_t> silent, deaf;              // ranks
  std::optional<std::pair<uint32_t, uint32_t>> few;  // a rank with so many receives
  bool super_frames = false;
  bool offered = false;           // the ranks do not ask for it, and would take it
  std::optional<uint32_t> asker;  // but for this one
};

TEST(GroupMulticast, EachRankIsToldTheGroupThatAllAskFor) {
  for (const Path path : {Path::kHosts, Path::kAuto}) {
    MulticastWorld w;
    w.path = path;
    w.JoinOn({"h0", "h3", "h1"});
    ASSERT_EQ(w.Phase(), "running");
    for (SessionId session = 100; session < 103; ++session) {
      const JoinedReply reply = w.Told(session);
      EXPECT_TRUE(reply.no_multicast.ok());
      ASSERT_TRUE(reply.multicast);
      EXPECT_EQ(Raw(reply.multicast->address) >> 16, 0xefc0u) << "of the default range";
      EXPECT_EQ(reply.multicast->address, w.Told().multicast->address);
      EXPECT_EQ(reply.multicast->qkey, w.Told().multicast->qkey);
      EXPECT_LT(reply.multicast->qkey, 1u << 30);
      ASSERT_EQ(reply.multicast->ends.size(), 3u);
      EXPECT_EQ(reply.multicast->ends[1].qpn, 0x32u);
      EXPECT_EQ(ToString(reply.multicast->ends[1].ip), "10.10.0.4");
    }
    const std::vector<MulticastMembers> members = w.groups()->Multicasts();
    ASSERT_EQ(members.size(), 1u);
    EXPECT_EQ(members[0].mac, MulticastMac(w.Told().multicast->address));
    EXPECT_THAT(members[0].hosts, ElementsAre(w.Id("h0"), w.Id("h3"), w.Id("h1")));
    EXPECT_THAT(w.world.notes, ::testing::Contains(HasSubstr("group g: multicast to 239.192.")));
  }
}

// So that all ranks send slices of one length, for which each has room.
TEST(GroupMulticast, TheReceivesAreThoseOfTheRankWithTheFewest) {
  MulticastWorld w;
  w.JoinOn({"h0", "h3", "h1"});
  for (SessionId session = 100; session < 103; ++session)
    EXPECT_EQ(w.Told(session).multicast->receives, 1024u);
  w.few = {2, 300};
  w.JoinOn({"h0", "h3", "h1"}, "other", 200);
  for (SessionId session = 200; session < 203; ++session)
    EXPECT_EQ(w.Told(session).multicast->receives, 300u);
}

TEST(GroupMulticast, GroupsHaveAddressesAndKeysOfTheirOwn) {
  MulticastWorld w;
  w.JoinOn({"h0", "h1"});
  w.JoinOn({"h0", "h1"}, "other", 200);
  EXPECT_NE(w.Told(100).multicast->address, w.Told(200).multicast->address);
  EXPECT_NE(w.Told(100).multicast->qkey, w.Told(200).multicast->qkey);
  EXPECT_EQ(w.groups()->Multicasts().size(), 2u);
}

TEST(GroupMulticast, WhereNobodyAsksThereIsNoneAndNoReason) {
  MulticastWorld w;
  w.JoinAll(4);
  w.AnswerInstalls();
  EXPECT_FALSE(w.Told().multicast);
  EXPECT_TRUE(w.Told().no_multicast.ok());
  EXPECT_EQ(w.groups()->multicast_changes(), 0u);
}

TEST(GroupMulticast, WhoAsksInVainIsToldWhy) {
  for (const Path path : {Path::kHosts, Path::kAuto}) {
    const auto refused = [path](const std::vector<std::string>& hosts, const auto& change) {
      MulticastWorld w;
      w.path = path;
      change(&w);
      return w.Refused(hosts);
    };
    const Failure silent = refused({"h0", "h1"}, [](auto* w) { w->silent = 1; });
    EXPECT_EQ(silent.code, ErrorCode::kUnsupported);
    EXPECT_EQ(silent.rank, 1);
    EXPECT_EQ(silent.message, "rank 1 on h1 does not ask for it, or its library is an earlier one");
    const Failure earlier = refused({"h0", "h1"}, [](auto* w) { w->few = {1, 0}; });
    EXPECT_EQ(earlier.message, silent.message);
    const Failure few = refused({"h0", "h1"}, [](auto* w) { w->few = {1, 1}; });
    EXPECT_EQ(few.rank, 1);
    EXPECT_EQ(few.message, "rank 1 on h1 has receives for 1 datagrams, and there are 2 ranks");
    const Failure deaf = refused({"h0", "h1", "h2"}, [](auto* w) { w->deaf = 2; });
    EXPECT_EQ(deaf.code, ErrorCode::kUnsupported);
    EXPECT_EQ(deaf.rank, 2);
    EXPECT_EQ(deaf.message, "the NIC of rank 2 on h2 receives no multicast");
    const Failure alone = refused({"h0", "h1", "h1"}, [](auto*) {});
    EXPECT_EQ(alone.rank, 1);
    EXPECT_EQ(alone.message,
              "the NIC of rank 1 on h1 does not receive what rank 2 on the same host sends by it");
  }
  MulticastWorld shared;
  shared.reach = DatagramReach::kAll;
  shared.JoinOn({"h0", "h1", "h1"});
  EXPECT_TRUE(shared.Told().multicast) << "its NICs do";
}

// What they send through switches is never shorter so, and then nothing is taken for it.
TEST(GroupMulticast, RanksThatWouldTakeItGetItBetweenTheHostsAlone) {
  for (const Path path : {Path::kHosts, Path::kAuto, Path::kNetwork}) {
    MulticastWorld w;
    w.path = path;
    w.offered = true;
    w.JoinOn({"h0", "h3", "h1"});
    ASSERT_EQ(w.Phase(), "running");
    EXPECT_EQ(w.Told().multicast.has_value(), path == Path::kHosts);
    EXPECT_TRUE(w.Told().no_multicast.ok());
    EXPECT_EQ(w.groups()->Multicasts().size(), path == Path::kHosts ? 1u : 0u);
    EXPECT_EQ(w.groups()->multicast_changes(), path == Path::kHosts ? 1u : 0u);
  }
}

TEST(GroupMulticast, OfRanksThatWouldTakeItEachReasonAgainstItCounts) {
  const auto refused = [](const auto& change) {
    MulticastWorld w;
    w.path = Path::kHosts;
    w.offered = true;
    change(&w);
    const Failure failure = w.Refused({"h0", "h1", "h2"});
    EXPECT_EQ(w.Phase(), "running") << "that ends nothing";
    EXPECT_THAT(w.world.notes, ::testing::Not(::testing::Contains(HasSubstr("no multicast"))))
        << "nobody asked";
    return failure.message;
  };
  EXPECT_EQ(refused([](auto* w) { w->deaf = 2; }), "the NIC of rank 2 on h2 receives no multicast");
  EXPECT_EQ(refused([](auto* w) { w->silent = 1; }), "the NIC of rank 1 on h1 receives no multicast")
      << "one that receives none makes no queue pair for it";
  MulticastWorld shared;
  shared.path = Path::kHosts;
  shared.offered = true;
  shared.reach = DatagramReach::kAll;
  EXPECT_EQ(shared.Refused({"h0", "h1", "h1"}).message,
            "ranks 1 and 2 are both on h1, and get each other's datagrams by another way than its link");
  const auto change_report = [](MulticastWorld* w, const std::string& name, const auto& change) {
    EngineReport report = w->Report(w->Id(name));
    report.version = "0.0.9";
    change(&report);
    EPIC_CHECK(w->switches.Register(w->now, name, "agent", report).ok());
    w->switches.OnForwardingSet(w->Id(name), true);
  };
  EXPECT_EQ(refused([&](auto* w) {
              change_report(w, "root", [](EngineReport* report) { report->group_ports = false; });
            }),
            "root (version 0.0.9) does not know of the ports of groups, and floods what is sent to one");
  EXPECT_EQ(refused([&](auto* w) {
              change_report(w, "leaf2", [](EngineReport* report) {
                report->ports[0].neighbours = {{.kind = NeighbourKind::kBridge, .name = "office"}};
              });
            }),
            "a bridge that is none of ours (office) is at leaf2:swp1");
  MulticastWorld near;
  near.path = Path::kHosts;
  near.offered = true;
  change_report(&near, "root", [](EngineReport* report) { report->group_ports = false; });
  near.JoinOn({"h0", "h1"});
  EXPECT_TRUE(near.Told().multicast) << "it is not between these";
  MulticastWorld asks;
  asks.path = Path::kHosts;
  change_report(&asks, "root", [](EngineReport* report) { report->group_ports = false; });
  asks.JoinOn({"h0", "h2"});
  EXPECT_TRUE(asks.Told().multicast) << "who asks has it flooded";
}

TEST(GroupMulticast, WhoAsksGetsNoneIfAnotherOneWouldOnlyTakeIt) {
  MulticastWorld w;
  w.path = Path::kHosts;
  w.offered = true;
  w.asker = 0;
  const Failure failure = w.Refused({"h0", "h1"});
  EXPECT_EQ(failure.code, ErrorCode::kUnsupported);
  EXPECT_EQ(failure.message, "rank 1 on h1 does not ask for it, or its library is an earlier one");
}

TEST(GroupMulticast, ItDoesNotPassARouter) {
  MulticastWorld w(testing::RoutedTree32());
  const Failure refused = w.Refused({"h0", "h1", "h2"});
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.message, HasSubstr("h0 does not reach h2: a router is between root and leaf2"));
  MulticastWorld near(testing::RoutedTree32());
  near.JoinOn({"h2", "h3"});
  EXPECT_TRUE(near.Told().multicast);
}

// Hosts reach each other by one link; what is flooded, and so what is sent to a group, takes two others.
testing::TopologyBuilder Triangle(const std::string& flooded = "") {
  testing::TopologyBuilder builder;
  builder.Switch("x").Switch("y").Switch("z").Host("h0").Host("h1").Link("y", "h0").Link("z", "h1");
  builder.Link("x", "y").Link("x", "z", flooded).Link("y", "z");
  return builder;
}

TEST(GroupMulticast, ThePathMtuIsThatOfTheTreeAsWell) {
  for (const bool is_offered : {false, true}) {
    MulticastWorld w(Triangle());
    w.path = Path::kHosts;
    w.offered = is_offered;
    EngineReport report = w.Report(w.Id("x"));
    report.ports[1].mtu = 1500;
    EPIC_CHECK(w.switches.Register(w.now, "x", "agent", report).ok());
    w.switches.OnForwardingSet(w.Id("x"), true);
    const Failure refused = w.Refused({"h0", "h1"});
    EXPECT_EQ(refused.code, ErrorCode::kMtu);
    EXPECT_EQ(refused.switch_name, "x");
    EXPECT_EQ(refused.message, "path_mtu: 4096 is more than the link at x:swp2 (MTU 1500) carries (1024)");
    EXPECT_EQ(w.Phase(), "running");
  }
}

TEST(GroupMulticast, TheTreeByWhichItGoesCountsAsWell) {
  MulticastWorld w(Triangle(", port_security: true"));
  w.path = Path::kHosts;
  EXPECT_EQ(w.Refused({"h0", "h1"}).message,
            "what h0 sends by it does not reach h1: port security between x and z passes their own addresses "
            "only");
  EXPECT_EQ(w.Phase(), "running");
}

TEST(GroupMulticast, WithoutConnectionsBetweenHostsThereIsNone) {
  MulticastWorld w;
  w.path = Path::kNetwork;
  EXPECT_EQ(w.Refused({"h0", "h1"}).message,
            "its hosts make no connections, by which what is lost is fetched: path network was asked for by "
            "rank 0");
}

TEST(GroupMulticast, TheOperatorMayGiveOutNone) {
  MulticastWorld w(testing::Tree32(), {.multicast = std::nullopt});
  const Failure refused = w.Refused({"h0", "h1"});
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.message, "this manager gives out no addresses for it (serve --multicast none)");
}

TEST(GroupMulticast, ARankThatSaysWhatCannotBeIsRefused) {
  MulticastWorld w;
  JoinRequest join = w.Request("h0", 0, 2);
  join.datagram_qpn = 0x1000000;
  EXPECT_EQ(testing::Refusal(&w, join).message, "datagram_qpn: 0x1000000 is not a 24-bit QPN (rank 0)");
  join.datagram_qpn = 0x31;
  w.groups()->OnJoin(w.now, 100, join);
  JoinRequest second = w.Request("h0", 1, 2);
  second.datagram_qpn = 0x31;
  const Failure refused = testing::Refusal(&w, second);
  EXPECT_EQ(refused.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.message, "datagram_qpn: 0x31 at 10.10.0.1 is that of rank 0 already");
}

TEST(GroupMulticast, SuperFramesWhereAllOfItsLinksAndMembersTakeThem) {
  const auto told = [](const std::vector<std::string>& hosts, const std::string& plain_port,
                       bool members = true) {
    MulticastWorld w;
    w.path = Path::kHosts;
    w.reach = DatagramReach::kAll;
    w.super_frames = members;
    for (const NodeId node : w.topology.switches) {
      EngineReport report = w.Report(node);
      for (PortState& port : report.ports)
        port.super_frames = w.topology.nodes[node].name + ":" + port.name != plain_port;
      EPIC_CHECK(w.switches.Register(w.now, report.name, "agent", report).ok());
      w.switches.OnForwardingSet(node, true);
    }
    w.JoinOn(hosts);
    return w.Told().multicast->super_frames;
  };
  EXPECT_TRUE(told({"h0", "h1", "h2"}, ""));
  EXPECT_FALSE(told({"h0", "h1", "h2"}, "", /*members=*/false));
  EXPECT_FALSE(told({"h0", "h1", "h2"}, "root:swp2"));
  EXPECT_FALSE(told({"h0", "h1", "h2"}, "leaf2:swp1")) << "to h2";
  EXPECT_TRUE(told({"h0", "h1"}, "root:swp2")) << "not between these";
  EXPECT_FALSE(told({"h0", "h0", "h2"}, "")) << "two on one host";
}

// Of 16 addresses the 17th group gets none, until one has rested.
TEST(GroupMulticast, AnAddressRestsBeforeItIsAnothers) {
  MulticastWorld w(testing::Tree32(), {.multicast = MulticastRange{Ipv4{0xefc00000}, 28}});
  w.path = Path::kHosts;
  for (uint32_t i = 0; i < 16; ++i) w.JoinOn({"h0", "h1"}, "g" + std::to_string(i), 1000 + 10 * i);
  EXPECT_EQ(w.groups()->Multicasts().size(), 16u);
  w.JoinOn({"h0", "h1"}, "late", 100);
  EXPECT_EQ(w.Told().no_multicast.code, ErrorCode::kNoResource);
  EXPECT_EQ(w.Told().no_multicast.message,
            "no address is left of 239.192.0.0/28: each is that of a group, or was until 10 s ago");
  EXPECT_EQ(w.Phase("late"), "running") << "it goes on without";

  const Ipv4 address = w.Told(1030).multicast->address;
  w.Leave(2, 1030);
  w.JoinOn({"h0", "h1"}, "later", 200);
  EXPECT_FALSE(w.Told(200).multicast) << "it rests";
  w.now += MulticastPool::kQuarantine;
  w.JoinOn({"h0", "h1"}, "last", 300);
  ASSERT_TRUE(w.Told(300).multicast);
  EXPECT_EQ(w.Told(300).multicast->address, address);
}

// What follows Multicasts sees each change by their count.
TEST(GroupMulticast, PortsEndWithTheGroupAndTheAddressWithItsContexts) {
  MulticastWorld w;
  w.JoinOn({"h0", "h1"});
  const uint64_t running = w.groups()->multicast_changes();
  EXPECT_EQ(running, 1u);
  w.groups()->OnLeave(w.now, 100);
  EXPECT_EQ(w.groups()->Multicasts().size(), 1u) << "the other may still send";
  w.groups()->OnLeave(w.now, 101);
  EXPECT_THAT(w.groups()->Multicasts(), IsEmpty());
  EXPECT_GT(w.groups()->multicast_changes(), running);
  EXPECT_EQ(w.Phase(), "leaving") << "its contexts are there";
  EXPECT_TRUE(w.groups()->Find("g")->multicast);
  w.AnswerRemovals();
  EXPECT_EQ(w.Phase(), "none");

  w.JoinOn({"h0", "h1"});
  const uint64_t again = w.groups()->multicast_changes();
  w.groups()->OnAbort(w.now, 100, "enough");
  EXPECT_THAT(w.groups()->Multicasts(), IsEmpty());
  EXPECT_GT(w.groups()->multicast_changes(), again);
}

}  // namespace
}  // namespace epic::manager
