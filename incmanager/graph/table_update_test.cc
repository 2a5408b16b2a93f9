#include "incmanager/graph/table_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/seeds_testing.h"
#include "incmanager/policies/flooding.h"
#include "incmanager/policies/group_ports.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

// Engines that obey an order at some moment between when it is sent and when it is answered.
class Network {
 public:
  explicit Network(Topology t) : topology(std::move(t)), update(&topology), engines(topology.nodes.size()) {}

  void Want() {
    tables = ComputeForwarding(topology, {.tables = tables.empty() ? nullptr : &tables, .ways = {}});
    FloodTree(topology, tables).SetGroupPorts(groups, &tables);
    update.Want(tables);
  }
  void Ready(NodeId node, bool empty) {
    if (empty) engines[node].table = {};
    engines[node].runs = true;
    update.OnReady(node, empty);
  }
  void Take(Nanos at) {
    now = at;
    for (TableUpdate::Order& order : update.Due(now)) {
      ++sent;
      EXPECT_FALSE(engines[order.node].order) << "one at a time";
      engines[order.node].order = std::move(order.table);
    }
  }
  void Obey(NodeId node) {
    if (engines[node].order) engines[node].table = *engines[node].order;
  }
  void Answer(NodeId node, bool ok) {
    if (!engines[node].order) return;
    engines[node].order.reset();
    update.OnAnswer(node, ok);
  }
  // Everybody obeys and answers until nobody is asked any more.
  void Settle() {
    for (int i = 0; i < 1000 && !update.settled(); ++i) {
      Take(now + TableUpdate::kDrain);
      for (const NodeId node : topology.switches) {
        Obey(node);
        Answer(node, true);
      }
    }
  }

  // Of a frame between any two nodes, and of one that any host floods or sends to a group: it ends, and
  // nobody sees it twice.
  void CheckThatAllEnds() const {
    for (NodeId target = 0; target < topology.nodes.size(); ++target) {
      for (const NodeId from : topology.switches) CheckWay(from, target);
    }
    for (NodeId host = 0; host < topology.nodes.size(); ++host) {
      if (topology.IsSwitch(host)) continue;
      for (uint8_t group = 0; group <= kGroups; ++group) CheckFlood(host, {1, 0, 0x5e, 0, 0, group});
    }
  }
  void CheckWay(NodeId from, NodeId target) const {
    NodeId at = from;
    for (size_t steps = 0; at != target && topology.IsSwitch(at) && engines[at].runs; ++steps) {
      ASSERT_LE(steps, topology.nodes.size())
          << "a loop from " << topology.nodes[from].name << " to " << topology.nodes[target].name;
      const uint32_t hop = engines[at].table.HopTo(target);
      if (hop == Forwarding::kNoHop) return;
      at = topology.nodes[at].hops[hop].peer;
    }
  }
  void CheckFlood(NodeId host, const Mac& to) const {
    std::vector<int> seen(topology.nodes.size());
    std::deque<LinkEnd> arrived{topology.Across(topology.AttachedEnd(host))};
    for (; !arrived.empty(); arrived.pop_front()) {
      const LinkEnd in = arrived.front();
      // A switch drops what comes in by a port that does not flood, nor is the group's.
      if (topology.IsSwitch(in.node) && (!engines[in.node].runs || (!Floods(in) && !Floods(in, to))))
        continue;
      ASSERT_EQ(++seen[in.node], 1) << topology.nodes[in.node].name << " sees a frame of "
                                    << topology.nodes[host].name << " twice";
      if (!topology.IsSwitch(in.node)) continue;
      for (uint32_t hop = 0; hop < topology.nodes[in.node].hops.size(); ++hop) {
        // A link that is down may be up again by now.
        if (hop != in.hop && Floods({in.node, hop}, to)) arrived.push_back(topology.Across({in.node, hop}));
      }
    }
  }
  // to: a group, if it has ports there.
  bool Floods(LinkEnd end, const Mac& to = {}) const {
    const Forwarding& table = engines[end.node].table;
    const auto group = table.group_ports.find(to);
    const std::vector<std::string>& ports =
        group == table.group_ports.end() ? table.flood_ports : group->second;
    return std::ranges::find(ports, topology.nodes[end.node].hops[end.hop].port) != ports.end();
  }

  struct Engine {
    bool runs = false;
    Forwarding table;
    std::optional<Forwarding> order;
  };

  Topology topology;
  TableUpdate update;
  std::vector<Engine> engines;
  std::vector<Forwarding> tables;
  static constexpr uint8_t kGroups = 2;  // at most; their MACs end with their number
  std::vector<MulticastMembers> groups;
  Nanos now = kSecond;
  int sent = 0;
};

void SetState(Topology* topology, LinkEnd end, LinkState state) {
  const LinkEnd there = topology->Across(end);
  topology->nodes[end.node].hops[end.hop].state = state;
  topology->nodes[there.node].hops[there.hop].state = state;
}

Network Started(const testing::TopologyBuilder& builder) {
  Network network(builder.Build());
  network.Want();
  for (const NodeId node : network.topology.switches) network.Ready(node, true);
  network.Settle();
  return network;
}

TEST(TableUpdate, OneThatStartsGetsWhatIsWanted) {
  const Network network = Started(testing::FatTree4());
  EXPECT_TRUE(network.update.settled());
  EXPECT_EQ(network.sent, 20);
  for (const NodeId node : network.topology.switches)
    EXPECT_EQ(network.engines[node].table, network.tables[node]) << network.topology.nodes[node].name;
}

TEST(TableUpdate, OnlyTablesThatChangeAreSent) {
  Network network = Started(testing::FatTree4());
  const NodeId edge = *network.topology.FindNode("edge1");
  SetState(&network.topology, {edge, 2}, LinkState::kDown);  // to agg1
  const std::vector<Forwarding> before = network.tables;
  network.Want();
  int changed = 0;
  for (const NodeId node : network.topology.switches) changed += before[node] == network.tables[node] ? 0 : 1;
  EXPECT_GT(changed, 1);
  EXPECT_LT(changed, 20);
  network.sent = 0;
  network.Settle();
  EXPECT_LE(network.sent, 2 * changed);
  EXPECT_GT(network.sent, changed) << "nothing was withdrawn";
  for (const NodeId node : network.topology.switches)
    EXPECT_EQ(network.engines[node].table, network.tables[node]);
}

// Ways stay as they are; what is sent names other addresses.
TEST(TableUpdate, AnotherMacOrAddressOfANodeIsSentToAll) {
  Network network = Started(testing::TwoSpines());
  const auto sent_anew = [&network] {
    network.sent = 0;
    network.Want();
    network.Settle();
    return network.sent;
  };
  const auto all = static_cast<int>(network.topology.switches.size());
  EXPECT_EQ(sent_anew(), 0);
  network.topology.nodes[*network.topology.FindNode("h0")].mac[5] ^= 0x40;
  EXPECT_EQ(sent_anew(), all);
  EXPECT_EQ(sent_anew(), 0) << "once";
  network.topology.nodes[*network.topology.FindNode("h0")].address = Ipv4{0x0a0a0099};
  EXPECT_EQ(sent_anew(), all);
  // Also to one that is answering what it was sent before.
  network.topology.nodes[*network.topology.FindNode("spine1")].mac[5] ^= 0x40;
  network.Want();
  network.Take(network.now);
  network.topology.nodes[*network.topology.FindNode("spine1")].mac[5] ^= 0x20;
  EXPECT_EQ(sent_anew(), all);
}

TEST(TableUpdate, WhatIsNewWaitsForAllThatIsWithdrawn) {
  Network network = Started(testing::TwoSpines());
  const NodeId leaf1 = *network.topology.FindNode("leaf1");
  const NodeId leaf2 = *network.topology.FindNode("leaf2");
  SetState(&network.topology, {leaf1, 0}, LinkState::kDown);  // to spine1
  network.Want();
  network.Take(network.now);
  std::vector<NodeId> asked;
  for (const NodeId node : network.topology.switches) {
    if (!network.engines[node].order) continue;
    asked.push_back(node);
    for (NodeId target = 0; target < network.tables.size(); ++target) {
      const uint32_t hop = network.engines[node].order->HopTo(target);
      EXPECT_TRUE(hop == Forwarding::kNoHop || hop == network.engines[node].table.HopTo(target));
    }
  }
  ASSERT_GE(asked.size(), 2u);
  for (const NodeId node : asked) {
    if (node == leaf1) continue;
    network.Obey(node);
    network.Answer(node, true);
  }
  network.Take(network.now + TableUpdate::kPatience - 1);
  EXPECT_FALSE(network.engines[leaf2].order) << "leaf1 has not answered";
  network.Obey(leaf1);
  network.Answer(leaf1, true);
  network.Take(network.now);
  EXPECT_FALSE(network.engines[leaf2].order) << "frames that were flooded are under way";
  network.Take(network.now + TableUpdate::kDrain);
  EXPECT_TRUE(network.engines[leaf2].order);
}

TEST(TableUpdate, WhoDoesNotAnswerHoldsUpNobodyForEver) {
  Network network = Started(testing::TwoSpines());
  const NodeId leaf1 = *network.topology.FindNode("leaf1");
  const NodeId leaf2 = *network.topology.FindNode("leaf2");
  SetState(&network.topology, {leaf1, 0}, LinkState::kDown);
  network.Want();
  network.Take(network.now);
  for (const NodeId node : network.topology.switches) {
    if (node == leaf1) continue;
    network.Obey(node);
    network.Answer(node, true);
  }
  network.Take(network.now + TableUpdate::kPatience);
  network.Take(network.now + TableUpdate::kDrain);
  ASSERT_TRUE(network.engines[leaf2].order);
  network.Answer(leaf1, false);
  network.Ready(leaf1, false);
  network.Settle();
  EXPECT_EQ(network.engines[leaf1].table, network.tables[leaf1]);
}

TEST(TableUpdate, AnEngineThatStartsAnewGetsItsTable) {
  Network network = Started(testing::TwoSpines());
  network.sent = 0;
  network.update.OnGone(0);
  network.engines[0].runs = false;
  network.Settle();
  EXPECT_EQ(network.sent, 0);
  network.Ready(0, true);
  network.Settle();
  EXPECT_EQ(network.sent, 1);
  EXPECT_EQ(network.engines[0].table, network.tables[0]);
}

// Switches in a ring with chords, some of them parallel, two hosts at each.
testing::TopologyBuilder RandomNetwork(std::mt19937* random) {
  testing::TopologyBuilder builder;
  const int switches = 3 + static_cast<int>((*random)() % 6);
  const auto name = [](int i) { return fmt::format("s{}", i); };
  for (int i = 0; i < switches; ++i) builder.Switch(name(i));
  for (int i = 0; i < switches; ++i) builder.Host(fmt::format("h{}", i));
  for (int i = 0; i < switches; ++i) builder.Link(name(i), fmt::format("h{}", i));
  for (int i = 0; i < switches; ++i) builder.Link(name(i), name((i + 1) % switches));
  for (int i = 0; i < switches; ++i) {
    const int a = static_cast<int>((*random)() % static_cast<unsigned>(switches));
    const int b = static_cast<int>((*random)() % static_cast<unsigned>(switches));
    if (a != b) builder.Link(name(a), name(b));
  }
  return builder;
}

std::vector<MulticastMembers> RandomGroups(const Topology& topology, std::mt19937* random) {
  std::vector<MulticastMembers> groups;
  const size_t switches = topology.switches.size();
  for (uint8_t group = 0; group < (*random)() % (Network::kGroups + 1); ++group) {
    groups.push_back({{1, 0, 0x5e, 0, 0, group}, {}});
    for (size_t rank = 0; rank < 1 + (*random)() % 4; ++rank)
      groups.back().hosts.push_back(
          static_cast<NodeId>(switches + (*random)() % (topology.nodes.size() - switches)));
  }
  return groups;
}

// A group that comes or goes is what flooding is anyway, at each step: nobody waits for anybody.
TEST(TableUpdate, AGroupsPortsAreSetAtOnceAndWithdrawnWithTheFloodPorts) {
  Network network = Started(testing::TwoSpines());
  const NodeId leaf1 = *network.topology.FindNode("leaf1");
  network.groups = {{{1, 0, 0x5e, 0, 0, 0}, {}}};
  for (const char* host : {"h0", "h2"}) network.groups[0].hosts.push_back(*network.topology.FindNode(host));
  const std::vector<Forwarding> before = network.tables;
  network.Want();
  network.Take(network.now);
  for (const NodeId node : network.topology.switches) {
    EXPECT_EQ(network.engines[node].order.has_value(), !network.tables[node].group_ports.empty());
    if (network.engines[node].order) {
      EXPECT_EQ(*network.engines[node].order, network.tables[node]);
    }
  }
  ASSERT_TRUE(network.engines[leaf1].order);
  network.Settle();

  // The link of the tree between the two leaves goes.
  for (uint32_t hop = 0; hop < 2; ++hop) {
    const std::string& port = network.topology.nodes[leaf1].hops[hop].port;
    if (std::ranges::count(network.tables[leaf1].group_ports.begin()->second, port) != 0)
      SetState(&network.topology, {leaf1, hop}, LinkState::kDown);
  }
  network.Want();
  network.Take(network.now);
  ASSERT_TRUE(network.engines[leaf1].order);
  const Forwarding& withdrawn = *network.engines[leaf1].order;
  EXPECT_EQ(withdrawn.group_ports.begin()->second.size(), 1u) << "that to the host";
  EXPECT_NE(withdrawn.group_ports, network.tables[leaf1].group_ports);
  network.Settle();
  EXPECT_EQ(network.engines[leaf1].table, network.tables[leaf1]);

  network.groups.clear();
  network.Want();
  network.Settle();
  for (const NodeId node : network.topology.switches)
    EXPECT_TRUE(network.engines[node].table.group_ports.empty());
}

// Links go and come, groups do, engines stop and start, agents come and go, orders get lost or are obeyed
// late, in any order: at every moment every frame ends.
void RunTrial(uint32_t seed) {
  SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
  std::mt19937 random(seed);
  Network network = Started(RandomNetwork(&random));
  const Topology& topology = network.topology;
  for (int step = 0; step < 150; ++step) {
    const NodeId node = topology.switches[random() % topology.switches.size()];
    switch (random() % 11) {
      case 10:
        network.groups = RandomGroups(topology, &random);
        network.Want();
        break;
      case 0: {
        const LinkEnd end{node, static_cast<uint32_t>(random() % topology.nodes[node].hops.size())};
        if (!topology.IsSwitch(topology.Across(end).node)) break;
        constexpr LinkState kStates[] = {LinkState::kUp, LinkState::kDown, LinkState::kGone};
        SetState(&network.topology, end, kStates[random() % 3]);
        network.Want();
        break;
      }
      case 1:
        if (random() % 4 != 0) break;
        network.engines[node].runs = false;
        network.update.OnGone(node);
        break;
      case 2:
        if (random() % 4 == 0) network.update.OnUnreachable(node);
        break;
      case 3:
        if (!network.engines[node].runs) {
          network.Ready(node, true);
        } else {
          network.Ready(node, false);
        }
        break;
      case 4:
        network.Take(network.now + static_cast<Nanos>(random() % (2 * TableUpdate::kPatience)));
        break;
      case 5:
        if (random() % 2 == 0) network.Obey(node);
        network.Answer(node, false);
        break;
      case 6:
        network.Obey(node);
        break;
      default:
        network.Obey(node);
        network.Answer(node, true);
        break;
    }
    network.Take(network.now + static_cast<Nanos>(random() % TableUpdate::kDrain));
    network.CheckThatAllEnds();
    if (::testing::Test::HasFatalFailure()) FAIL() << "at step " << step;
  }
  for (const NodeId node : topology.switches) {
    network.Answer(node, false);
    network.Ready(node, !network.engines[node].runs);
  }
  network.Settle();
  EXPECT_TRUE(network.update.settled());
  for (const NodeId node : topology.switches)
    EXPECT_EQ(network.engines[node].table, network.tables[node]) << topology.nodes[node].name;
}

TEST(TableUpdate, NothingLoopsWhateverHappens) {
  const auto [first, count] = SeedsToRun(300);
  for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed)
    RunTrial(static_cast<uint32_t>(seed));
}

}  // namespace
}  // namespace epic::manager
