// Whether the hosts of the file are where it has them (docs/PROTOCOL.md, "A cable in another port").
#include <fmt/format.h>

#include <algorithm>

#include "incmanager/graph/graph.h"

namespace epic::manager {

// Up, and nothing is known of a switch there, nor is it left out.
bool Graph::MayHaveHosts(const Port& at) const {
  const Hop* stated = StatedAt(at);
  return StateOf(at).up && !no_hosts_.contains(at) &&
         (stated == nullptr || !topology_.IsSwitch(stated->peer));
}

const Node* Graph::StatedHostAt(const Port& at) const {
  const Hop* stated = StatedAt(at);
  return stated == nullptr || topology_.IsSwitch(stated->peer) ? nullptr : &topology_.nodes[stated->peer];
}

// "topology.yaml:12: links h1 to leaf1:swp1, but it is heard at leaf1:swp2, where topology.yaml:13 has h2"
std::string Graph::Elsewhere(NodeId host, const Port& at) const {
  const LinkEnd home = topology_.Across(topology_.AttachedEnd(host));
  std::string text =
      fmt::format("{}: links {} to {}, but it is heard at {}", StatedBy(topology_.Attached(host)),
                  topology_.nodes[host].name, topology_.Describe(home), NameOf(at));
  if (const Node* other = StatedHostAt(at))
    text += fmt::format(", where {} has {}", StatedBy(*StatedAt(at)), other->name);
  return text;
}

// Hosts at ports that have come up; before are those of the last report. Of a switch that is new, also those
// that nobody hears: they may be there. With discovery ranks' hosts are looked for when they join.
void Graph::SeekAt(NodeId node, const std::vector<PortState>& before) {
  if (discovers()) return;
  const auto is_up = [](const std::vector<PortState>& ports, const std::string& name) {
    const auto port = std::ranges::find(ports, name, &PortState::name);
    return port != ports.end() && port->up;
  };
  for (NodeId host = 0; host < topology_.nodes.size(); ++host) {
    if (!topology_.nodes[host].is_host) continue;
    const LinkEnd home = topology_.Across(topology_.AttachedEnd(host));
    const std::string& port = topology_.nodes[home.node].hops[home.hop].port;
    const auto report = reports_.find(home.node);
    if (report == reports_.end() || !is_up(report->second, port)) continue;
    const bool comes_up = home.node == node && !is_up(before, port);
    if (comes_up || before.empty()) Seek(host);
  }
}

std::set<NodeId> Graph::Sought() const {
  std::set<NodeId> hosts = sought_;
  for (const auto& [host, doubt] : doubts_) {
    if (!doubt.told) hosts.insert(host);
  }
  return hosts;
}

void Graph::Seek(NodeId host) {
  if (!IsHeardThere(host) && !doubts_.contains(host)) sought_.insert(host);
}

bool Graph::IsHeardThere(NodeId host) const {
  const LinkEnd home = topology_.Across(topology_.AttachedEnd(host));
  const auto report = reports_.find(home.node);
  if (report == reports_.end()) return false;
  const auto port =
      std::ranges::find(report->second, topology_.nodes[home.node].hops[home.hop].port, &PortState::name);
  return port != report->second.end() && port->up &&
         std::ranges::any_of(port->neighbours, [&](const Neighbour& neighbour) {
           return neighbour.kind == NeighbourKind::kHost && neighbour.mac == topology_.nodes[host].mac;
         });
}

bool Graph::LeadsToSwitch(NodeId node, const std::string& port) const {
  const auto end = topology_.EndAt(node, port);
  if (end && topology_.IsSwitch(topology_.Across(*end).node)) return true;
  const auto report = reports_.find(node);
  if (report == reports_.end()) return false;
  const auto state = std::ranges::find(report->second, port, &PortState::name);
  return state != report->second.end() && std::ranges::any_of(state->neighbours, [](const Neighbour& n) {
           return n.kind == NeighbourKind::kSwitch;
         });
}

void Graph::FollowPlace(NodeId host, const std::vector<Port>& heard) {
  const bool is_there = IsHeardThere(host);
  if (is_there || !heard.empty()) sought_.erase(host);
  if (is_there || heard.empty()) {
    doubts_.erase(host);
    return;
  }
  Doubt& doubt = doubts_.try_emplace(host, Doubt{.since = now_, .at = heard.front()}).first->second;
  doubt.at = heard.front();
  doubt.told |= now_ - doubt.since >= kDoubtFor;
}

void Graph::FollowPlaces() {
  std::map<Mac, std::vector<Port>> heard;
  for (const auto& [node, ports] : reports_) {
    for (uint32_t i = 0; i < ports.size(); ++i) {
      if (ports[i].neighbours.empty() || !MayHaveHosts({node, i})) continue;
      for (const Neighbour& neighbour : ports[i].neighbours) {
        if (neighbour.kind == NeighbourKind::kHost) heard[neighbour.mac].push_back({node, i});
      }
    }
  }
  std::map<NodeId, std::string> misplaced;
  for (NodeId host = 0; host < topology_.nodes.size(); ++host) {
    const Node& node = topology_.nodes[host];
    if (!node.is_host || topology_.Attached(host).line == 0) continue;
    const auto at = heard.find(node.mac);
    FollowPlace(host, at == heard.end() ? std::vector<Port>{} : at->second);
  }
  for (const auto& [host, doubt] : doubts_) {
    if (!doubt.told) continue;
    misplaced[host] = Elsewhere(host, doubt.at);
    Complain(misplaced[host]);
  }
  // Whose place another one has taken, while nobody hears it.
  for (const auto& [host, doubt] : doubts_) {
    const Hop* stated = doubt.told ? StatedAt(doubt.at) : nullptr;
    if (stated == nullptr || misplaced.contains(stated->peer) || IsHeardThere(stated->peer)) continue;
    misplaced[stated->peer] =
        fmt::format("{}: links {} to {}, but {} is heard there", StatedBy(*stated),
                    topology_.nodes[stated->peer].name, NameOf(doubt.at), topology_.nodes[host].name);
  }
  for (NodeId host = 0; host < topology_.nodes.size(); ++host) {
    const auto text = misplaced.find(host);
    std::string now = text == misplaced.end() ? "" : text->second;
    if (topology_.nodes[host].misplaced == now) continue;
    topology_.nodes[host].misplaced = std::move(now);
    ++version_;
  }
}

}  // namespace epic::manager
