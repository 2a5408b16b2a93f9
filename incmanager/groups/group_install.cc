// The way from "all ranks are there" to "running".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "incmanager/groups/group_table.h"
#include "incmanager/policies/memory.h"
#include "incmanager/text.h"
#include "protocol/control.h"

namespace epic::manager {
namespace {

// The refusal in few words, of what is gone round; empty: there are no fewer.
std::string BriefOf(const std::string& name, const InstallAnswer& answer) {
  if (!answer.silent.empty()) return fmt::format("switch {}: {}", name, answer.silent);
  if (!answer.shortage) return {};
  return MemoryWords(name, answer.shortage->needed, answer.shortage->left, answer.shortage->all);
}

}  // namespace

Result<Window> GroupTable::ChooseGroupWindow(const Group& group, const Tree& tree, uint32_t path_mtu) const {
  WindowRequest request;
  request.path_mtu = path_mtu;
  request.rate_gbps = tree.rate_gbps;
  request.round_trip_us = 2 * tree.delay_us;
  request.crossings = 2 * tree.depth_links - 1;
  request.window_packets = options_.window_packets;
  request.message_packets = group.spec.message_packets;
  request.window_messages = group.spec.window_messages;
  request.max_bytes = group.spec.max_bytes;
  request.inline_bytes = group.spec.inline_bytes.value_or(options_.inline_bytes);
  for (const auto& [rank, member] : group.members) {
    const uint32_t packets = member.join.max_outstanding;
    if (packets != 0 && (request.nic_packets == 0 || packets < request.nic_packets))
      request.nic_packets = packets;
  }
  return ChooseWindow(request);
}

Failure GroupTable::InstallInNetwork(Nanos now, Group* group) {
  std::vector<JoinRequest> ranks;
  for (const auto& [rank, member] : group->members) ranks.push_back(member.join);
  const SwitchModes switch_modes = ModesOf(group->spec);
  const auto way = WayOfNetwork(*group);
  if (!way.ok()) return way.failure();
  const Tree& built = way->tree;
  const Window& chosen = way->window;
  group->path_mtu = way->path_mtu;
  if (const Failure failure = RefusesHosts(*group); !failure.ok()) return failure;
  group->message_packets = chosen.message_packets;
  group->window_messages = chosen.window_messages;
  group->start_messages = chosen.start_messages;
  group->slots = chosen.slots;
  // What a message takes.
  const uint32_t most = chosen.message_packets * group->path_mtu - static_cast<uint32_t>(kControlBytes);
  group->inline_bytes = std::min(group->spec.inline_bytes.value_or(options_.inline_bytes), most);
  group->window_reason = chosen.reason;

  ContextPlan common;
  common.group_id = group->id;
  common.generation = group->generation;
  common.name = group->spec.name;
  common.mode = group->spec.mode;
  common.reproducible = group->spec.reproducible;
  common.narrow = IsNarrow(group->spec);
  common.world_size = group->spec.world_size;
  common.path_mtu = group->path_mtu;
  common.message_packets = chosen.message_packets;
  common.window_messages = chosen.window_messages;
  common.start_messages = chosen.start_messages;
  common.slots = chosen.slots;
  common.prompt_ns = options_.prompt_ns;
  common.inline_bytes = group->inline_bytes;
  const std::optional<uint32_t> start_psn =
      group->spec.start_psn ? group->spec.start_psn : options_.start_psn;
  SuperFramePorts super_frame_ports;
  for (const TreeInner& inner : built.inner) {
    for (const PortState& port : switches_->entry(inner.node).engine.ports) {
      const auto end = topology_->EndAt(inner.node, port.name);
      if (end && port.super_frames) super_frame_ports.insert(*end);
    }
  }
  auto plan = MakePlan(*topology_, built, common, switch_modes, ranks, way->borne, super_frame_ports,
                       LowBytesOf(*way), start_psn, now, &random_, &qpns_);
  if (!plan.ok()) return plan.failure();
  group->plan = *std::move(plan);
  group->path_taken = Path::kNetwork;
  TellHostsReach(group);
  TellAbilities(group);
  if (const auto& half = group->plan.half_super_frames; !half.empty()) {
    world_->Note(
        fmt::format("group {}: single frames on links of which one end takes super-frames and the other does "
                    "not: {} (ethtool -k at both; docs/DEPLOY.md, \"Super-frames\")",
                    group->spec.name, fmt::join(half, "; ")));
  }
  TellRates(*topology_, forwarding_, &group->plan);
  group->footprint = FootprintOf(*topology_, forwarding_, group->plan);
  group->placed = now;
  Claim(group, *way);
  TellBlocks(group);
  group->width_kbps = way->width_kbps;
  for (const ContextPlan& context : group->plan.contexts) group->installing.insert(context.node);
  for (const ContextPlan& context : group->plan.contexts) world_->Install(context.node, context);
  return {};
}

void GroupTable::OnInstalled(Nanos now, NodeId node, uint64_t group_id, const InstallAnswer& answer) {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || found->second.phase != GroupPhase::kInstalling) return;
  Group& group = found->second;
  if (const Status& status = answer.status; !status.ok()) {
    const std::string& name = topology_->nodes[node].name;
    const std::string message(status.message().data(), status.message().size());
    ErrorCode code = ErrorCode::kInternal;
    if (status.code() == StatusCode::kResourceExhausted) code = ErrorCode::kNoResource;
    if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded) {
      code = ErrorCode::kSwitchLost;
    }
    Failure failure = SwitchFailure(code, name, fmt::format("switch {}: {}", name, message));
    failure.brief = BriefOf(name, answer);
    return RefuseNetwork(now, &group, failure);
  }
  for (ContextPlan& context : group.plan.contexts) {
    if (context.node == node) context.arena_bytes = answer.arena_bytes;
  }
  ClaimAsAnswered(&group, node, answer.arena_bytes);
  group.installing.erase(node);
  if (group.installing.empty()) Run(&group);
}

void GroupTable::Run(Group* group) {
  group->phase = GroupPhase::kRunning;
  const std::string running =
      fmt::format("group {}: running with {}", group->spec.name, Counted(group->spec.world_size, "rank", "ranks"));
  if (group->path_taken == Path::kHosts) {
    world_->Note(
        fmt::format("{} by the hosts, path MTU {}: {}", running, group->path_mtu, group->path_reason));
  } else {
    world_->Note(fmt::format("{} over {}, root {}, path MTU {}, M {}, W {}", running,
                             Counted(group->plan.contexts.size(), "switch", "switches"), topology_->nodes[group->plan.contexts[0].node].name,
                             group->path_mtu, group->message_packets, group->window_messages));
  }
  for (const auto& [rank, member] : group->members) world_->Send(member.session, group->plan.replies[rank]);
}

}  // namespace epic::manager
