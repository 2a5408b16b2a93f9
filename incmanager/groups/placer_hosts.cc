// The way of a group between its hosts, and ways that are not what they were.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "incmanager/groups/placer.h"
#include "incmanager/policies/reach.h"
#include "protocol/bounds.h"

namespace epic::manager {

Failure Placer::Misplaced(const Group& group, ErrorCode code) const {
  for (const auto& [rank, member] : group.members) {
    const std::string& why = from_.topology.nodes[member.host].misplaced;
    if (!why.empty()) return RankFailure(code, rank, why);
  }
  return {};
}

Result<HostsWay> Placer::WayOfHosts(const Group& group, uint32_t path_mtu) const {
  if (group.spec.world_size > kMaxHostRanks) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("{} ranks are more than the {} that go by the hosts", group.spec.world_size,
                               kMaxHostRanks),
                   -1, ""};
  }
  std::vector<std::string> stopped(from_.topology.nodes.size());
  for (const NodeId node : from_.topology.switches) {
    // Between the hosts of a group that runs a former manager has heard them, if this one has not yet.
    const bool is_new = from_.switches.entry(node).state == SwitchState::kNeverSeen;
    if (!is_new || !IsInUse(group.phase)) stopped[node] = from_.switches.Stopped(node);
  }
  auto reach = ReachAmong(from_.topology, from_.tables, stopped, HostsOf(group));
  if (const auto* obstacle = std::get_if<Obstacle>(&reach)) {
    return SwitchFailure(ErrorCode::kNoTree,
                         obstacle->culprit == kNoNode ? "" : from_.topology.nodes[obstacle->culprit].name,
                         fmt::format("{} does not reach {}: {}", from_.topology.nodes[obstacle->from].name,
                                     from_.topology.nodes[obstacle->to].name, obstacle->why));
  }
  HostsWay way{std::move(std::get<Footprint>(reach)), 0};
  const auto mtu = PathMtuOf(group, way.footprint, path_mtu);
  if (!mtu.ok()) return mtu.failure();
  way.path_mtu = *mtu;
  return way;
}

Result<HostsWay> Placer::ChooseHostsWay(const Group& group, const Failure& refused) const {
  auto found = WayOfHosts(group, group.spec.path_mtu);
  if (refused.ok()) return found;
  // With a path MTU that the network's path refused, the largest that there is.
  if (!found.ok()) found = WayOfHosts(group, 0);
  if (!found.ok()) {
    Failure both = refused;
    both.message += fmt::format("; nor by the hosts: {}", found.failure().message);
    return both;
  }
  return found;
}

// Also of a group that was to go by the network.
Failure Placer::RefusesHosts(const Group& group, uint32_t path_mtu) const {
  if (group.spec.policy != Policy::kTemporal) return {};
  const auto way = WayOfHosts(group, path_mtu);
  if (way.ok()) return {};
  Failure failure = way.failure();
  failure.message =
      fmt::format("policy temporal: calls that find their memory taken go between the hosts, and {}",
                  way.failure().message);
  return failure;
}

// A switch of an earlier version would not pass the control packets on.
std::string Placer::WhyNotByHosts(const Group& group) const {
  if (group.spec.path == Path::kNetwork && group.spec.policy != Policy::kTemporal)
    return fmt::format("path network was asked for by {}", group.path_asked_by);
  for (const ContextPlan& context : group.plan.contexts) {
    if (from_.switches.entry(context.node).engine.by_hosts) continue;
    return fmt::format("{} does not know of calls between hosts",
                       from_.switches.NameAndVersion(context.node));
  }
  const auto way = WayOfHosts(group, group.path_mtu);
  return way.ok() ? "" : way.failure().message;
}

bool Placer::LinkCarriesSuperFrames(LinkEnd link) const {
  const auto carries = [this](LinkEnd end) {
    const Hop& hop = from_.topology.nodes[end.node].hops[end.hop];
    if (hop.next_hop_mac) return false;
    if (!from_.topology.IsSwitch(end.node)) return true;
    const auto& ports = from_.switches.entry(end.node).engine.ports;
    const auto port = std::ranges::find(ports, hop.port, &PortState::name);
    return port != ports.end() && port->super_frames;
  };
  return carries(link) && carries(from_.topology.Across(link));
}

bool Placer::CarriesSuperFrames(NodeId from, NodeId to) const {
  if (from == to) return false;
  Footprint way;
  Cross(from_.topology, from_.tables, from_.topology.AttachedEnd(from), to, &way);
  return std::ranges::all_of(way.links, [this](LinkEnd link) { return LinkCarriesSuperFrames(link); });
}

Failure Placer::Moved(const Footprint& footprint) const {
  bool carries = true;
  for (const LinkEnd& link : footprint.links) {
    const LinkEnd there = from_.topology.Across(link);
    carries &= from_.topology.Carries(link);
    if (from_.topology.nodes[link.node].hops[link.hop].state != LinkState::kGone) continue;
    const LinkEnd host = from_.topology.IsSwitch(link.node) ? there : link;
    const LinkEnd at = from_.topology.IsSwitch(link.node) ? link : there;
    std::string why = "another is at one of its ports, or a port is gone";
    if (!from_.topology.IsSwitch(host.node) && from_.topology.AttachedEnd(host.node) != host) {
      const LinkEnd now_at = from_.topology.Across(from_.topology.AttachedEnd(host.node));
      why = fmt::format("{} has moved to {}", from_.topology.nodes[host.node].name,
                        from_.topology.Describe(now_at));
    }
    return SwitchFailure(ErrorCode::kLinkLost, from_.topology.nodes[at.node].name,
                         fmt::format("the link between {} and {} is lost: {}", from_.topology.Describe(link),
                                     from_.topology.Describe(there), why));
  }
  // What is broken may come back, or is judged.
  if (!carries) return {};
  for (const Way& way : footprint.ways) {
    if (from_.tables[way.at].HopTo(way.to) == way.hop) continue;
    const std::string& name = from_.topology.nodes[way.at].name;
    return SwitchFailure(
        ErrorCode::kLinkLost, name,
        fmt::format("the way from {} to {} has moved from {}: another group relies on that", name,
                    from_.topology.nodes[way.to].name, from_.topology.Describe({way.at, way.hop})));
  }
  return {};
}

}  // namespace epic::manager
