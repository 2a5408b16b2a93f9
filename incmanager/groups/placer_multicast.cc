// Whether the ranks of a group can have multicast (docs/PROTOCOL-MULTICAST.md, section 6).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "incmanager/groups/placer.h"
#include "incmanager/policies/group_ports.h"

namespace epic::manager {
namespace {

Failure NoMulticast(uint32_t rank, std::string why) {
  return RankFailure(ErrorCode::kUnsupported, rank, std::move(why));
}

}  // namespace

Failure Placer::RefusesMulticastAmong(const Group& group) const {
  const auto refuses = [](std::string why) {
    return Failure{ErrorCode::kUnsupported, std::move(why), -1, ""};
  };
  if (!from_.options.multicast)
    return refuses("this manager gives out no addresses for it (serve --multicast none)");
  // What is lost is fetched from rank to rank.
  if (group.path_taken == Path::kNetwork && !group.hosts_reach)
    return refuses(fmt::format("its hosts make no connections, by which what is lost is fetched: {}",
                               group.path_reason));
  const FloodTree flood(from_.topology, from_.tables);
  const std::vector<NodeId> hosts = HostsOf(group);
  if (const auto obstacle = flood.FindObstacle(hosts)) {
    return refuses(fmt::format("what {} sends by it does not reach {}: {}",
                               from_.topology.nodes[obstacle->from].name,
                               from_.topology.nodes[obstacle->to].name, obstacle->why));
  }
  // The links that are flooded may be others than those of the hosts' connections.
  Footprint flooded;
  for (const LinkEnd link : flood.LinksAmong(hosts))
    flooded.links.insert(std::min(link, from_.topology.Across(link)));
  const auto mtu = PathMtuOf(group, flooded, group.path_mtu);
  return mtu.ok() ? Failure{} : mtu.failure();
}

std::string Placer::WhyFlooded(const Group& group) const {
  for (const LinkEnd link : FloodTree(from_.topology, from_.tables).LinksAmong(HostsOf(group))) {
    for (const LinkEnd& end : {link, from_.topology.Across(link)}) {
      if (!from_.topology.IsSwitch(end.node)) continue;
      const EngineReport& engine = from_.switches.entry(end.node).engine;
      const std::string& port = from_.topology.nodes[end.node].hops[end.hop].port;
      if (!engine.group_ports) {
        return fmt::format("{} does not know of the ports of groups, and floods what is sent to one",
                           from_.switches.NameAndVersion(end.node));
      }
      const auto at = std::ranges::find(engine.ports, port, &PortState::name);
      if (at == engine.ports.end()) continue;
      const auto bridge = std::ranges::find(at->neighbours, NeighbourKind::kBridge, &Neighbour::kind);
      if (bridge == at->neighbours.end()) continue;
      return fmt::format("a bridge that is none of ours{} is at {}:{}",
                         bridge->name.empty() ? "" : " (" + bridge->name + ")",
                         from_.topology.nodes[end.node].name, port);
    }
  }
  return {};
}

Failure Placer::RefusesMulticast(const Group& group) const {
  const auto on = [this](const Member& member) { return from_.topology.nodes[member.host].name; };
  const bool is_asked = AsksForMulticast(group);
  std::map<NodeId, std::vector<const Member*>> by_host;
  for (const auto& [rank, member] : group.members) {
    const JoinRequest& join = member.join;
    const bool is_deaf = join.datagram_reach == DatagramReach::kNobodys;
    // Who only would take it makes no queue pair for nothing.
    const bool takes_none = join.datagrams_offered ? is_asked : join.datagram_qpn == 0;
    const bool is_earlier = join.datagram_qpn != 0 && join.datagram_receives == 0;
    if (takes_none || is_earlier)
      return NoMulticast(
          rank, fmt::format("rank {} on {} does not ask for it, or its library is an earlier one", rank,
                            on(member)));
    if (is_deaf || join.datagram_qpn == 0)
      return NoMulticast(rank,
                         fmt::format("the NIC of rank {} on {} receives no multicast", rank, on(member)));
    // A slice has a chunk of each part at least.
    if (join.datagram_receives < group.spec.world_size) {
      return NoMulticast(
          rank, fmt::format("rank {} on {} has receives for {} datagrams, and there are {} ranks", rank,
                            on(member), join.datagram_receives, group.spec.world_size));
    }
    by_host[member.host].push_back(&member);
  }
  for (const auto& [host, members] : by_host) {
    if (members.size() == 1) continue;
    if (!is_asked) {
      // That is not what it was measured with.
      return NoMulticast(
          members[1]->join.rank,
          fmt::format("ranks {} and {} are both on {}, and get each other's datagrams by another "
                      "way than its link",
                      members[0]->join.rank, members[1]->join.rank, on(*members[0])));
    }
    for (const Member* const member : members) {
      if (member->join.datagram_reach == DatagramReach::kAll) continue;
      const Member* const other = members[member == members[0] ? 1 : 0];
      return NoMulticast(
          member->join.rank,
          fmt::format("the NIC of rank {} on {} does not receive what rank {} on the same host sends by it",
                      member->join.rank, on(*member), other->join.rank));
    }
  }
  if (Failure refused = RefusesMulticastAmong(group); !refused.ok()) return refused;
  std::string why = is_asked ? "" : WhyFlooded(group);
  return why.empty() ? Failure{} : Failure{ErrorCode::kUnsupported, std::move(why), -1, ""};
}

bool Placer::MulticastCarriesSuperFrames(const Group& group) const {
  std::vector<NodeId> hosts = HostsOf(group);
  const auto takes = [](const auto& member) { return member.second.join.super_frames; };
  if (!std::ranges::all_of(group.members, takes)) return false;
  const std::vector<LinkEnd> links = FloodTree(from_.topology, from_.tables).LinksAmong(hosts);
  if (!std::ranges::all_of(links, [this](LinkEnd link) { return LinkCarriesSuperFrames(link); }))
    return false;
  // On one and the same host nothing does.
  std::ranges::sort(hosts);
  return std::ranges::adjacent_find(hosts) == hosts.end();
}

}  // namespace epic::manager
