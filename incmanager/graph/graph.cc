#include "incmanager/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "incmanager/text.h"

namespace epic::manager {
namespace {

Status Refused(StatusCode code, const std::string& text) { return MakeStatus(code, text); }

bool SaysTheSame(const std::vector<PortState>& a, const std::vector<PortState>& b) {
  return std::ranges::equal(a, b, [](const PortState& x, const PortState& y) {
    return x.name == y.name && x.up == y.up && x.rate_mbps == y.rate_mbps && x.neighbours == y.neighbours;
  });
}

}  // namespace

Graph::Graph(Topology stated, const LinkDefaults& defaults)
    : topology_(std::move(stated)), defaults_(defaults) {}

std::vector<GraphEvent> Graph::TakeEvents() { return std::exchange(events_, {}); }

void Graph::Tell(std::string text, bool warning) { events_.push_back({std::move(text), warning}); }

void Graph::Complain(const std::string& text) {
  if (raised_.insert(text).second && !complaints_.contains(text)) Tell(text, true);
}

std::string Graph::NameOf(const Port& port) const {
  return fmt::format("{}:{}", topology_.nodes[port.first].name, StateOf(port).name);
}

bool Graph::IsForbidden(const std::string& node, const std::string& port, uint32_t* line) const {
  for (const Forbidden& forbidden : topology_.forbidden) {
    if (forbidden.node != node || (!forbidden.port.empty() && forbidden.port != port)) continue;
    *line = forbidden.line;
    return true;
  }
  return false;
}

std::string Graph::WhoIs(const Node& node) const {
  return node.line == 0 ? node.name : fmt::format("{} ({}:{})", node.name, topology_.source, node.line);
}

Status Graph::Admit(const EngineReport& engine, bool lives) {
  if (!discovers()) return absl::OkStatus();
  if (!IsName(engine.name) || engine.name.find(':') != std::string::npos) {
    return Refused(StatusCode::kInvalidArgument, fmt::format("name: must be {} and colons", kNameInWords));
  }
  if (uint32_t line = 0; IsForbidden(engine.name, "", &line)) {
    return Refused(StatusCode::kPermissionDenied,
                   fmt::format("name: {}:{} forbids {}", topology_.source, line, engine.name));
  }
  if (Raw(engine.address) == 0 || (engine.mac[0] & 1) != 0 || engine.mac == Mac{})
    return Refused(StatusCode::kInvalidArgument,
                   fmt::format("engine: {} has no address or no MAC of its own", engine.name));
  std::optional<NodeId> known = topology_.FindNode(engine.name);
  std::vector<NodeId> heard;
  for (NodeId id = 0; id < topology_.nodes.size(); ++id) {
    const Node& node = topology_.nodes[id];
    const bool is_known = id == known && !node.is_host;
    if (is_known || (node.address != engine.address && node.mac != engine.mac)) continue;
    // A host that was only heard gives way to a switch that registers.
    if (node.is_host && node.line == 0) {
      heard.push_back(id);
      continue;
    }
    const bool address = node.address == engine.address;
    return Refused(StatusCode::kAlreadyExists,
                   fmt::format("engine.{}: {} and {} both have {}", address ? "address" : "mac", WhoIs(node),
                               engine.name, address ? ToString(node.address) : ToString(node.mac)));
  }
  if (known && topology_.nodes[*known].is_host) {
    const Node& host = topology_.nodes[*known];
    if (host.line != 0) {
      return Refused(StatusCode::kAlreadyExists,
                     fmt::format("name: {}:{}: {} is the host {}", topology_.source, host.line, host.name,
                                 ToString(host.address)));
    }
  }
  if ((!known || topology_.nodes[*known].is_host) && topology_.nodes.size() >= kMaxNodes)
    return Refused(StatusCode::kResourceExhausted, fmt::format("more than {} nodes", kMaxNodes));
  for (const NodeId id : heard) {
    Node& host = topology_.nodes[id];
    Tell(fmt::format("host {} has an address of the switch {}", host.name, engine.name), true);
    host.name = fmt::format("former-{}", id);
    host.address = {};
    host.mac = {};
    ++version_;
  }
  if (known && topology_.nodes[*known].is_host) {
    // So it does to one that has its name.
    if (Node& host = topology_.nodes[*known]; host.name == engine.name) {
      host.name = HostName("", host.address);
      Tell(fmt::format("host {} has the name of the switch {}", host.name, engine.name), true);
      ++version_;
    }
    known.reset();
  }
  if (known) {
    Node& node = topology_.nodes[*known];
    const bool same = node.address == engine.address && node.mac == engine.mac;
    if (same || node.line != 0) return absl::OkStatus();  // who checks a registration finds what differs
    if (lives) {
      return Refused(
          StatusCode::kAlreadyExists,
          fmt::format("name: a switch {} with the address {} and the MAC {} is there already; this one "
                      "has {} and {}",
                      node.name, ToString(node.address), ToString(node.mac), ToString(engine.address),
                      ToString(engine.mac)));
    }
    node.address = engine.address;
    node.mac = engine.mac;
    ++version_;
    return absl::OkStatus();
  }
  topology_.switches.push_back(static_cast<NodeId>(topology_.nodes.size()));
  topology_.nodes.push_back({.name = engine.name, .address = engine.address, .mac = engine.mac});
  Tell(fmt::format("switch {} is new", engine.name));
  ++version_;
  return absl::OkStatus();
}

void Graph::OnReport(Nanos now, NodeId node, const EngineReport& engine) {
  now_ = now;
  const auto [report, is_new] = reports_.try_emplace(node);
  if (is_new || !SaysTheSame(report->second, engine.ports)) {
    const std::vector<PortState> before = std::exchange(report->second, engine.ports);
    SeekAt(node, before);
    outdated_ = true;
  }
  if (discovers()) FindEdges(node);
}

void Graph::Follow(Nanos now) {
  now_ = now;
  const auto is_due = [now](const auto& entry, Nanos after) {
    return !entry.second.told && now - entry.second.since >= after;
  };
  const bool due =
      std::ranges::any_of(strangers_, [&](const auto& entry) { return is_due(entry, kStrangerAfter); }) ||
      std::ranges::any_of(doubts_, [&](const auto& entry) { return is_due(entry, kDoubtFor); });
  if (!(outdated_ || due) || now - updated_at_ < kUpdateEvery) return;
  updated_at_ = now;
  outdated_ = false;
  ++updates_;
  Update();
}

void Graph::FindEdges(NodeId node) {
  std::map<std::string, Nanos>& quiet = quiet_since_[node];
  std::set<std::string> edges;
  const std::vector<Hop>& hops = topology_.nodes[node].hops;
  for (const PortState& port : reports_.at(node)) {
    uint32_t line = 0;
    const bool is_switchs =
        std::ranges::any_of(port.neighbours,
                            [](const Neighbour& n) { return n.kind == NeighbourKind::kSwitch; }) ||
        std::ranges::any_of(hops, [&](const Hop& hop) {
          return hop.port == port.name && hop.state != LinkState::kGone && topology_.IsSwitch(hop.peer);
        });
    if (!port.up || is_switchs || IsForbidden(topology_.nodes[node].name, port.name, &line)) {
      quiet.erase(port.name);
    } else if (now_ - quiet.try_emplace(port.name, now_).first->second >= kEdgeAfter) {
      edges.insert(port.name);
    }
  }
  if (edges == edges_[node]) return;
  edges_[node] = std::move(edges);
  ++version_;
}

const std::set<std::string>& Graph::EdgePorts(NodeId node) const {
  static const std::set<std::string> kNone;
  const auto found = edges_.find(node);
  return found == edges_.end() ? kNone : found->second;
}

void Graph::SetPasses(NodeId node, bool passes) {
  if (topology_.nodes[node].passes == passes) return;
  topology_.nodes[node].passes = passes;
  ++version_;
  Tell(fmt::format("switch {} {}", topology_.nodes[node].name, passes ? "is back" : "is gone"), !passes);
}

void Graph::NameHost(NodeId node, const std::string& name) {
  Node& host = topology_.nodes[node];
  if (!host.is_host || host.line != 0 || host.name != ToString(host.address)) return;
  const std::string better = HostName(name, host.address);
  if (better == host.name) return;
  Tell(fmt::format("host {} is {}", host.name, better));
  host.name = better;
  ++version_;
}

std::string Graph::HostName(const std::string& told, Ipv4 ip) const {
  uint32_t line = 0;
  const bool good = IsName(told) && told.find(':') == std::string::npos && !IsForbidden(told, "", &line);
  return good && !topology_.FindNode(told) ? told : ToString(ip);
}

bool Graph::IsUp(NodeId node, const std::string& port) const {
  const auto report = reports_.find(node);
  if (report == reports_.end()) return true;  // not heard of yet
  const auto state = std::ranges::find(report->second, port, &PortState::name);
  // Of a link that was found the port may have gone since.
  return state != report->second.end() && state->up;
}

double Graph::RateOf(NodeId node, const std::string& port) const {
  const auto report = reports_.find(node);
  if (report == reports_.end()) return 0;
  const auto state = std::ranges::find(report->second, port, &PortState::name);
  return state == report->second.end() ? 0 : state->rate_mbps / 1000.0;
}

void Graph::Update() {
  raised_.clear();
  claims_.clear();
  no_hosts_.clear();
  present_.clear();
  sightings_.clear();
  MakeIndex();
  ReadClaims();
  if (discovers()) {
    FindLinks();
    FindHosts();
  }
  FollowPlaces();
  SetStates();
  complaints_ = std::move(raised_);
  raised_.clear();
}

void Graph::MakeIndex() {
  index_ = {};
  for (NodeId id = 0; id < topology_.nodes.size(); ++id) {
    const Node& node = topology_.nodes[id];
    if (Raw(node.address) == 0) continue;
    if (node.is_host) {
      index_.hosts_by_address.emplace(node.address, id);
      index_.hosts_by_mac.emplace(node.mac, id);
    } else {
      index_.switches.emplace(node.name, id);
      index_.switches_by_address.emplace(node.address, id);
      index_.switches_by_mac.emplace(node.mac, id);
    }
  }
}

bool Graph::IsFormer(LinkEnd end) const {
  const Node& node = topology_.nodes[end.node];
  return node.is_host && node.attached != end.hop;
}

bool Graph::IsTakenByAnother(LinkEnd end) const {
  if (!topology_.IsSwitch(end.node)) return false;
  const std::vector<Hop>& hops = topology_.nodes[end.node].hops;
  for (uint32_t i = 0; i < hops.size(); ++i) {
    if (i == end.hop || hops[i].port != hops[end.hop].port) continue;
    // Several hosts may be at one port: one of them takes it from a switch, not from another.
    const bool takes = topology_.IsSwitch(hops[i].peer) || topology_.IsSwitch(hops[end.hop].peer);
    if ((takes && present_.contains({end.node, i})) || hops[i].line != 0) return true;
  }
  return false;
}

bool Graph::IsWithoutPort(LinkEnd end) const {
  const auto report = reports_.find(end.node);
  if (report == reports_.end()) return false;
  const std::string& port = topology_.nodes[end.node].hops[end.hop].port;
  return std::ranges::find(report->second, port, &PortState::name) == report->second.end();
}

bool Graph::HasCarriers(LinkEnd end) const {
  const auto has_carrier = [this](LinkEnd at) {
    return !topology_.IsSwitch(at.node) || IsUp(at.node, topology_.nodes[at.node].hops[at.hop].port);
  };
  return has_carrier(end) && has_carrier(topology_.Across(end));
}

LinkState Graph::StateNow(LinkEnd end) const {
  const LinkEnd there = topology_.Across(end);
  if (IsFormer(end) || IsFormer(there)) return LinkState::kGone;
  const bool is_there = topology_.nodes[end.node].hops[end.hop].line != 0 || present_.contains(end);
  if (is_there) return HasCarriers(end) ? LinkState::kUp : LinkState::kDown;
  const auto is_gone = [this](LinkEnd at) { return IsTakenByAnother(at) || IsWithoutPort(at); };
  return is_gone(end) || is_gone(there) ? LinkState::kGone : LinkState::kDown;
}

void Graph::SetState(LinkEnd end, LinkState state) {
  const LinkEnd there = topology_.Across(end);
  Hop& hop = topology_.nodes[end.node].hops[end.hop];
  if (hop.state == state) return;
  constexpr const char* kWords[] = {"up", "down", "gone"};
  Tell(fmt::format("link between {} and {} is {}", topology_.Describe(end), topology_.Describe(there),
                   kWords[static_cast<int>(state)]),
       state == LinkState::kDown);
  hop.state = state;
  topology_.nodes[there.node].hops[there.hop].state = state;
  ++version_;
}

// So that who reads that a link is down does not look for a cable.
void Graph::SetUnheard(LinkEnd end) {
  const LinkEnd there = topology_.Across(end);
  Hop& hop = topology_.nodes[end.node].hops[end.hop];
  const bool unheard = hop.state == LinkState::kDown && HasCarriers(end);
  if (hop.unheard == unheard) return;
  hop.unheard = unheard;
  topology_.nodes[there.node].hops[there.hop].unheard = unheard;
  if (!unheard) return;
  Tell(fmt::format("link between {} and {} has a carrier, and nobody has been heard there yet",
                   topology_.Describe(end), topology_.Describe(there)));
}

void Graph::SetStates() {
  for (const NodeId node : topology_.switches) {
    for (uint32_t hop = 0; hop < topology_.nodes[node].hops.size(); ++hop) {
      const LinkEnd end{node, hop};
      const LinkEnd there = topology_.Across(end);
      if (topology_.IsSwitch(there.node) && there < end) continue;
      SetState(end, StateNow(end));
      SetUnheard(end);
      SetRate(end);
    }
  }
}

std::optional<double> Graph::RateBetween(NodeId a, const std::string& a_port, NodeId b,
                                         const std::string& b_port) const {
  const double at_a = RateOf(a, a_port);
  const double at_b = RateOf(b, b_port);
  if (at_a > 0 && at_b > 0) return std::min(at_a, at_b);
  return at_a > 0 || at_b > 0 ? std::optional(std::max(at_a, at_b)) : std::nullopt;
}

// Of a link that was found; interfaces may come up with another rate than before.
void Graph::SetRate(LinkEnd end) {
  const LinkEnd there = topology_.Across(end);
  Hop& here = topology_.nodes[end.node].hops[end.hop];
  Hop& back = topology_.nodes[there.node].hops[there.hop];
  if (here.line != 0 || here.state != LinkState::kUp) return;
  const auto rate = RateBetween(end.node, here.port, there.node, back.port);
  if (rate) here.rate_gbps = back.rate_gbps = *rate;
}

LinkEnd Graph::MakeLink(NodeId a, const std::string& a_port, NodeId b, const std::string& b_port) {
  const double rate = RateBetween(a, a_port, b, b_port).value_or(defaults_.rate_gbps);
  const auto hop = [&](const std::string& port) {
    return Hop{.port = port, .rate_gbps = rate, .delay_us = defaults_.delay_us};
  };
  const LinkEnd end = topology_.Link(a, hop(a_port), b, hop(b_port));
  ++version_;
  return end;
}

}  // namespace epic::manager
