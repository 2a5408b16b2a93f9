// The way of a group whose payloads lie in a pool: one switch that sums, and a host that lends memory
// (docs/PROTOCOL-CONTROL.md, section 7.5).
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "incmanager/groups/placer.h"
#include "incmanager/policies/memory.h"
#include "protocol/fallback.h"

namespace epic::manager {

Failure NoRoom(const std::string& name, uint64_t needed, const SwitchOffer& offer) {
  Failure failure = SwitchFailure(ErrorCode::kNoResource, name,
                                  fmt::format("switch {}: arena: {} bytes needed, {} of {} bytes left", name,
                                              needed, offer.room, offer.arena_bytes));
  failure.brief = MemoryWords(name, needed, offer.room, offer.arena_bytes);
  if (!offer.kept.empty()) {
    failure.message += "; " + offer.kept;
    failure.brief += "; " + offer.kept;
  }
  return failure;
}

// Who has too little memory, and whom no host that lends reaches, is a switch that lacks something, as in
// WayByShortest.
Result<NetworkWay> Placer::WayByOneSwitch(const Group& group, std::vector<SwitchOffer> offers,
                                          std::vector<RootChoice>* choices) const {
  const std::vector<NodeId> hosts = HostsOf(group);
  Failure first;
  for (;;) {
    std::vector<RootCandidate> candidates;
    auto tree = BuildOneSwitchTree(from_.topology, from_.tables, offers, hosts,
                                   choices == nullptr ? nullptr : &candidates);
    if (choices != nullptr) *choices = ExplainRoots(from_.topology, offers, candidates);
    if (!tree.ok()) return first.ok() ? tree.failure() : first;
    const NodeId root = tree->inner.front().node;
    auto way = SizesOf(group, *std::move(tree), offers);
    if (!way.ok()) return way;
    Failure failure;
    if (way->bytes.front() > offers[root].room) {
      failure = NoRoom(from_.topology.nodes[root].name, way->bytes.front(), offers[root]);
    } else if (const auto server = ServerOf(group, *way, offers); server.ok()) {
      way->server = GroupServer{.host = server->host, .bytes = server->bytes, .of_a_rank = server->of_a_rank};
      way->leg = EndpointPlan{.remote_ip = from_.topology.nodes[server->host].address,
                              .remote_mac = from_.topology.NextHopMac(root, server->edge.port, server->host),
                              .port = server->edge.port,
                              .ingress_port = server->edge.ingress_port};
      return way;
    } else {
      failure = server.failure();
    }
    if (first.ok()) first = failure;
    offers[root].lacks = failure.Brief();
  }
}

std::vector<SwitchPort> Placer::PortsOf(const Footprint& footprint) const {
  std::vector<SwitchPort> ports;
  for (const LinkEnd& link : footprint.links) {
    for (const LinkEnd& end : {link, from_.topology.Across(link)}) {
      if (!from_.topology.IsSwitch(end.node)) continue;
      const EngineReport& engine = from_.switches.entry(end.node).engine;
      const auto port = std::ranges::find(engine.ports, from_.topology.nodes[end.node].hops[end.hop].port,
                                          &PortState::name);
      if (port != engine.ports.end()) ports.push_back({&engine, &*port});
    }
  }
  return ports;
}

std::vector<SwitchPort> Placer::PortsTo(NodeId at, const std::string& port, NodeId host) const {
  return PortsOf(FootprintOfLeg(from_.topology, from_.tables, at,
                                {.remote_ip = from_.topology.nodes[host].address, .port = port}));
}

// The host with most left, of those that the switch reaches by links that carry the group's packets; one of
// the group's own only if there is no other.
Result<Placer::ServerAt> Placer::ServerOf(const Group& group, const NetworkWay& way,
                                          const std::vector<SwitchOffer>& offers) const {
  const NodeId root = way.tree.inner.front().node;
  const std::vector<NodeId> of_ranks = HostsOf(group);
  const std::set<NodeId> own(of_ranks.begin(), of_ranks.end());
  const uint64_t bytes = LentBytes(way.path_mtu, AccumulatorMtus(group.spec), way.window.slots);
  const auto name = [this](const LendingHost& host) { return from_.topology.nodes[host.host].name; };
  std::vector<LendingHost> lend = from_.lending.Left();
  std::ranges::sort(lend, [&](const LendingHost& a, const LendingHost& b) {
    return std::tuple(own.contains(a.host), b.left_bytes, name(a)) <
           std::tuple(own.contains(b.host), a.left_bytes, name(b));
  });
  const LendingHost* most = nullptr;
  std::string unreached;
  for (const LendingHost& host : lend) {
    if (!host.port_is_up) {
      unreached += fmt::format("{}{}, whose port is down", unreached.empty() ? "" : ", ", name(host));
      continue;
    }
    const auto edge = from_.topology.nodes[host.host].misplaced.empty()
                          ? EdgeToHost(from_.topology, from_.tables, offers, root, host.host)
                          : std::nullopt;
    if (!edge) {
      unreached += (unreached.empty() ? "" : ", ") + name(host);
      continue;
    }
    const std::vector<SwitchPort> ports = PortsTo(root, edge->port, host.host);
    const auto narrow = std::ranges::find_if(ports, [&way](const SwitchPort& port) {
      return port.port->mtu != 0 && port.port->mtu < way.path_mtu + kAroundPayload;
    });
    if (narrow != ports.end()) {
      unreached += fmt::format("{}{}, for which {}:{} has an MTU of {}", unreached.empty() ? "" : ", ",
                               name(host), narrow->engine->name, narrow->port->name, narrow->port->mtu);
      continue;
    }
    if (host.left_bytes >= bytes) {
      return ServerAt{.host = host.host, .bytes = bytes, .of_a_rank = own.contains(host.host), .edge = *edge};
    }
    if (most == nullptr || host.left_bytes > most->left_bytes) most = &host;
  }
  Failure failure{ErrorCode::kNoResource, "", -1, ""};
  const std::string_view mode = FindMode(group.spec.mode)->name;
  if (lend.empty()) {
    failure.message = fmt::format("no host lends memory to mode {} (inchost --fallback)", mode);
  } else if (most == nullptr) {
    failure.message = fmt::format(
        "no host that lends memory to mode {} reaches {} by ordinary forwarding, with packets of {} bytes: "
        "{}",
        mode, from_.topology.nodes[root].name, way.path_mtu, unreached);
  } else {
    failure.message = fmt::format(
        "of the hosts that lend memory to mode {} {} has most left: {} bytes needed, {} of {} left "
        "(inchost --fallback)",
        mode, name(*most), bytes, most->left_bytes, most->all_bytes);
    failure.brief =
        MemoryWords(name(*most), bytes, most->left_bytes, most->all_bytes) + " (inchost --fallback)";
  }
  return failure;
}

}  // namespace epic::manager
