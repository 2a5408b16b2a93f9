#include "incmanager/policies/group_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/seeds_testing.h"
#include "incmanager/policies/place_testing.h"

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Random;
using testing::Roll;

constexpr Mac kFlooded = {0x01, 0x00, 0x5e, 0x00, 0x00, 0xfb};

Mac GroupMac(uint32_t number) { return MulticastMac(Ipv4{0xefc00000u + number}); }

bool HasPort(const std::vector<std::string>& ports, const std::string& port) {
  return std::ranges::find(ports, port) != ports.end();
}

// How often each node gets a frame that this host sends to a group, as engines forward it.
std::map<NodeId, int> Received(const Topology& topology, const std::vector<Forwarding>& tables, NodeId host,
                               const Mac& to) {
  std::map<NodeId, int> received;
  if (topology.Attached(host).state == LinkState::kGone) return received;
  std::deque<LinkEnd> arrived{topology.Across(topology.AttachedEnd(host))};
  for (; !arrived.empty(); arrived.pop_front()) {
    const LinkEnd in = arrived.front();
    if (++received[in.node] > 10 || !topology.IsSwitch(in.node)) continue;
    const Forwarding& table = tables[in.node];
    const auto group = table.group_ports.find(to);
    const std::vector<std::string>& ports =
        group == table.group_ports.end() ? table.flood_ports : group->second;
    const std::string& by = topology.nodes[in.node].hops[in.hop].port;
    if (!HasPort(table.flood_ports, by) && !HasPort(ports, by)) continue;
    for (uint32_t hop = 0; hop < topology.nodes[in.node].hops.size(); ++hop) {
      const LinkEnd out{in.node, hop};
      const Hop& link = topology.nodes[in.node].hops[hop];
      if (link.port != by && link.state != LinkState::kGone && HasPort(ports, link.port))
        arrived.push_back(topology.Across(out));
    }
  }
  return received;
}

// What a group's frames do from a host of its or another.
void CheckGroup(const Topology& topology, const std::vector<Forwarding>& tables,
                const MulticastMembers& group, std::set<NodeId>* reached) {
  for (NodeId from = 0; from < topology.nodes.size(); ++from) {
    if (topology.IsSwitch(from)) continue;
    const bool own = std::ranges::count(group.hosts, from) != 0;
    std::map<NodeId, int> flooded = Received(topology, tables, from, kFlooded);
    std::map<NodeId, int> received = Received(topology, tables, from, group.mac);
    for (NodeId at = 0; at < topology.nodes.size(); ++at) {
      SCOPED_TRACE(topology.nodes[from].name + " to " + topology.nodes[at].name);
      if (topology.IsSwitch(at)) {
        EXPECT_LE(received[at], flooded[at]) << "beyond the flooding tree, or twice";
        if (own && received[at] != 0) reached->insert(at);
      } else if (std::ranges::count(group.hosts, at) == 0) {
        // One from elsewhere is flooded up to the group's switches.
        if (own) {
          EXPECT_EQ(received[at], 0) << "no member";
        }
      } else {
        EXPECT_EQ(received[at], flooded[at]) << "a member";
      }
    }
  }
}

void CutLinks(Random* random, Topology* topology) {
  for (const NodeId node : topology->switches) {
    for (uint32_t i = 0; i < topology->nodes[node].hops.size(); ++i) {
      if (Roll(random, 8) != 0) continue;
      const LinkEnd there = topology->Across({node, i});
      const LinkState state = Roll(random, 2) == 0 ? LinkState::kDown : LinkState::kGone;
      topology->nodes[node].hops[i].state = topology->nodes[there.node].hops[there.hop].state = state;
    }
  }
}

void RunTrial(uint64_t seed) {
  SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
  Random random(static_cast<uint32_t>(seed));
  Topology topology = testing::AnyTiers(&random);
  if (Roll(&random, 2) == 0) CutLinks(&random, &topology);
  std::vector<Forwarding> tables = ComputeForwarding(topology);
  const std::vector<Forwarding> before = tables;
  const auto switches = static_cast<uint32_t>(topology.switches.size());
  std::vector<MulticastMembers> groups;
  for (uint32_t i = 0; i < 1 + Roll(&random, 3); ++i) {
    MulticastMembers& group = groups.emplace_back(MulticastMembers{GroupMac(i), {}});
    for (uint32_t rank = 0; rank < 1 + Roll(&random, 6); ++rank)
      group.hosts.push_back(switches +
                            Roll(&random, static_cast<uint32_t>(topology.nodes.size()) - switches));
  }
  FloodTree(topology, tables).SetGroupPorts(groups, &tables);
  for (const MulticastMembers& group : groups) {
    std::set<NodeId> reached;
    CheckGroup(topology, tables, group, &reached);
    for (const NodeId node : topology.switches) {
      EXPECT_EQ(tables[node].group_ports.contains(group.mac), reached.contains(node))
          << topology.nodes[node].name << " is between members, or it has no entry";
      const auto ports = tables[node].group_ports.find(group.mac);
      if (ports == tables[node].group_ports.end() || ports->second.size() != 1) continue;
      EXPECT_FALSE(topology.IsSwitch(topology.Across(*topology.EndAt(node, ports->second[0])).node))
          << topology.nodes[node].name << " leads to one member at most";
    }
  }
  FloodTree(topology, tables).SetGroupPorts({}, &tables);
  EXPECT_EQ(tables, before) << "groups go without a trace";
}

TEST(GroupPorts, EveryMemberHearsEveryMemberOnceAndNobodyElseDoes) {
  const auto [first, count] = SeedsToRun(600);
  for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) RunTrial(seed);
}

struct Tree32 {
  explicit Tree32(const testing::TopologyBuilder& builder)
      : topology(builder.Build()), tables(ComputeForwarding(topology)) {}
  std::vector<NodeId> Ids(const std::vector<std::string>& names) const {
    std::vector<NodeId> ids;
    for (const std::string& name : names) ids.push_back(*topology.FindNode(name));
    return ids;
  }
  std::vector<std::string> PortsAt(const std::string& node, const std::vector<std::string>& hosts) {
    FloodTree(topology, tables).SetGroupPorts({{GroupMac(1), Ids(hosts)}}, &tables);
    return tables[*topology.FindNode(node)].group_ports[GroupMac(1)];
  }
  Topology topology;
  std::vector<Forwarding> tables;
};

TEST(GroupPorts, OnlyWhatIsBetweenMembersHasPorts) {
  Tree32 w(testing::Tree32());  // leaf1: h0, h1, root; leaf2: h2, h3, root
  EXPECT_THAT(w.PortsAt("leaf1", {"h0", "h1"}), ElementsAre("swp1", "swp2"));
  EXPECT_THAT(w.PortsAt("root", {"h0", "h1"}), IsEmpty());
  EXPECT_THAT(w.PortsAt("leaf1", {"h0", "h2", "h0"}), ElementsAre("swp1", "swp3"));
  EXPECT_THAT(w.PortsAt("root", {"h0", "h2", "h0"}), ElementsAre("swp1", "swp2"));
  EXPECT_THAT(w.PortsAt("leaf2", {"h0", "h2", "h0"}), ElementsAre("swp1", "swp3"));
  EXPECT_THAT(w.PortsAt("leaf2", {"h3"}), ElementsAre("swp2")) << "all ranks on one host";
  EXPECT_EQ(FloodTree(w.topology, w.tables).LinksAmong(w.Ids({"h0", "h2", "h3"})).size(), 5u);
}

TEST(GroupPorts, AnObstacleNamesTheHostsAndWhatIsBetweenThem) {
  const auto obstacle = [](const testing::TopologyBuilder& builder, const std::vector<std::string>& hosts) {
    const Tree32 w(builder);
    const auto found = FloodTree(w.topology, w.tables).FindObstacle(w.Ids(hosts));
    if (!found) return std::string();
    return fmt::format("{} {}: {}", w.topology.nodes[found->from].name, w.topology.nodes[found->to].name,
                       found->why);
  };
  EXPECT_EQ(obstacle(testing::Tree32(), {"h0", "h1", "h2", "h3"}), "");
  EXPECT_EQ(obstacle(testing::RoutedTree32(), {"h0", "h1"}), "");
  EXPECT_EQ(obstacle(testing::RoutedTree32(), {"h2", "h3", "h2"}), "") << "both behind the router";
  const std::string router = "h0 h2: a router is between root and leaf2, which passes nothing for hosts";
  EXPECT_EQ(obstacle(testing::RoutedTree32(), {"h0", "h1", "h2"}), router);
  EXPECT_EQ(obstacle(testing::RoutedTree32(), {"h2", "h0"}),
            "h2 h0: a router is between leaf2 and root, which passes nothing for hosts");
  const auto secure = testing::Tree32ButOneLink().Link("root", "leaf2", ", port_security: true");
  EXPECT_EQ(obstacle(secure, {"h0", "h3"}),
            "h0 h3: port security between root and leaf2 passes their own addresses only");
  EXPECT_EQ(obstacle(testing::Tree32ButOneLink(), {"h0", "h3"}), "h0 h3: no links join them");
}

TEST(GroupPorts, AMacHas23BitsOfTheAddress) {
  EXPECT_EQ(ToString(MulticastMac(*ParseIpv4("239.192.1.2"))), "01:00:5e:40:01:02");
  EXPECT_EQ(MulticastMac(*ParseIpv4("239.64.1.2")), MulticastMac(*ParseIpv4("224.192.1.2")));
  EXPECT_EQ(ToString(MulticastMac(*ParseIpv4("239.255.255.255"))), "01:00:5e:7f:ff:ff");
}

}  // namespace
}  // namespace epic::manager
