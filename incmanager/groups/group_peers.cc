// What ranks tell each other of the connections between them.
#include <fmt/format.h>

#include <algorithm>

#include "base/psn.h"
#include "incmanager/groups/group_table.h"
#include "incmanager/policies/reach.h"

namespace epic::manager {
namespace {

// What is wrong with what a rank says of its end; empty if nothing is.
std::string WrongWith(const Group& group, const Member& member, const PeerEnd& end) {
  if (group.path_taken != Path::kHosts && !group.hosts_reach)
    return fmt::format("its hosts make no connections: {}", group.path_reason);
  if (std::string wrong = WrongRank(end.rank, group.spec.world_size); !wrong.empty()) return wrong;
  if (end.rank == member.join.rank) return fmt::format("rank: {} is its own", end.rank);
  if (std::string wrong = WrongQpn(end.qpn); !wrong.empty()) return wrong;
  if (end.psn > Psn::kMask) return fmt::format("psn: {:#x} is not below 2^24", end.psn);
  const auto before = member.ends.find(end.rank);
  if (before == member.ends.end()) return {};
  if (before->second.ready) return fmt::format("ready: said already to rank {}", end.rank);
  if (!end.ready || before->second.qpn != end.qpn || before->second.psn != end.psn)
    return fmt::format("qpn: there is one for rank {} already", end.rank);
  return {};
}

}  // namespace

// Whether all ends of all links from one host to another carry super-frames, the hosts' own left aside: those
// speak for themselves. On one and the same host nothing does.
bool GroupTable::CarriesSuperFrames(NodeId from, NodeId to) const {
  if (from == to) return false;
  Footprint way;
  Cross(*topology_, forwarding_, topology_->AttachedEnd(from), to, &way);
  const auto carries = [this](LinkEnd end) {
    const Hop& hop = topology_->nodes[end.node].hops[end.hop];
    if (hop.next_hop_mac) return false;
    if (!topology_->IsSwitch(end.node)) return true;
    const auto& ports = switches_->entry(end.node).engine.ports;
    const auto port = std::ranges::find(ports, hop.port, &PortState::name);
    return port != ports.end() && port->super_frames;
  };
  return std::ranges::all_of(way.links,
                             [&](LinkEnd end) { return carries(end) && carries(topology_->Across(end)); });
}

void GroupTable::OnPeer(Nanos now, SessionId session, const PeerEnd& end) {
  Member* member = nullptr;
  Group* group = OfSession(session, &member);
  if (group == nullptr || member->left) return;
  if (!IsInUse(group->phase)) return;
  const uint32_t rank = member->join.rank;
  if (const std::string wrong = WrongWith(*group, *member, end); !wrong.empty()) {
    return FailGroup(now, group,
                     RankFailure(ErrorCode::kInvalidArgument, rank,
                                 fmt::format("rank {} of group {} spoke of a connection that cannot be: {}",
                                             rank, group->spec.name, wrong)));
  }
  if (const Failure no_way = CrossHostsWay(group); !no_way.ok()) return FailGroup(now, group, no_way);
  member->ends[end.rank] = end;
  const Member& peer = group->members.at(end.rank);
  if (!peer.open || peer.left) return;
  PeerEnd told = end;
  told.rank = rank;
  told.ip = member->join.ip;
  told.super_frames =
      peer.join.super_frames && member->join.super_frames && CarriesSuperFrames(peer.host, member->host);
  world_->Send(peer.session, told);
}

}  // namespace epic::manager
