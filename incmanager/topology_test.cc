#include "incmanager/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

constexpr const char* kSmall = R"(name: small
path_mtu: 4096
link: {rate_gbps: 25, delay_us: 5}
switches:
  - {name: s1, address: 10.10.255.1, mac: "02:e0:00:00:00:01", ports: [swp1, swp2]}
hosts:
  - {name: h0, address: 10.10.0.1, mac: "52:54:00:00:00:01"}
  - {name: h1, address: 10.10.0.2, mac: "52:54:00:00:00:02"}
links:
  - {a: "s1:swp1", b: h0}
  - {a: h1, b: "s1:swp2", delay_us: 7}
)";

TEST(Topology, ReadsNodesAndLinks) {
  const StatusOr<Topology> topology = ParseTopology(kSmall, "small.yaml");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->name, "small");
  EXPECT_EQ(topology->path_mtu, 4096u);
  EXPECT_EQ(topology->switches.size(), 1u);
  ASSERT_EQ(topology->nodes.size(), 3u);
  EXPECT_EQ(topology->text, kSmall);
  const Node& s1 = topology->nodes[0];
  EXPECT_EQ(Raw(s1.address), 0x0a0aff01u);
  EXPECT_EQ(ToString(s1.mac), "02:e0:00:00:00:01");
  ASSERT_EQ(s1.hops.size(), 2u);
  EXPECT_EQ(s1.hops[1].peer, 2u);
  EXPECT_EQ(s1.hops[1].port, "swp2");
  EXPECT_EQ(s1.hops[1].rate_gbps, 25);
  EXPECT_EQ(s1.hops[0].delay_us, 5);
  EXPECT_EQ(s1.hops[1].delay_us, 7);
  EXPECT_EQ(topology->FindHostByAddress(*ParseIpv4("10.10.0.2")), 2u);
  EXPECT_FALSE(topology->FindHostByAddress(*ParseIpv4("10.10.255.1")).has_value());
  EXPECT_FALSE(topology->FindSwitch("h0").has_value());
}

TEST(Topology, WithDiscoveryAFileNeedNotStateAll) {
  const std::string head = "name: t\npath_mtu: 4096\n";
  const auto topology = ParseTopology(head + "discovery: true\nforbid: [leaf9, \"leaf1:swp2\"]\n", "t.yaml");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_TRUE(topology->nodes.empty() && topology->discovery);
  ASSERT_EQ(topology->forbidden.size(), 2u);
  EXPECT_EQ(topology->forbidden[1].node, "leaf1");
  EXPECT_EQ(topology->forbidden[1].port, "swp2");
  EXPECT_EQ(topology->forbidden[1].line, 4u);
  const auto error = [&](const std::string& rest) {
    return std::string(ParseTopology(rest, "t.yaml").status().message());
  };
  EXPECT_EQ(error(head), "t.yaml:1: switches: missing");
  EXPECT_EQ(error(std::string(kSmall) + "forbid: [s2]\n"),
            "t.yaml:12: forbid: without discovery nothing is there that the file does not state");
  EXPECT_EQ(error(std::string(kSmall) + "discovery: true\nforbid: [s1]\n"),
            "t.yaml:13: forbid: s1 is stated above");
  EXPECT_EQ(error(std::string(kSmall) + "discovery: true\nforbid: [\"s1:swp1\"]\n"),
            "t.yaml:13: forbid: s1:swp1 is in a link above");
}

TEST(Topology, AHostIsFoundByItsNameAndByItsAddress) {
  Topology topology = *ParseTopology(kSmall, "small.yaml");
  const std::optional<NodeId> host = topology.FindNode("h0");
  EXPECT_EQ(topology.FindHost("h0"), host);
  EXPECT_EQ(topology.FindHost("10.10.0.1"), host);
  for (const char* none : {"s1", "10.10.255.1", "10.10.0.9", "0.0.0.0", ""})
    EXPECT_EQ(topology.FindHost(none), std::nullopt) << none;
  topology.nodes[*host].address = Ipv4{};
  EXPECT_EQ(topology.FindHostByAddress(Ipv4{}), std::nullopt) << "it was a host";
}

TEST(Topology, HostsAreGuardedUnlessTheFileSaysOtherwise) {
  std::string text = kSmall;
  const std::string h1 = "mac: \"52:54:00:00:00:02\"";
  text.replace(text.find(h1), h1.size(), h1 + ", source_guard: false");
  const StatusOr<Topology> topology = ParseTopology(text, "t");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_FALSE(topology->nodes[0].source_guard) << "a switch";
  EXPECT_TRUE(topology->nodes[1].source_guard);
  EXPECT_FALSE(topology->nodes[2].source_guard);
}

TEST(Topology, AnEndSendsToTheRouterInItsLink) {
  const Topology topology = testing::RoutedTree32().Build();
  const NodeId root = *topology.FindNode("root");
  const NodeId leaf1 = *topology.FindNode("leaf1");
  const NodeId leaf2 = *topology.FindNode("leaf2");
  EXPECT_EQ(ToString(topology.NextHopMac(root, "swp2", leaf2)), "02:f0:00:00:00:0a");
  EXPECT_EQ(ToString(topology.NextHopMac(leaf2, "swp3", root)), "02:f0:00:00:00:0b");
  EXPECT_EQ(topology.NextHopMac(root, "swp1", leaf1), topology.nodes[leaf1].mac);
  EXPECT_EQ(topology.NextHopMac(leaf1, "swp3", root), topology.nodes[root].mac);
}

TEST(Topology, PortSecurityIsOfALink) {
  const Topology topology =
      testing::Tree32ButOneLink().Link("root", "leaf2", ", port_security: true").Build();
  for (const char* name : {"root", "leaf1", "leaf2"}) {
    for (const Hop& hop : topology.nodes[*topology.FindNode(name)].hops) {
      const std::string peer = topology.nodes[hop.peer].name;
      EXPECT_EQ(hop.port_security, (name + peer == "rootleaf2" || name + peer == "leaf2root"))
          << name << peer;
    }
  }
}

struct BadCase {
  const char* from;
  const char* to;
  const char* message;  // the whole of it
};

TEST(Topology, NamesLineAndKeyOfWhatIsBad) {
  const BadCase cases[] = {
      {"name: small", "title: small", "t:1: topology: unknown key title"},
      {"path_mtu: 4096", "path_mtu: 4000", "t:2: path_mtu: must be 256, 512, 1024, 2048 or 4096"},
      {"path_mtu: 4096", "", "t:1: path_mtu: missing"},
      {"rate_gbps: 25", "rate_gbps: fast", "t:3: rate_gbps: must be a number that is not negative"},
      {"rate_gbps: 25", "speed: 25", "t:3: link: unknown key speed"},
      {"address: 10.10.0.2", "address: 10.10.0.1", "t:8: address: 10.10.0.1 is already that of h0"},
      {"name: h1", "name: h0", "t:8: name: h0 is already that of h0"},
      {"52:54:00:00:00:02", "02:E0:00:00:00:01", "t:8: mac: 02:e0:00:00:00:01 is already that of s1"},
      {"52:54:00:00:00:02", "53:54:00:00:00:02", "t:8: mac: 53:54:00:00:00:02 is a multicast address"},
      {"52:54:00:00:00:02", "52:54:00:00:02", "t:8: mac: 52:54:00:00:02 is not a MAC address"},
      {"address: 10.10.0.2", "source_guard: perhaps, address: 10.10.0.2",
       "t:8: source_guard: must be true or false"},
      {"address: 10.10.255.1", "source_guard: true, address: 10.10.255.1",
       "t:5: switches: unknown key source_guard"},
      {"10.10.0.2", "10.10.0.256", "t:8: address: 10.10.0.256 is not an IPv4 address"},
      {"10.10.0.2", "10.10.0", "t:8: address: 10.10.0 is not an IPv4 address"},
      {"\"s1:swp2\"", "\"s2:swp2\"", "t:11: links: s2 is neither a switch nor a host"},
      {"\"s1:swp2\"", "\"s1:swp1\"", "t:11: links: port s1:swp1 is used twice"},
      {"\"s1:swp2\"", "\"s1:swp9\"", "t:11: links: s1 does not list port swp9"},
      {"\"s1:swp2\"", "\"s1:swp2:\"", "t:11: links: s1 does not list port swp2:"},
      {"\"s1:swp2\"", "\"s1:\"", "t:11: links: s1 is a switch: name its port, as in s1:swp1"},
      {"a: h1", "a: \"h1:eth0\"", "t:11: links: host h1 has one port, which is not named"},
      {"\"s1:swp2\"", "s1", "t:11: links: s1 is a switch: name its port, as in s1:swp1"},
      {"\"s1:swp2\"", "h0", "t:11: links: h1 and h0 are both hosts"},
      {"a: h1", "a: h0", "t:10: links: host h0 has 2 links, not 1"},
      {"swp1, swp2", "swp1, swp1", "t:5: ports: s1 lists swp1 twice"},
      {"delay_us: 7", "b_next_hop: x", "t:11: links: unknown key b_next_hop"},
      {"delay_us: 7", "port_security: perhaps", "t:11: port_security: must be true or false"},
      {"delay_us: 7", "b_next_hop_mac: x", "t:11: b_next_hop_mac: x is not a MAC address"},
      {"delay_us: 7", "b_next_hop_mac: \"03:00:00:00:00:01\"",
       "t:11: b_next_hop_mac: 03:00:00:00:00:01 is a multicast address"},
      {"delay_us: 7", "b_next_hop_mac: \"52:54:00:00:00:01\"",
       "t:11: b_next_hop_mac: 52:54:00:00:00:01 is the MAC of h0, not of a router between s1 and h1"},
      {"delay_us: 7", "b_next_hop_mac: \"02:e0:00:00:00:01\"",
       "t:11: b_next_hop_mac: 02:e0:00:00:00:01 is the MAC of s1, not of a router between s1 and h1"},
      {"delay_us: 7", "a_next_hop_mac: \"02:f0:00:00:00:01\"",
       "t:11: a_next_hop_mac: host h1 asks its own routes and ARP for the next hop"},
      {"path_mtu: 4096", "path_mtu: [", "t:4: end of sequence flow not found"},
  };
  for (const BadCase& bad : cases) {
    std::string text = kSmall;
    text.replace(text.find(bad.from), std::string(bad.from).size(), bad.to);
    const StatusOr<Topology> topology = ParseTopology(text, "t");
    EXPECT_EQ(topology.status().code(), StatusCode::kInvalidArgument) << bad.message;
    EXPECT_EQ(std::string(topology.status().message()), bad.message);
  }
}

TEST(Topology, AnythingButAMappingIsRefused) {
  for (const char* text : {"", "[]", "42", "\t"}) {
    EXPECT_EQ(ParseTopology(text, "t").status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(LoadTopology("/nonexistent.yaml").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace epic::manager
