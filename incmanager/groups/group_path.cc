// Which path a group takes, through switches or between its hosts, and why (docs/DEPLOY.md, "Which path a
// group takes").
#include <fmt/format.h>

#include <utility>

#include "incmanager/groups/group_table.h"
#include "protocol/bounds.h"

namespace epic::manager {

void GroupTable::Install(Nanos now, Group* group) {
  group->phase = GroupPhase::kInstalling;
  if (const Failure failure = Misplaced(*group, ErrorCode::kNoTree); !failure.ok())
    return FailGroup(now, group, failure);
  if (group->spec.path == Path::kHosts) {
    group->path_reason = fmt::format("asked for by {}", group->path_asked_by);
    return GoByHosts(now, group, {});
  }
  if (const Failure failure = InstallInNetwork(now, group); !failure.ok()) RefuseNetwork(now, group, failure);
}

// No tree, or a switch that does not take its part of it: the group fails, or goes by the hosts. Then nothing
// of the tree remains, and what switches have of it already is removed.
void GroupTable::RefuseNetwork(Nanos now, Group* group, const Failure& failure) {
  if (group->spec.path == Path::kNetwork) return FailGroup(now, group, failure);
  group->refused = std::exchange(group->plan, {});
  for (const ContextPlan& context : group->refused.contexts) {
    group->removing_refused.insert(context.node);
    world_->Remove(context.node, group->id, group->generation);
  }
  group->installing.clear();
  group->path_taken = Path::kUnspecified;
  group->hosts_reach = false;
  group->path_mtu = group->message_packets = group->window_messages = group->start_messages = 0;
  group->slots = group->inline_bytes = 0;
  group->width_kbps = 0;
  group->window_reason.clear();
  group->lacks.clear();
  group->path_reason = failure.Brief();
  GoByHosts(now, group, failure);
}

Result<GroupTable::HostsWay> GroupTable::ChooseHostsWay(const Group& group, const Failure& refused) const {
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

// refused: the network's path; none if that was not tried.
void GroupTable::GoByHosts(Nanos now, Group* group, const Failure& refused) {
  auto found = ChooseHostsWay(*group, refused);
  if (!found.ok()) return FailGroup(now, group, found.failure());
  group->hosts_connect = true;
  group->path_taken = Path::kHosts;
  group->path_mtu = found->path_mtu;
  group->footprint = std::move(found->footprint);
  group->placed = now;
  JoinedReply reply;
  reply.group_id = group->id;
  reply.generation = group->generation;
  reply.mode = Mode::kUnspecified;
  reply.path_mtu = group->path_mtu;
  reply.path = Path::kHosts;
  reply.path_reason = group->path_reason;
  reply.scale = group->spec.scale;
  group->plan.replies.assign(group->spec.world_size, reply);
  Run(group);
}

Result<GroupTable::HostsWay> GroupTable::WayOfHosts(const Group& group, uint32_t path_mtu) const {
  if (group.spec.world_size > kMaxHostRanks) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("{} ranks are more than the {} that go by the hosts", group.spec.world_size,
                               kMaxHostRanks),
                   -1, ""};
  }
  std::vector<std::string> stopped(topology_->nodes.size());
  for (const NodeId node : topology_->switches) stopped[node] = switches_->Stopped(node);
  auto reach = ReachAmong(*topology_, forwarding_, stopped, HostsOf(group));
  if (const auto* obstacle = std::get_if<Obstacle>(&reach)) {
    return SwitchFailure(ErrorCode::kNoTree,
                         obstacle->culprit == kNoNode ? "" : topology_->nodes[obstacle->culprit].name,
                         fmt::format("{} does not reach {}: {}", topology_->nodes[obstacle->from].name,
                                     topology_->nodes[obstacle->to].name, obstacle->why));
  }
  HostsWay way{std::move(std::get<Footprint>(reach)), 0};
  const auto mtu = ChooseHostsMtu(group, way.footprint, path_mtu);
  if (!mtu.ok()) return mtu.failure();
  way.path_mtu = *mtu;
  return way;
}

// Of a group whose switches may lack what a call needs: whether its hosts may do that call, and if not, why.
// Its path MTU is that of all its connections. A switch of an earlier version would not pass the control
// packets on.
void GroupTable::TellHostsReach(Group* group) const {
  group->hosts_reach = false;
  if (group->spec.path == Path::kNetwork && group->spec.policy != Policy::kTemporal) {
    group->path_reason = fmt::format("path network was asked for by {}", group->path_asked_by);
    return;
  }
  for (const ContextPlan& context : group->plan.contexts) {
    if (switches_->entry(context.node).engine.by_hosts) continue;
    group->path_reason =
        fmt::format("{} does not know of calls between hosts", switches_->NameAndVersion(context.node));
    return;
  }
  const auto way = WayOfHosts(*group, group->path_mtu);
  group->hosts_reach = way.ok();
  group->path_reason = way.ok() ? "" : way.failure().message;
}

// With its hosts' first connection a group that goes through switches also hangs on what is between hosts.
// Errors: those of WayOfHosts, of what has been lost since the group was placed.
Failure GroupTable::CrossHostsWay(Group* group) const {
  if (group->hosts_connect) return {};
  auto found = WayOfHosts(*group, group->path_mtu);
  if (!found.ok()) return found.failure();
  Footprint& way = found->footprint;
  group->footprint.switches.merge(way.switches);
  group->footprint.links.merge(way.links);
  group->footprint.ways_of_hosts = std::move(way.ways_of_hosts);
  group->hosts_connect = true;
  return {};
}

}  // namespace epic::manager
