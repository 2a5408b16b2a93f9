// What switches hear at their ports, and what follows of it: links and hosts, and who contradicts whom.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "incmanager/graph/graph.h"

namespace epic::manager {
namespace {

template <typename Key>
std::optional<NodeId> Find(const std::map<Key, NodeId>& index, const Key& key) {
  const auto found = index.find(key);
  return found == index.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

const Hop* Graph::StatedAt(const Port& port) const {
  for (const Hop& hop : topology_.nodes[port.first].hops) {
    if (hop.line != 0 && hop.port == StateOf(port).name) return &hop;
  }
  return nullptr;
}

// "topology.yaml:12"
std::string Graph::StatedBy(const Hop& hop) const { return fmt::format("{}:{}", topology_.source, hop.line); }

void Graph::ReadClaims() {
  std::set<std::pair<Port, std::string>> heard_strangers;
  for (const auto& [node, ports] : reports_) {
    for (uint32_t i = 0; i < ports.size(); ++i) {
      const Port at{node, i};
      uint32_t line = 0;
      const bool forbidden = IsForbidden(topology_.nodes[node].name, ports[i].name, &line);
      if (forbidden) no_hosts_.insert(at);
      if (forbidden || !ports[i].up) continue;
      std::vector<Port> heard;
      for (const Neighbour& neighbour : ports[i].neighbours) {
        if (neighbour.kind != NeighbourKind::kSwitch) continue;
        no_hosts_.insert(at);
        if (!index_.switches.contains(neighbour.name)) heard_strangers.emplace(at, neighbour.name);
        if (const auto claim = ReadClaim(at, neighbour)) heard.push_back(*claim);
      }
      if (heard.size() > 1) {
        Complain(fmt::format("{} hears both {} and {}: no link is taken from there", NameOf(at),
                             NameOf(heard[0]), NameOf(heard[1])));
      }
      if (heard.size() == 1) CheckStated(at, heard[0]);
      if (heard.size() == 1) claims_[at] = heard[0];
    }
  }
  std::erase_if(strangers_, [&](const auto& entry) { return !heard_strangers.contains(entry.first); });
  for (const auto& stranger : heard_strangers) {
    Stranger& known = strangers_.try_emplace(stranger, Stranger{.since = now_}).first->second;
    if (now_ - known.since < kStrangerAfter) continue;
    known.told = true;
    Complain(fmt::format("{} hears a switch {}, which has not registered", NameOf(stranger.first),
                         stranger.second));
  }
}

std::optional<Graph::Port> Graph::ReadClaim(const Port& at, const Neighbour& neighbour) {
  const std::optional<NodeId> node = Find(index_.switches, neighbour.name);
  if (!node) return std::nullopt;
  const Node& registered = topology_.nodes[*node];
  if (neighbour.mac != registered.mac) {
    Complain(fmt::format("{} hears a switch {} with the MAC {}; the one that is registered has {}",
                         NameOf(at), registered.name, ToString(neighbour.mac), ToString(registered.mac)));
    return std::nullopt;
  }
  if (Raw(neighbour.ip) != 0 && neighbour.ip != registered.address) {
    Complain(fmt::format("{} hears {} with the address {}; it has registered with {}", NameOf(at),
                         registered.name, ToString(neighbour.ip), ToString(registered.address)));
    return std::nullopt;
  }
  const auto report = reports_.find(*node);
  if (report == reports_.end()) return std::nullopt;
  const auto port = std::ranges::find(report->second, neighbour.port, &PortState::name);
  if (port == report->second.end()) {
    Complain(fmt::format("{} hears {}:{}, a port that {} does not report", NameOf(at), registered.name,
                         neighbour.port, registered.name));
    return std::nullopt;
  }
  const Port there{*node, static_cast<uint32_t>(port - report->second.begin())};
  if (there == at) {
    Complain(fmt::format("{} hears itself", NameOf(at)));
    return std::nullopt;
  }
  return there;
}

void Graph::CheckStated(const Port& at, const Port& heard) {
  const Hop* stated = StatedAt(at);
  // A router in the link lets no hellos through, so that whoever is heard is another.
  if (stated == nullptr) return;
  const Node& peer = topology_.nodes[stated->peer];
  if (stated->peer == heard.first && peer.hops[stated->peer_hop].port == StateOf(heard).name) return;
  Complain(fmt::format("{}: links {} to {}, but it hears {}", StatedBy(*stated), NameOf(at),
                       topology_.Describe({stated->peer, stated->peer_hop}), NameOf(heard)));
}

void Graph::FindLinks() {
  for (const auto& [at, heard] : claims_) {
    const auto back = claims_.find(heard);
    if (back == claims_.end() || back->second != at || heard < at) continue;
    if (StatedAt(at) != nullptr || StatedAt(heard) != nullptr) continue;
    SetLink(at, heard);
  }
}

void Graph::SetLink(const Port& a, const Port& b) {
  const std::vector<Hop>& hops = topology_.nodes[a.first].hops;
  for (uint32_t i = 0; i < hops.size(); ++i) {
    if (hops[i].peer != b.first || hops[i].port != StateOf(a).name) continue;
    if (topology_.nodes[b.first].hops[hops[i].peer_hop].port != StateOf(b).name) continue;
    present_.insert({a.first, i});
    present_.insert({b.first, hops[i].peer_hop});
    return;
  }
  const LinkEnd end = MakeLink(a.first, StateOf(a).name, b.first, StateOf(b).name);
  present_.insert(end);
  present_.insert(topology_.Across(end));
  Tell(fmt::format("link between {} and {} is new", NameOf(a), NameOf(b)));
}

void Graph::FindHosts() {
  for (const auto& [node, ports] : reports_) {
    for (uint32_t i = 0; i < ports.size(); ++i) {
      const Port at{node, i};
      if (!MayHaveHosts(at)) continue;
      for (const Neighbour& neighbour : ports[i].neighbours) {
        if (neighbour.kind == NeighbourKind::kHost && neighbour.mac != Mac{}) SeeHost(at, neighbour);
      }
    }
  }
  for (const auto& [mac, seen] : sightings_) PlaceHost(mac, seen);
}

void Graph::SeeHost(const Port& at, const Neighbour& neighbour) {
  const auto contradicts = [&](std::optional<NodeId> id, const std::string& what) {
    if (id)
      Complain(
          fmt::format("a host at {} has {} of the switch {}", NameOf(at), what, topology_.nodes[*id].name));
    return id.has_value();
  };
  if (contradicts(Find(index_.switches_by_address, neighbour.ip), "the address " + ToString(neighbour.ip)) ||
      contradicts(Find(index_.switches_by_mac, neighbour.mac), "the MAC " + ToString(neighbour.mac)))
    return;
  // Then it is known by its address.
  contradicts(Find(index_.switches, neighbour.name), "the name");
  std::vector<Sighting>& seen = sightings_[neighbour.mac];
  const auto same = std::ranges::find(seen, at, &Sighting::at);
  const Sighting now = SightingOf(at, neighbour);
  if (same == seen.end()) {
    seen.push_back(now);
    return;
  }
  if (same->name.empty()) same->name = now.name;
  if (Raw(now.ip) == 0) return;
  // Of several addresses of one kind that by which it is known, else the first.
  const std::optional<NodeId> known = Find(index_.hosts_by_address, now.ip);
  const bool is_known = known && topology_.nodes[*known].mac == neighbour.mac;
  if (Raw(same->ip) != 0 && (now.source > same->source || (now.source == same->source && !is_known))) return;
  same->ip = now.ip;
  same->source = now.source;
}

Graph::Sighting Graph::SightingOf(const Port& at, const Neighbour& neighbour) {
  Sighting seen{at, neighbour.ip, neighbour.name};
  if (neighbour.heard_by == HeardBy::kArp) return seen;
  // Daemons of ours alone say their version.
  seen.source = neighbour.version.empty() ? Sighting::Source::kManaged : Sighting::Source::kDaemon;
  return seen;
}

void Graph::PlaceHost(const Mac& mac, const std::vector<Sighting>& seen) {
  const auto is_there = [&](const Sighting& sighting) {
    const std::optional<NodeId> id = Find(index_.hosts_by_mac, mac);
    if (!id) return false;
    const LinkEnd there = topology_.Across(topology_.AttachedEnd(*id));
    return there.node == sighting.at.first &&
           topology_.nodes[there.node].hops[there.hop].port == StateOf(sighting.at).name;
  };
  if (seen.size() > 1) {
    Complain(fmt::format("the MAC {} is both at {} and at {}", ToString(mac), NameOf(seen[0].at),
                         NameOf(seen[1].at)));
  }
  const auto stays = std::ranges::find_if(seen, is_there);
  const Sighting& sighting = stays != seen.end() ? *stays : seen.front();
  const std::optional<NodeId> host = HostFor(mac, sighting);
  if (host) Attach(*host, sighting.at);
}

std::optional<NodeId> Graph::HostFor(const Mac& mac, const Sighting& seen) {
  const std::optional<NodeId> by_mac = Find(index_.hosts_by_mac, mac);
  const std::optional<NodeId> by_ip = Find(index_.hosts_by_address, seen.ip);
  if (!by_mac) {
    if (!by_ip) return NewHost(mac, seen);
    Node& other = topology_.nodes[*by_ip];
    if (other.line != 0) {
      Complain(fmt::format("{}:{}: {} has the MAC {}, but {} hears {} with {}", topology_.source, other.line,
                           other.name, ToString(other.mac), NameOf(seen.at), ToString(seen.ip),
                           ToString(mac)));
      return std::nullopt;
    }
    if (const auto there = sightings_.find(other.mac); there != sightings_.end()) {
      Complain(fmt::format("the address {} is both that of {} at {} and of {} at {}", ToString(seen.ip),
                           ToString(other.mac), NameOf(there->second.front().at), ToString(mac),
                           NameOf(seen.at)));
      return std::nullopt;
    }
    Tell(fmt::format("host {} has another MAC, {}", other.name, ToString(mac)));
    other.mac = mac;
    MakeIndex();
    ++version_;
    return by_ip;
  }
  const NodeId id = *by_mac;
  Node* found = &topology_.nodes[id];
  // Where it is managed is no news of one that is known by what it has spoken with.
  if (Raw(seen.ip) == 0 || by_ip == id || seen.source == Sighting::Source::kManaged) return id;
  if (found->line != 0) {
    Complain(fmt::format("{}:{}: {} has the address {}, but {} hears its MAC with {}", topology_.source,
                         found->line, found->name, ToString(found->address), NameOf(seen.at),
                         ToString(seen.ip)));
    return id;
  }
  if (by_ip) {
    Complain(fmt::format("the address {} is both that of {} and of {} at {}", ToString(seen.ip),
                         topology_.nodes[*by_ip].name, ToString(mac), NameOf(seen.at)));
    return id;
  }
  Tell(fmt::format("host {} has another address, {}", found->name, ToString(seen.ip)));
  if (found->name == ToString(found->address)) found->name = ToString(seen.ip);
  found->address = seen.ip;
  MakeIndex();
  ++version_;
  return id;
}

bool Graph::HasRoom(const Sighting& seen) {
  const auto left_out = [&](const std::string& bound) {
    Complain(fmt::format("no more than {}: others at {} are left out", bound, NameOf(seen.at)));
    return false;
  };
  const size_t hosts = topology_.nodes.size() - topology_.switches.size();
  if (hosts >= kMaxNodes - kForSwitches) return left_out(fmt::format("{} hosts", kMaxNodes - kForSwitches));
  if (topology_.nodes.size() >= kMaxNodes) return left_out(fmt::format("{} nodes", kMaxNodes));
  const NodeId node = seen.at.first;
  const auto here = std::ranges::count_if(topology_.nodes[node].hops, [&](const Hop& hop) {
    return hop.port == StateOf(seen.at).name && !topology_.IsSwitch(hop.peer) &&
           topology_.nodes[hop.peer].attached == hop.peer_hop;
  });
  return static_cast<size_t>(here) < kMaxHostsAtPort ||
         left_out(fmt::format("{} hosts at one port", kMaxHostsAtPort));
}

std::optional<NodeId> Graph::NewHost(const Mac& mac, const Sighting& seen) {
  uint32_t line = 0;
  if (Raw(seen.ip) == 0 || IsForbidden(seen.name, "", &line) || IsForbidden(ToString(seen.ip), "", &line))
    return std::nullopt;
  if (!HasRoom(seen)) return std::nullopt;
  topology_.nodes.push_back(
      {.name = HostName(seen.name, seen.ip), .is_host = true, .address = seen.ip, .mac = mac});
  const auto host = static_cast<NodeId>(topology_.nodes.size() - 1);
  index_.hosts_by_address.emplace(seen.ip, host);
  index_.hosts_by_mac.emplace(mac, host);
  MakeLink(seen.at.first, StateOf(seen.at).name, host, "");
  Tell(fmt::format("host {} at {} is new", topology_.nodes[host].name, NameOf(seen.at)));
  return host;
}

void Graph::Attach(NodeId host, const Port& at) {
  Node& node = topology_.nodes[host];
  const Hop& link = topology_.Attached(host);
  const LinkEnd there = topology_.Across(topology_.AttachedEnd(host));
  const auto is_here = [&](const Hop& hop) {
    return hop.peer == at.first && topology_.nodes[at.first].hops[hop.peer_hop].port == StateOf(at).name;
  };
  if (!is_here(link)) {
    if (link.line != 0) {
      Complain(Elsewhere(host, at));
      return;
    }
    Tell(fmt::format("host {} has moved from {} to {}", node.name, topology_.Describe(there), NameOf(at)));
    const auto before = std::ranges::find_if(node.hops, is_here);
    if (before == node.hops.end()) {
      MakeLink(at.first, StateOf(at).name, host, "");
      node.attached = static_cast<uint32_t>(node.hops.size()) - 1;
    } else {
      node.attached = static_cast<uint32_t>(before - node.hops.begin());
    }
    ++version_;
  }
  present_.insert(topology_.AttachedEnd(host));
  present_.insert(topology_.Across(topology_.AttachedEnd(host)));
}

}  // namespace epic::manager
