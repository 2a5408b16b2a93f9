// Fallback servers of groups whose payloads lie in a pool (docs/PROTOCOL-CONTROL.md, section 7.5).
#include <fmt/format.h>

#include <utility>

#include "incmanager/groups/group_life.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {

// Its plan has been made, and what it takes of links and switches been taken.
void GroupLife::AskForServer(Nanos now, const NetworkWay& way, Group* group) {
  const ContextPlan& context = group->plan.contexts.front();
  const EndpointPlan& leg = *context.server;
  group->server = way.server;
  group->server->footprint = FootprintOfLeg(*topology_, forwarding_, context.node, leg);
  lending_.Take(group->server->host, group->server->bytes);
  group->server_due = now + kServerMadeWithin;
  SetDue(group);
  const Node& at = topology_->nodes[context.node];
  world_->Note(fmt::format("group {}: its fallback server is {}, {}{}", group->spec.name,
                           topology_->nodes[group->server->host].name, BytesWords(group->server->bytes),
                           group->server->of_a_rank ? ", a host of its own: no other lends enough" : ""));
  world_->MakeServer(group->server->host, {.group_id = group->id,
                                           .generation = group->generation,
                                           .name = group->spec.name,
                                           .world_size = context.world_size,
                                           .path_mtu = context.path_mtu,
                                           .message_packets = context.message_packets,
                                           .slots = context.slots,
                                           .accumulator_mtus = context.accumulator_mtus,
                                           .bytes = group->server->bytes,
                                           .switch_name = at.name,
                                           .switch_ip = at.address,
                                           .switch_qpn = leg.local_qpn,
                                           .switch_psn = leg.out_psn,
                                           .server_psn = leg.in_psn,
                                           .super_frames = leg.super_frames});
}

void GroupLife::OnServerMade(Nanos now, NodeId host, uint64_t group_id, uint32_t generation,
                             const ServerAnswer& answer) {
  const auto found = groups_.find(group_id);
  Group* const group = found == groups_.end() ? nullptr : &found->second;
  const bool awaited = group != nullptr && group->generation == generation && group->server &&
                       group->server->host == host && group->server_due != kNever;
  if (!awaited) {
    // One that is still to be removed is, with its group.
    if (answer.refused.ok() && !MeansServer(host, group_id, generation))
      world_->RemoveServer(host, group_id, generation);
    return;
  }
  if (!answer.refused.ok()) return RefuseNetwork(now, group, answer.refused);
  ContextPlan& context = group->plan.contexts.front();
  if (answer.ip != context.server->remote_ip || answer.qpn == 0) {
    return RefuseNetwork(
        now, group,
        {ErrorCode::kInternal,
         fmt::format("the fallback server {} has made an end that nobody has asked for: {}, QPN {:#x}",
                     topology_->nodes[host].name, ToString(answer.ip), answer.qpn),
         -1, ""});
  }
  context.server->remote_qpn = answer.qpn;
  context.server->super_frames &= answer.super_frames;
  group->server->made = true;
  group->server_due = kNever;
  SetDue(group);
  world_->Install(context.node, context);
}

void GroupLife::OnServerSilent(Nanos now, Group* group) {
  RefuseNetwork(now, group,
                {ErrorCode::kFallbackLost,
                 fmt::format("{}, the group's fallback server, has not answered within {} s",
                             topology_->nodes[group->server->host].name, kServerMadeWithin / kSecond),
                 -1, ""});
}

void GroupLife::OnServerEnded(Nanos now, NodeId host, uint64_t group_id, uint32_t generation,
                              const std::string& why) {
  const auto found = groups_.find(group_id);
  if (found == groups_.end()) return;
  Group& group = found->second;
  if (group.generation != generation || !group.server || group.server->host != host ||
      group.plan.contexts.empty() || group.removal_started)
    return;
  FailOrRefuse(
      now, &group,
      {ErrorCode::kFallbackLost,
       fmt::format("the fallback server on {} has ended: {}", topology_->nodes[host].name, why), -1, ""});
}

void GroupLife::OnStoodStill(Nanos duration) {
  for (auto& [id, group] : groups_) {
    if (group.server_due == kNever) continue;
    group.server_due += duration;
    SetDue(&group);
  }
}

bool GroupLife::MeansServer(NodeId host, uint64_t group_id, uint32_t generation) const {
  const auto found = groups_.find(group_id);
  return found != groups_.end() && found->second.generation == generation && found->second.server &&
         found->second.server->host == host;
}

void GroupLife::GiveBackServer(Group* group) {
  if (!group->server) return;
  world_->RemoveServer(group->server->host, group->id, group->generation);
  lending_.GiveBack(group->server->host, group->server->bytes);
  group->server.reset();
}

Failure GroupLife::LegCut(const Group& group, const std::string& what) const {
  const std::string& host = topology_->nodes[group.server->host].name;
  return {ErrorCode::kFallbackLost, fmt::format("{}, the group's fallback server, is lost: {}", host, what),
          -1, ""};
}

}  // namespace epic::manager
