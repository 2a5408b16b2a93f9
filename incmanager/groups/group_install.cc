// From "all ranks are there" to "running": through switches, or between the hosts where these refuse.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/policies/memory.h"
#include "protocol/context_memory.h"
#include "protocol/control.h"

namespace epic::manager {
namespace {

// The refusal in few words, of what is gone round; empty: there are no fewer.
std::string BriefOf(const std::string& name, const InstallAnswer& answer) {
  if (!answer.silent.empty()) return fmt::format("switch {}: {}", name, answer.silent);
  if (!answer.shortage) return {};
  return MemoryWords(name, answer.shortage->needed, answer.shortage->left, answer.shortage->all);
}

Failure FailureOf(const std::string& name, const InstallAnswer& answer) {
  const Status& status = answer.status;
  const std::string message(status.message().data(), status.message().size());
  ErrorCode code = ErrorCode::kInternal;
  if (status.code() == StatusCode::kResourceExhausted) code = ErrorCode::kNoResource;
  if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded)
    code = ErrorCode::kSwitchLost;
  Failure failure = SwitchFailure(code, name, fmt::format("switch {}: {}", name, message));
  failure.brief = BriefOf(name, answer);
  return failure;
}

// What all its contexts have alike.
ContextPlan ContextOf(const Group& group, uint64_t prompt_ns) {
  ContextPlan out{{.group_id = group.id,
                   .generation = group.generation,
                   .name = group.spec.name,
                   .mode = group.spec.mode,
                   .world_size = group.spec.world_size,
                   .path_mtu = group.path_mtu,
                   .message_packets = group.window.message_packets,
                   .window_messages = group.window.window_messages,
                   .slots = group.window.slots,
                   .reproducible = group.spec.reproducible,
                   .accumulator_mtus = AccumulatorMtus(group.spec),
                   .prompt_ns = static_cast<Nanos>(prompt_ns),
                   .priority_limit = group.spec.priority_limit}};
  out.start_messages = group.window.start_messages;
  out.inline_bytes = group.inline_bytes;
  return out;
}

// What it takes of links and switches by its plan.
Allocation AllocationOf(const Group& group, const NetworkWay& way) {
  Allocation allocation{.links = {group.footprint.links.begin(), group.footprint.links.end()},
                        .switches = {},
                        .reserved_kbps = group.spec.rate_kbps,
                        .exclusive = group.spec.policy == Policy::kEdt,
                        .tenant = group.spec.tenant,
                        .share = ShareOf(group.spec)};
  for (size_t i = 0; i < group.plan.contexts.size(); ++i) {
    const ContextPlan& context = group.plan.contexts[i];
    Allocation::Region region{context.node, RoundUpToArena(way.bytes[i])};
    if (!way.blocks.empty()) {
      region.bytes = RoundUpToArena(way.blocks[i].bytes);
      region.block = way.blocks[i].number;
      region.low_byte = LowByteOf(context);
    }
    allocation.switches.push_back(region);
  }
  return allocation;
}

}  // namespace

void GroupLife::Install(Nanos now, Group* group) {
  CountWaiting(*group, -1);
  group->phase = GroupPhase::kInstalling;
  if (const Failure failure = placer_.Misplaced(*group, ErrorCode::kNoTree); !failure.ok())
    return FailGroup(now, group, failure);
  if (group->spec.path == Path::kHosts) {
    group->path_reason = fmt::format("asked for by {}", group->path_asked_by);
    return GoByHosts(now, group, {});
  }
  if (const Failure failure = InstallInNetwork(now, group); !failure.ok()) RefuseNetwork(now, group, failure);
}

Failure GroupLife::InstallInNetwork(Nanos now, Group* group) {
  const auto way = placer_.WayOfNetwork(*group);
  if (!way.ok()) return way.failure();
  group->path_mtu = way->path_mtu;
  if (const Failure refused = placer_.RefusesHosts(*group, way->path_mtu); !refused.ok()) return refused;
  group->window = way->window;
  // What a message takes.
  const uint32_t most = way->window.message_packets * way->path_mtu - static_cast<uint32_t>(kControlBytes);
  group->inline_bytes = std::min(group->spec.inline_bytes.value_or(options_.inline_bytes), most);

  std::vector<JoinRequest> ranks;
  for (const auto& [rank, member] : group->members) ranks.push_back(member.join);
  ContextPlan common = ContextOf(*group, options_.prompt_ns);
  common.server = way->leg;
  auto plan = MakePlan(*topology_, way->tree, common, way->modes, ranks, way->borne, way->super_frame_ports,
                       way->low_bytes, group->spec.start_psn ? group->spec.start_psn : options_.start_psn,
                       now, &random_, &qpns_);
  if (!plan.ok()) return plan.failure();
  group->plan = *std::move(plan);
  NoteContexts(*group);
  group->path_taken = Path::kNetwork;
  group->path_reason = placer_.WhyNotByHosts(*group);
  group->hosts_reach = group->path_reason.empty();
  TellRanks(group);
  if (const auto& half = group->plan.half_super_frames; !half.empty()) {
    world_->Note(
        fmt::format("group {}: single frames on links of which one end takes super-frames and the other does "
                    "not: {} (ethtool -k at both; docs/DEPLOY.md, \"Super-frames\")",
                    group->spec.name, fmt::join(half, "; ")));
  }
  TellRates(*topology_, forwarding_, &group->plan);
  group->footprint = FootprintOf(*topology_, forwarding_, group->plan);
  group->placed = now;
  group->allocation = AllocationOf(*group, *way);
  load_.Apply(*group->allocation);
  TellBlocks(group);
  group->width_kbps = way->width_kbps;
  for (const ContextPlan& context : group->plan.contexts) group->installing.insert(context.node);
  if (way->server) {
    AskForServer(now, *way, group);
    return {};
  }
  for (const ContextPlan& context : group->plan.contexts) world_->Install(context.node, context);
  return {};
}

// What the switches of its plan have, in what it tells its ranks, and for people.
void GroupLife::TellRanks(Group* group) {
  const Common common = placer_.CommonOf(*group);
  group->lacks = common.lacks;
  for (const Lack& lack : common.by_switch) {
    world_->Note(fmt::format("group {}: calls that need {} {}: not in {}", group->spec.name, lack.what,
                             group->hosts_reach ? "go by the hosts" : "are refused", lack.where));
  }
  const uint32_t levels = LevelsOf(group->plan);
  for (JoinedReply& reply : group->plan.replies) {
    reply.abilities = common.abilities;
    reply.lacks = group->lacks;
    reply.path_reason = group->path_reason;
    reply.hosts_reach = group->hosts_reach;
    reply.scale = group->spec.scale;
    reply.int8 = group->spec.int8;
    reply.levels = levels;
  }
}

// Of a group whose memory is taken: switches and ranks are told of its blocks, and people of those that have
// other owners.
void GroupLife::TellBlocks(Group* group) {
  if (group->spec.policy != Policy::kTemporal) return;
  constexpr size_t kMostNamed = 16;
  std::string shared;
  size_t count = 0;
  for (size_t i = 0; i < group->plan.contexts.size(); ++i) {
    ContextPlan& context = group->plan.contexts[i];
    const Allocation::Region& region = group->allocation->switches[i];
    context.block = region.block;
    context.block_bytes = region.bytes;
    const BlockLoad& block = load_.at(region.node).blocks.at(region.block);
    if (block.owners == 1 || ++count > kMostNamed) continue;
    shared +=
        fmt::format("{}{}: {}", shared.empty() ? "" : "; ", topology_->nodes[region.node].name,
                    BlockWords(region.block, region.bytes, group->allocation->share.duty, block.Taken()));
  }
  for (JoinedReply& reply : group->plan.replies) reply.asks = true;
  if (count == 0) return;
  if (count > kMostNamed) shared += fmt::format("; and {} more", count - kMostNamed);
  world_->Note(fmt::format("group {}: shares memory with others: {}", group->spec.name, shared));
}

void GroupLife::OnInstalled(Nanos now, NodeId node, uint64_t group_id, const InstallAnswer& answer) {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || found->second.phase != GroupPhase::kInstalling) return;
  Group& group = found->second;
  if (!answer.status.ok()) return RefuseNetwork(now, &group, FailureOf(topology_->nodes[node].name, answer));
  for (ContextPlan& context : group.plan.contexts) {
    if (context.node == node) context.arena_bytes = answer.arena_bytes;
  }
  // An engine of another version may take more, or less, than was expected of it: but a block is as large as
  // it is told.
  load_.Undo(*group.allocation);
  for (Allocation::Region& region : group.allocation->switches) {
    if (region.node == node && region.block == 0)
      region.bytes = RoundUpToArena(std::min(answer.arena_bytes, kMostArenaBytes));
  }
  load_.Apply(*group.allocation);
  group.installing.erase(node);
  if (group.installing.empty()) Run(now, &group);
}

// No tree, or a switch that does not take its part of it: the group fails, or goes by the hosts. Then nothing
// of the tree remains, and what switches have of it already is removed.
void GroupLife::RefuseNetwork(Nanos now, Group* group, const Failure& failure) {
  if (group->spec.path == Path::kNetwork) return FailGroup(now, group, failure);
  group->refused = std::exchange(group->plan, {});
  for (const ContextPlan& context : group->refused.contexts) {
    planned_at_[context.node].erase(group->id);
    group->removing_refused.insert(context.node);
    world_->Remove(context.node, group->id, group->generation);
  }
  group->installing.clear();
  group->server_due = kNever;
  SetDue(group);
  group->path_taken = Path::kUnspecified;
  group->hosts_reach = false;
  group->path_mtu = group->inline_bytes = 0;
  group->window = {};
  group->width_kbps = 0;
  group->lacks.clear();
  group->path_reason = failure.Brief();
  GoByHosts(now, group, failure);
}

// refused: the network's path; ok if that was not tried.
void GroupLife::GoByHosts(Nanos now, Group* group, const Failure& refused) {
  auto found = placer_.ChooseHostsWay(*group, refused);
  if (!found.ok()) return FailGroup(now, group, found.failure());
  group->hosts_connect = true;
  group->path_taken = Path::kHosts;
  group->path_mtu = found->path_mtu;
  group->footprint = std::move(found->footprint);
  group->placed = now;
  const JoinedReply reply{.group_id = group->id,
                          .generation = group->generation,
                          .mode = Mode::kUnspecified,
                          .path_mtu = group->path_mtu,
                          .path = Path::kHosts,
                          .path_reason = group->path_reason,
                          .scale = group->spec.scale,
                          .int8 = group->spec.int8};
  group->plan.replies.assign(group->spec.world_size, reply);
  Run(now, group);
}

void GroupLife::Run(Nanos now, Group* group) {
  group->phase = GroupPhase::kRunning;
  group->ran = now;
  GiveMulticast(now, group);
  const std::string running = fmt::format("group {}: running with {}", group->spec.name,
                                          Counted(group->spec.world_size, "rank", "ranks"));
  if (group->path_taken == Path::kHosts) {
    world_->Note(
        fmt::format("{} by the hosts, path MTU {}: {}", running, group->path_mtu, group->path_reason));
  } else {
    world_->Note(fmt::format("{} over {}, root {}, path MTU {}, M {}, W {}", running,
                             Counted(group->plan.contexts.size(), "switch", "switches"),
                             topology_->nodes[group->plan.contexts[0].node].name, group->path_mtu,
                             group->window.message_packets, group->window.window_messages));
  }
  if (keeps_) changed_.ids.insert(group->id);
  for (auto& [rank, member] : group->members) {
    if (secrets_ && member.join.rejoins) member.secret = secrets_();
    TellJoined(*group, member);
  }
}

void GroupLife::TellJoined(const Group& group, const Member& member) {
  JoinedReply reply = group.plan.replies[member.join.rank];
  reply.secret = member.secret;
  reply.durable = keeps_;
  reply.multicast = group.multicast;
  reply.no_multicast = group.no_multicast;
  world_->Send(member.session, reply);
}

}  // namespace epic::manager
