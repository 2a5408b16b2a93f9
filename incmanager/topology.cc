#include "incmanager/topology.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/path_mtu.h"

namespace epic::manager {
namespace {

// Thrown and caught inside this file only, as yaml-cpp itself reports by exceptions.
struct Bad {
  YAML::Mark mark;
  std::string message;
};

[[noreturn]] void Fail(const YAML::Node& at, const std::string& message) { throw Bad{at.Mark(), message}; }

// "leaf1:swp3" as a node and its port; what has no colon is a node alone.
std::pair<std::string, std::string> NodeAndPort(const std::string& text) {
  return absl::StrSplit(text, absl::MaxSplits(':', 1));
}

class Reader {
 public:
  Topology Read(const YAML::Node& root) {
    if (!root.IsMap())
      Fail(root, "the file must be a mapping with name, path_mtu, switches, hosts and links");
    CheckKeys(root, {"name", "path_mtu", "link", "switches", "hosts", "links", "discovery", "forbid"},
              "topology");
    topology_.discovery = Flag(root, "discovery", false);
    topology_.name = Text(root, "name", "topology");
    topology_.path_mtu = ReadPathMtu(root);
    if (const YAML::Node link = root["link"]) {
      CheckKeys(link, {"rate_gbps", "delay_us"}, "link");
      rate_gbps_ = Number(link, "rate_gbps", rate_gbps_);
      delay_us_ = Number(link, "delay_us", delay_us_);
    }
    for (const YAML::Node& node : List(root, "switches")) ReadNode(node, false);
    for (const YAML::Node& node : List(root, "hosts")) ReadNode(node, true);
    for (const YAML::Node& link : List(root, "links")) ReadLink(link);
    if (root["forbid"] && !topology_.discovery)
      Fail(root["forbid"], "forbid: without discovery nothing is there that the file does not state");
    if (root["forbid"]) {
      for (const YAML::Node& forbidden : List(root, "forbid")) ReadForbidden(forbidden);
    }
    for (const Node& node : topology_.nodes) {
      if (node.is_host && node.hops.size() != 1) {
        Fail(root["links"], fmt::format("links: host {} has {} links, not 1", node.name, node.hops.size()));
      }
    }
    return std::move(topology_);
  }

 private:
  static void CheckKeys(const YAML::Node& map, const std::set<std::string>& known, const std::string& what) {
    if (!map.IsMap()) Fail(map, what + ": must be a mapping");
    for (const auto& entry : map) {
      const auto key = entry.first.as<std::string>();
      if (!known.contains(key)) Fail(entry.first, fmt::format("{}: unknown key {}", what, key));
    }
  }

  // Of what is to be discovered nothing need be stated.
  YAML::Node List(const YAML::Node& map, const char* key) const {
    const YAML::Node list = map[key];
    if (!list && topology_.discovery) return YAML::Node(YAML::NodeType::Sequence);
    if (!list) Fail(map, fmt::format("{}: missing", key));
    if (!list.IsSequence() || list.size() == 0)
      Fail(list, fmt::format("{}: must be a list that is not empty", key));
    return list;
  }

  static std::string Text(const YAML::Node& map, const char* key, const std::string& what) {
    const YAML::Node value = map[key];
    if (!value) Fail(map, fmt::format("{}: {} is missing", what, key));
    if (!value.IsScalar() || value.Scalar().empty())
      Fail(value, fmt::format("{}: {} must be text", what, key));
    return value.Scalar();
  }

  static double Number(const YAML::Node& map, const char* key, double fallback) {
    const YAML::Node value = map[key];
    if (!value) return fallback;
    double number = 0;
    if (!YAML::convert<double>::decode(value, number) || !(number >= 0) || number > 1e9) {
      Fail(value, fmt::format("{}: must be a number that is not negative", key));
    }
    return number;
  }

  static uint32_t ReadPathMtu(const YAML::Node& root) {
    const YAML::Node value = root["path_mtu"];
    if (!value) Fail(root, "path_mtu: missing");
    uint32_t mtu = 0;
    const bool number = YAML::convert<uint32_t>::decode(value, mtu);
    if (!number || !IsPathMtu(mtu)) {
      Fail(value, fmt::format("path_mtu: must be {}", kPathMtusInWords));
    }
    return mtu;
  }

  // value names something that only one node may have.
  void Unique(const YAML::Node& at, const char* key, const std::string& value, const std::string& owner) {
    const auto [other, inserted] = owners_.emplace(fmt::format("{} {}", key, value), owner);
    if (!inserted) Fail(at, fmt::format("{}: {} is already that of {}", key, value, other->second));
  }

  static Mac ReadMac(const YAML::Node& map, const char* key, const std::string& what) {
    const std::string text = Text(map, key, what);
    const std::optional<Mac> mac = ParseMac(text);
    if (!mac) Fail(map[key], fmt::format("{}: {} is not a MAC address", key, text));
    if (((*mac)[0] & 1) != 0) Fail(map[key], fmt::format("{}: {} is a multicast address", key, text));
    return *mac;
  }

  static bool Flag(const YAML::Node& map, const char* key, bool fallback) {
    const YAML::Node value = map[key];
    bool flag = fallback;
    if (value && !YAML::convert<bool>::decode(value, flag))
      Fail(value, fmt::format("{}: must be true or false", key));
    return flag;
  }

  void ReadNode(const YAML::Node& yaml, bool is_host) {
    const std::string what = is_host ? "hosts" : "switches";
    CheckKeys(yaml,
              is_host ? std::set<std::string>{"name", "address", "mac", "source_guard"}
                      : std::set<std::string>{"name", "address", "mac", "ports"},
              what);
    if (topology_.nodes.size() == kMaxNodes)
      Fail(yaml, fmt::format("{}: more than {} nodes", what, kMaxNodes));
    Node node;
    node.name = Text(yaml, "name", what);
    node.is_host = is_host;
    if (node.name.find(':') != std::string::npos) Fail(yaml, fmt::format("name: {} has a colon", node.name));
    const std::string address = Text(yaml, "address", node.name);
    const std::optional<Ipv4> ip = ParseIpv4(address);
    if (!ip || Raw(*ip) == 0)
      Fail(yaml["address"], fmt::format("address: {} is not an IPv4 address", address));
    node.address = *ip;
    node.mac = ReadMac(yaml, "mac", node.name);
    node.line = static_cast<uint32_t>(yaml.Mark().line) + 1;
    node.source_guard = is_host && Flag(yaml, "source_guard", true);
    Unique(yaml["name"], "name", node.name, node.name);
    Unique(yaml["address"], "address", ToString(node.address), node.name);
    Unique(yaml["mac"], "mac", ToString(node.mac), node.name);
    if (const YAML::Node ports = yaml["ports"]) {
      if (!ports.IsSequence()) Fail(ports, fmt::format("ports: {}: must be a list of names", node.name));
      for (const YAML::Node& port : ports) {
        if (!port.IsScalar()) Fail(port, fmt::format("ports: {}: must be a list of names", node.name));
        if (!ports_[node.name].insert(port.Scalar()).second) {
          Fail(port, fmt::format("ports: {} lists {} twice", node.name, port.Scalar()));
        }
      }
    }
    if (!is_host) topology_.switches.push_back(static_cast<NodeId>(topology_.nodes.size()));
    topology_.nodes.push_back(std::move(node));
  }

  // "leaf1:swp3" or "h0".
  std::pair<NodeId, std::string> ReadEnd(const YAML::Node& link, const char* key) {
    const std::string text = Text(link, key, "links");
    const auto [name, port] = NodeAndPort(text);
    const std::optional<NodeId> id = topology_.FindNode(name);
    if (!id) Fail(link[key], fmt::format("links: {} is neither a switch nor a host", name));
    if (topology_.nodes[*id].is_host) {
      if (!port.empty())
        Fail(link[key], fmt::format("links: host {} has one port, which is not named", name));
      return {*id, ""};
    }
    if (port.empty())
      Fail(link[key], fmt::format("links: {} is a switch: name its port, as in {}:swp1", name, name));
    const auto listed = ports_.find(name);
    if (listed != ports_.end() && !listed->second.contains(port)) {
      Fail(link[key], fmt::format("links: {} does not list port {}", name, port));
    }
    if (!used_ports_.insert(text).second) Fail(link[key], fmt::format("links: port {} is used twice", text));
    return {*id, port};
  }

  // The router that one end of a link, a node, sends to on its way to the other.
  std::optional<Mac> ReadNextHop(const YAML::Node& link, const char* key, NodeId from, NodeId to) const {
    if (!link[key]) return std::nullopt;
    const Node& node = topology_.nodes[from];
    if (node.is_host) {
      Fail(link[key],
           fmt::format("{}: host {} asks its own routes and ARP for the next hop", key, node.name));
    }
    const Mac mac = ReadMac(link, key, "links");
    const auto owner = owners_.find("mac " + ToString(mac));
    if (owner != owners_.end() && owner->second != topology_.nodes[to].name) {
      Fail(link[key], fmt::format("{}: {} is the MAC of {}, not of a router between {} and {}", key,
                                  ToString(mac), owner->second, node.name, topology_.nodes[to].name));
    }
    return mac;
  }

  // "leaf1", "leaf1:swp3", or a host's name or address.
  void ReadForbidden(const YAML::Node& yaml) {
    if (!yaml.IsScalar() || yaml.Scalar().empty()) Fail(yaml, "forbid: a node, or a port as in leaf1:swp3");
    const std::string& text = yaml.Scalar();
    const auto [name, port] = NodeAndPort(text);
    const Forbidden forbidden{
        .node = name, .port = port, .line = static_cast<uint32_t>(yaml.Mark().line) + 1};
    if (topology_.FindNode(forbidden.node) && forbidden.port.empty())
      Fail(yaml, fmt::format("forbid: {} is stated above", text));
    if (used_ports_.contains(text)) Fail(yaml, fmt::format("forbid: {} is in a link above", text));
    topology_.forbidden.push_back(forbidden);
  }

  void ReadLink(const YAML::Node& yaml) {
    CheckKeys(yaml, {"a", "b", "a_next_hop_mac", "b_next_hop_mac", "rate_gbps", "delay_us", "port_security"},
              "links");
    const auto [a, a_port] = ReadEnd(yaml, "a");
    const auto [b, b_port] = ReadEnd(yaml, "b");
    if (a == b) Fail(yaml, fmt::format("links: {} is linked to itself", topology_.nodes[a].name));
    if (topology_.nodes[a].is_host && topology_.nodes[b].is_host) {
      Fail(yaml,
           fmt::format("links: {} and {} are both hosts", topology_.nodes[a].name, topology_.nodes[b].name));
    }
    const double rate = Number(yaml, "rate_gbps", rate_gbps_);
    const double delay = Number(yaml, "delay_us", delay_us_);
    const bool secure = Flag(yaml, "port_security", false);
    const auto hop = [&](const std::string& port, std::optional<Mac> next_hop) {
      return Hop{.port = port,
                 .rate_gbps = rate,
                 .delay_us = delay,
                 .next_hop_mac = next_hop,
                 .port_security = secure,
                 .line = static_cast<uint32_t>(yaml.Mark().line) + 1};
    };
    topology_.Link(a, hop(a_port, ReadNextHop(yaml, "a_next_hop_mac", a, b)), b,
                   hop(b_port, ReadNextHop(yaml, "b_next_hop_mac", b, a)));
  }

  Topology topology_;
  double rate_gbps_ = 10;
  double delay_us_ = 20;
  std::map<std::string, std::string> owners_;
  std::map<std::string, std::set<std::string>> ports_;  // as listed by the switches that list theirs
  std::set<std::string> used_ports_;
};

Status BadAt(const std::string& source, const YAML::Mark& mark, const std::string& message) {
  const std::string place = mark.is_null() ? source : fmt::format("{}:{}", source, mark.line + 1);
  return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: {}", place, message));
}

}  // namespace

std::optional<NodeId> Topology::FindNode(const std::string& node_name) const {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.name == node_name; });
  if (found == nodes.end()) return std::nullopt;
  return static_cast<NodeId>(found - nodes.begin());
}

std::optional<NodeId> Topology::FindSwitch(const std::string& node_name) const {
  const std::optional<NodeId> id = FindNode(node_name);
  return id && IsSwitch(*id) ? id : std::nullopt;
}

std::optional<NodeId> Topology::FindHost(const std::string& name_or_address) const {
  const std::optional<NodeId> named = FindNode(name_or_address);
  if (named) return IsSwitch(*named) ? std::nullopt : named;
  const std::optional<Ipv4> address = ParseIpv4(name_or_address);
  return address ? FindHostByAddress(*address) : std::nullopt;
}

std::optional<NodeId> Topology::FindHostByAddress(Ipv4 address) const {
  if (Raw(address) == 0) return std::nullopt;
  for (NodeId id = 0; id < nodes.size(); ++id) {
    if (nodes[id].is_host && nodes[id].address == address) return id;
  }
  return std::nullopt;
}

std::optional<NodeId> Topology::FindSwitchByAddress(Ipv4 address) const {
  for (const NodeId id : switches) {
    if (nodes[id].address == address) return id;
  }
  return std::nullopt;
}

LinkEnd Topology::Link(NodeId a, Hop at_a, NodeId b, Hop at_b) {
  at_a.peer = b;
  at_b.peer = a;
  at_a.peer_hop = static_cast<uint32_t>(nodes[b].hops.size());
  at_b.peer_hop = static_cast<uint32_t>(nodes[a].hops.size());
  nodes[a].hops.push_back(std::move(at_a));
  nodes[b].hops.push_back(std::move(at_b));
  return {a, static_cast<uint32_t>(nodes[a].hops.size()) - 1};
}

bool Topology::Carries(LinkEnd end) const {
  const Hop& hop = nodes[end.node].hops[end.hop];
  return hop.state == LinkState::kUp && nodes[end.node].passes && nodes[hop.peer].passes;
}

std::optional<LinkEnd> Topology::EndAt(NodeId node, const std::string& port) const {
  const std::vector<Hop>& hops = nodes[node].hops;
  std::optional<LinkEnd> gone;
  for (uint32_t i = 0; i < hops.size(); ++i) {
    if (hops[i].port != port) continue;
    if (hops[i].state != LinkState::kGone) return LinkEnd{node, i};
    if (!gone) gone = LinkEnd{node, i};
  }
  return gone;
}

std::string Topology::Describe(LinkEnd end) const {
  const Node& node = nodes[end.node];
  return node.is_host ? node.name : fmt::format("{}:{}", node.name, node.hops[end.hop].port);
}

Mac Topology::NextHopMac(NodeId from, const std::string& port, NodeId to) const {
  const std::optional<LinkEnd> end = EndAt(from, port);
  if (end && nodes[from].hops[end->hop].next_hop_mac) return *nodes[from].hops[end->hop].next_hop_mac;
  return nodes[to].mac;
}

StatusOr<Topology> ParseTopology(const std::string& text, const std::string& source) {
  try {
    Topology topology = Reader().Read(YAML::Load(text));
    topology.text = text;
    topology.source = source;
    return topology;
  } catch (const Bad& bad) {
    return BadAt(source, bad.mark, bad.message);
  } catch (const YAML::Exception& error) {
    return BadAt(source, error.mark, error.msg);
  }
}

StatusOr<Topology> LoadTopology(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return MakeStatus(StatusCode::kNotFound, fmt::format("{}: cannot be read", path));
  }
  return ParseTopology(text.str(), path);
}

std::optional<Ipv4> ParseIpv4(const std::string& text) {
  unsigned part[4] = {};
  int end = 0;
  if (std::sscanf(text.c_str(), "%3u.%3u.%3u.%3u%n", &part[0], &part[1], &part[2], &part[3], &end) != 4 ||
      static_cast<size_t>(end) != text.size()) {
    return std::nullopt;
  }
  uint32_t raw = 0;
  for (const unsigned p : part) {
    if (p > 255) return std::nullopt;
    raw = raw << 8 | p;
  }
  return Ipv4{raw};
}

std::optional<Mac> ParseMac(const std::string& text) {
  unsigned part[6] = {};
  int end = 0;
  if (text.size() != 17 ||
      std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &part[0], &part[1], &part[2], &part[3], &part[4],
                  &part[5], &end) != 6 ||
      end != 17) {
    return std::nullopt;
  }
  Mac mac;
  for (size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(part[i]);
  return mac;
}

std::string ToString(Ipv4 address) {
  const uint32_t raw = Raw(address);
  return fmt::format("{}.{}.{}.{}", raw >> 24, raw >> 16 & 255, raw >> 8 & 255, raw & 255);
}

std::string ToString(const Mac& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                     mac[5]);
}

}  // namespace epic::manager
