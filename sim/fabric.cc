#include "sim/fabric.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"

namespace epic::sim {
namespace {

roce::MacAddress MacOf(int node) {
  return {0x02, 0, 0, 0, static_cast<uint8_t>(node >> 8), static_cast<uint8_t>(node)};
}

// The MAC address of the node that has an address, what ARP would have answered; or of a group (RFC
// 1112, 6.4).
roce::MacAddress MacOf(Ip address) {
  const uint32_t raw = Raw(address.v4());
  if (!address.is_multicast()) return MacOf(static_cast<int>(raw - Raw(AddressOf(0))));
  return {0x01,
          0x00,
          0x5e,
          static_cast<uint8_t>(raw >> 16 & 0x7f),
          static_cast<uint8_t>(raw >> 8),
          static_cast<uint8_t>(raw)};
}

std::string PortName(PortId port) { return std::to_string(port); }

// As its operator would describe it. The links of a node are in the order of its ports, so that a hop of the
// manager's is a port.
manager::Topology Describe(const Links& links, int switches, int nodes) {
  manager::Topology topology;
  for (int n = 0; n < nodes; ++n) {
    const bool is_host = n >= switches;
    manager::Node node{.name = is_host ? "host" + std::to_string(n - switches) : "switch" + std::to_string(n),
                       .is_host = is_host,
                       .address = AddressOf(n),
                       .mac = MacOf(n),
                       .source_guard = is_host,
                       .hops = {}};
    if (!is_host) topology.switches.push_back(static_cast<manager::NodeId>(n));
    for (PortId port = 0; port < links.ports(n); ++port)
      node.hops.push_back({.peer = static_cast<manager::NodeId>(links.peer(n, port)),
                           .port = PortName(port),
                           .peer_hop = static_cast<uint32_t>(links.peer_port(n, port))});
    topology.nodes.push_back(std::move(node));
  }
  return topology;
}

// What the manager tells a switch.
engine::ForwardingTable TableOf(const manager::Topology& topology, int s,
                                const manager::Forwarding& forwarding) {
  engine::ForwardingTable table;
  for (size_t target = 0; target < forwarding.hop_to.size(); ++target) {
    const uint32_t hop = forwarding.hop_to[target];
    if (hop == manager::Forwarding::kNoHop) continue;
    const manager::Node& node = topology.nodes[target];
    const bool is_next = topology.nodes[static_cast<size_t>(s)].hops[hop].peer == target;
    table.entries.push_back({.mac = node.mac,
                             .ip = node.address,
                             .port = static_cast<PortId>(hop),
                             .source_guard = node.source_guard && is_next});
  }
  for (const std::string& port : forwarding.flood_ports)
    table.flood_ports.push_back(static_cast<PortId>(std::stoul(port)));
  for (const auto& [mac, ports] : forwarding.group_ports) {
    engine::GroupPorts& group = table.groups.emplace_back(engine::GroupPorts{.mac = mac, .ports = {}});
    for (const std::string& port : ports) group.ports.push_back(static_cast<PortId>(std::stoul(port)));
  }
  return table;
}

// The same network, in which the flooding tree begins at another switch: it grows from the first one.
manager::Topology GrownFrom(const manager::Topology& topology, int tree) {
  const auto has_no_hosts = [&](manager::NodeId s) {
    return std::ranges::none_of(topology.nodes[s].hops,
                                [&](const manager::Hop& hop) { return topology.nodes[hop.peer].is_host; });
  };
  std::vector<manager::NodeId> tops;
  std::ranges::copy_if(topology.switches, std::back_inserter(tops), has_no_hosts);
  manager::Topology grown = topology;
  if (tops.empty()) return grown;
  const manager::NodeId first = tops[static_cast<size_t>(tree) % tops.size()];
  std::rotate(grown.switches.begin(), std::ranges::find(grown.switches, first), grown.switches.end());
  return grown;
}

// What a switch sends on.
class Leaving final : public engine::FrameSink {
 public:
  explicit Leaving(std::vector<PortId>& ports) : ports_(ports) {}
  void Send(PortId port, std::span<const uint8_t>) override { ports_.push_back(port); }
  void SetTimer(engine::TimerId, Nanos) override { EPIC_CHECK(false); }

 private:
  std::vector<PortId>& ports_;
};

}  // namespace

Fabric::Fabric(const Links& links, int switches, int nodes)
    : topology_(Describe(links, switches, nodes)), tables_(manager::ComputeForwarding(topology_)) {
  for (int s = 0; s < switches; ++s) {
    switches_.emplace_back(engine::SwitchConfig{.address = AddressOf(s),
                                                .mac = MacOf(s),
                                                .port_count = links.ports(s),
                                                .forwarding = engine::ForwardingMode::kStatic});
    const engine::ForwardingTable table = TableOf(topology_, s, tables_[static_cast<size_t>(s)]);
    EPIC_CHECK(switches_.back().forwarding().SetTable(table).ok());
  }
}

std::span<const PortId> Fabric::Route(Nanos now, int s, PortId ingress, const roce::Packet& packet) {
  // Forwarding looks at no payload, and changes nothing: a frame without it says where the packet goes.
  roce::Packet bare = packet;
  bare.payload = {};
  roce::FramePieces head;
  roce::WritePieces({.dst = MacOf(packet.dst_ip), .src = MacOf(packet.src_ip), .ip_id = 0, .vlan = {}}, bare,
                    nullptr, &head);
  out_.clear();
  Leaving sink(out_);
  switches_[static_cast<size_t>(s)].OnFrame(now, ingress, head.head(), sink);
  return out_;
}

void Fabric::SetGroupPorts(Ipv4 address, const std::vector<int>& hosts, int tree) {
  manager::MulticastMembers group{.mac = manager::MulticastMac(address), .hosts = {}};
  for (const int host : hosts) group.hosts.push_back(static_cast<manager::NodeId>(host));
  const manager::Topology rooted = GrownFrom(topology_, tree);
  std::vector<manager::Forwarding> tables = manager::ComputeForwarding(rooted);
  manager::FloodTree(rooted, tables).SetGroupPorts({group}, &tables);
  for (size_t s = 0; s < switches_.size(); ++s) {
    tables_[s].group_ports.erase(group.mac);
    tables_[s].group_ports.merge(tables[s].group_ports);
    const auto number = static_cast<int>(s);
    EPIC_CHECK(switches_[s].forwarding().SetTable(TableOf(topology_, number, tables_[s])).ok());
  }
}

std::vector<int> Fabric::Path(int from, int to) const {
  const std::vector<manager::NodeId> path =
      manager::Walk(topology_, tables_, static_cast<manager::NodeId>(from), static_cast<manager::NodeId>(to));
  return {path.begin(), path.end()};
}

}  // namespace epic::sim
