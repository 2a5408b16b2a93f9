// What ranks say of the connections between them, and who is told it.
#include <fmt/format.h>

#include <utility>

#include "base/psn.h"
#include "incmanager/groups/group_life.h"

namespace epic::manager {
namespace {

// Of an end of the ring by which lost datagrams are fetched.
std::string WrongFetches(const Group& group, const Member& member, const PeerEnd& end) {
  if (!group.multicast) return "fetches: the group has no multicast";
  const uint32_t rank = member.join.rank, size = group.spec.world_size;
  if (end.rank == (rank + 1) % size || end.rank == (rank + size - 1) % size) return {};
  return fmt::format("fetches: rank {} is no neighbour of rank {} on the ring", end.rank, rank);
}

// What is wrong with what a rank says of its end; empty if nothing is.
std::string WrongWith(const Group& group, const Member& member, const PeerEnd& end) {
  if (group.path_taken != Path::kHosts && !group.hosts_reach)
    return fmt::format("its hosts make no connections: {}", group.path_reason);
  if (std::string wrong = WrongRank(end.rank, group.spec.world_size); !wrong.empty()) return wrong;
  if (end.rank == member.join.rank) return fmt::format("rank: {} is its own", end.rank);
  if (std::string wrong = end.fetches ? WrongFetches(group, member, end) : ""; !wrong.empty()) return wrong;
  if (std::string wrong = WrongQpn(end.qpn); !wrong.empty()) return wrong;
  if (end.psn > Psn::kMask) return fmt::format("psn: {:#x} is not below 2^24", end.psn);
  const auto before = member.ends.find({end.rank, end.fetches});
  if (before == member.ends.end()) return {};
  // Who has been away says all again.
  if (member.returned && before->second.qpn == end.qpn && before->second.psn == end.psn) return {};
  if (before->second.ready) return fmt::format("ready: said already to rank {}", end.rank);
  if (!end.ready || before->second.qpn != end.qpn || before->second.psn != end.psn)
    return fmt::format("qpn: there is one for rank {} already", end.rank);
  return {};
}

}  // namespace

// With its hosts' first connection a group that goes through switches also hangs on what is between hosts.
// Errors: those of WayOfHosts, of what has been lost since the group was placed.
Failure GroupLife::CrossHostsWay(Group* group) const {
  if (group->hosts_connect) return {};
  auto found = placer_.WayOfHosts(*group, group->path_mtu);
  if (!found.ok()) return found.failure();
  Footprint& way = found->footprint;
  group->footprint.switches.merge(way.switches);
  group->footprint.links.merge(way.links);
  group->footprint.ways_of_hosts = std::move(way.ways_of_hosts);
  group->hosts_connect = true;
  return {};
}

void GroupLife::OnPeer(Nanos now, SessionId session, const PeerEnd& end) {
  const auto [group, member] = OfSession(session);
  if (group == nullptr || member->left || !IsInUse(group->phase)) return;
  const uint32_t rank = member->join.rank;
  if (const std::string wrong = WrongWith(*group, *member, end); !wrong.empty()) {
    return FailGroup(now, group,
                     RankFailure(ErrorCode::kInvalidArgument, rank,
                                 fmt::format("rank {} of group {} spoke of a connection that cannot be: {}",
                                             rank, group->spec.name, wrong)));
  }
  if (const Failure no_way = CrossHostsWay(group); !no_way.ok()) return FailGroup(now, group, no_way);
  PeerEnd& kept = member->ends[{end.rank, end.fetches}];
  const bool was_ready = kept.ready;
  kept = end;
  kept.ready |= was_ready;
  PassOn(*group, *member, end);
}

void GroupLife::PassOn(const Group& group, const Member& from, PeerEnd end) {
  const Member& peer = group.members.at(end.rank);
  if (!peer.open || peer.left) return;  // one that is away is told when it is back
  end.rank = from.join.rank;
  end.ip = from.join.ip;
  end.super_frames = peer.join.super_frames && from.join.super_frames &&
                     placer_.CarriesSuperFrames(peer.host, from.host);
  world_->Send(peer.session, end);
}

}  // namespace epic::manager
