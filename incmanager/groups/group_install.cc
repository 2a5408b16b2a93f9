// Joins that are refused, and the way from "all ranks are there" to "running".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "base/psn.h"
#include "incmanager/groups/group_table.h"
#include "protocol/control.h"

namespace epic::manager {
namespace {

constexpr uint32_t kMaxWorldSize = 4096;
constexpr size_t kMaxNameBytes = 64;
constexpr char kOfOneRank[] = "1 is less than 2: a group of one rank needs no manager";
constexpr uint32_t kPathMtus[] = {256, 512, 1024, 2048, 4096};

bool IsPathMtu(uint32_t mtu) {
  return std::find(std::begin(kPathMtus), std::end(kPathMtus), mtu) != std::end(kPathMtus);
}

// Names appear in logs and tables.
bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// "leaf3 has 0.2 of 1.0 MiB free, 0.5 needed", of the words of an engine (Engine::Install); empty if they are
// others.
std::string BriefMemory(const std::string& name, const std::string& message) {
  unsigned long long needed = 0, left = 0, all = 0;
  if (std::sscanf(message.c_str(), "arena: %llu bytes needed, %llu of %llu bytes left", &needed, &left,
                  &all) != 3)
    return {};
  struct Unit {
    const char* name;
    double bytes;
  };
  for (const Unit unit : {Unit{"MiB", 1 << 20}, Unit{"KiB", 1 << 10}}) {
    const auto in = [unit](unsigned long long bytes) {
      return fmt::format("{:.1f}", static_cast<double>(bytes) / unit.bytes);
    };
    if (static_cast<double>(all) < unit.bytes || in(needed) == in(left)) continue;
    return fmt::format("{} has {} of {} {} free, {} needed", name, in(left), in(all), unit.name, in(needed));
  }
  return fmt::format("{} has {} of {} bytes free, {} needed", name, left, all, needed);
}

// Without what gRPC has to say of it, which is long.
std::string BriefSilence(const std::string& name, const std::string& message) {
  constexpr std::string_view kSilent = " does not answer";
  const size_t at = message.find(kSilent);
  return at == std::string::npos ? ""
                                 : fmt::format("switch {}: {}", name, message.substr(0, at + kSilent.size()));
}

Failure Invalid(const std::string& message) { return {ErrorCode::kInvalidArgument, message, -1, ""}; }

}  // namespace

Failure GroupTable::CheckJoin(const JoinRequest& join) const {
  if (!IsName(join.group)) return Invalid("group: must be 1 to 64 printable characters without spaces");
  if (join.world_size == 1) return Invalid(fmt::format("world_size: {}", kOfOneRank));
  if (join.world_size < 2) return Invalid(fmt::format("world_size: {} is less than 2", join.world_size));
  if (join.world_size > kMaxWorldSize) {
    return Invalid(fmt::format("world_size: {} is more than {}", join.world_size, kMaxWorldSize));
  }
  if (join.rank >= join.world_size) {
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("rank: {} is not below the world size {}", join.rank, join.world_size));
  }
  if (join.qpn == 0 || join.qpn > kQpnMask)
    return Invalid(fmt::format("qpn: {:#x} is not a 24-bit QPN", join.qpn));
  if (!IsPathMtu(join.max_path_mtu)) {
    return Invalid(fmt::format("max_path_mtu: {} is not 256, 512, 1024, 2048 or 4096", join.max_path_mtu));
  }
  if (join.mode != Mode::kUnspecified && !IsMode(join.mode))
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("mode: rank {} asks for {}, which is none of {}", join.rank,
                                   NumberOf(join.mode), ModeChoice()));
  if (join.path != Path::kUnspecified && !IsPath(join.path))
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("path: rank {} asks for {}, which is none of auto, network and hosts",
                                   join.rank, static_cast<int>(join.path)));
  if (!topology_->FindHostByAddress(join.ip)) {
    return RankFailure(ErrorCode::kNotFound, join.rank,
                       fmt::format("ip: the topology {} has no host with the address {} (rank {}, {})",
                                   topology_->name, ToString(join.ip), join.rank, join.host_name));
  }
  return {};
}

Failure GroupTable::CheckAgainst(const Group& group, const JoinRequest& join, NodeId host) const {
  const GroupSpec& spec = group.spec;
  if (spec.world_size != join.world_size) {
    return RankFailure(ErrorCode::kSizeMismatch, join.rank,
                       fmt::format("world_size: rank {} says {}, the group {} has {}", join.rank,
                                   join.world_size, spec.name, spec.world_size));
  }
  if (join.mode != Mode::kUnspecified && join.mode != spec.mode) {
    return RankFailure(ErrorCode::kMismatch, join.rank,
                       fmt::format("mode: rank {} asks for mode {}, the group {} has mode {}", join.rank,
                                   NumeralOf(join.mode), spec.name, NumeralOf(spec.mode)));
  }
  // Any path is right for a rank that asks for none.
  if (join.path != Path::kUnspecified && join.path != Path::kAuto && join.path != spec.path) {
    return RankFailure(ErrorCode::kMismatch, join.rank,
                       fmt::format("path: rank {} asks for path {}, the group {} has path {}", join.rank,
                                   Name(join.path), spec.name, Name(spec.path)));
  }
  if (group.phase == GroupPhase::kLeaving) {
    return {ErrorCode::kAlreadyExists,
            fmt::format("group {} is being left; join again when it is gone", spec.name), -1, ""};
  }
  const auto holder = group.members.find(join.rank);
  if (holder != group.members.end()) {
    return RankFailure(ErrorCode::kDuplicateRank, join.rank,
                       fmt::format("rank {} of group {} is held by {} ({}, pid {})", join.rank, spec.name,
                                   holder->second.join.host_name, ToString(holder->second.join.ip),
                                   holder->second.join.pid));
  }
  for (const auto& [rank, member] : group.members) {
    if (member.join.ip == join.ip && member.join.qpn == join.qpn) {
      return RankFailure(
          ErrorCode::kInvalidArgument, join.rank,
          fmt::format("qpn: {:#x} at {} is that of rank {} already", join.qpn, ToString(join.ip), rank));
    }
  }
  if (!spec.hosts.empty() && spec.hosts[join.rank] != topology_->nodes[host].name) {
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("rank {} of group {} is reserved for host {}, not {}", join.rank,
                                   spec.name, spec.hosts[join.rank], topology_->nodes[host].name));
  }
  return {};
}

std::variant<Window, Failure> GroupTable::ChooseGroupWindow(const Group& group, const Tree& tree,
                                                            uint32_t path_mtu) const {
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
  std::vector<NodeId> hosts;
  std::vector<JoinRequest> ranks;
  for (const auto& [rank, member] : group->members) {
    hosts.push_back(member.host);
    ranks.push_back(member.join);
  }
  const SwitchModes switch_modes = ModesOf(group->spec);
  const auto tree = ChooseTree(*group, switch_modes, hosts);
  if (const auto* failure = std::get_if<Failure>(&tree)) return *failure;
  const auto& built = std::get<Tree>(tree);
  const auto mtu = ChoosePathMtu(*group, built);
  if (const auto* failure = std::get_if<Failure>(&mtu)) return *failure;
  group->path_mtu = std::get<uint32_t>(mtu);
  const auto window = ChooseGroupWindow(*group, built, group->path_mtu);
  if (const auto* failure = std::get_if<Failure>(&window)) return *failure;
  const auto& chosen = std::get<Window>(window);
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
  auto plan = MakePlan(*topology_, built, common, switch_modes, ranks, super_frame_ports, start_psn, now,
                       &random_, &qpns_);
  if (const auto* failure = std::get_if<Failure>(&plan)) return *failure;
  group->plan = std::move(std::get<GroupPlan>(plan));
  group->path_taken = Path::kNetwork;
  TellHostsReach(group);
  TellAbilities(group);
  if (const auto& half = group->plan.half_super_frames; !half.empty()) {
    world_->Note(
        fmt::format("group {}: single frames on links of which one end takes super-frames and the other does "
                    "not: {} (ethtool -k at both; docs/DEPLOY.md, \"Super-frames\")",
                    group->spec.name, fmt::join(half, "; ")));
  }
  group->footprint = FootprintOf(*topology_, forwarding_, group->plan);
  group->placed = now;
  for (const ContextPlan& context : group->plan.contexts) group->installing.insert(context.node);
  for (const ContextPlan& context : group->plan.contexts) world_->Install(context.node, context);
  return {};
}

void GroupTable::OnInstalled(Nanos now, NodeId node, uint64_t group_id, const Status& status,
                             uint64_t arena_bytes) {
  const auto found = groups_.find(group_id);
  if (found == groups_.end() || found->second.phase != GroupPhase::kInstalling) return;
  Group& group = found->second;
  if (!status.ok()) {
    const std::string& name = topology_->nodes[node].name;
    const std::string message(status.message().data(), status.message().size());
    ErrorCode code = ErrorCode::kInternal;
    if (status.code() == StatusCode::kResourceExhausted) code = ErrorCode::kNoResource;
    if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded) {
      code = ErrorCode::kSwitchLost;
    }
    Failure failure = SwitchFailure(code, name, fmt::format("switch {}: {}", name, message));
    failure.brief = code == ErrorCode::kSwitchLost ? BriefSilence(name, message) : BriefMemory(name, message);
    return RefuseNetwork(now, &group, failure);
  }
  for (ContextPlan& context : group.plan.contexts) {
    if (context.node == node) context.arena_bytes = arena_bytes;
  }
  group.installing.erase(node);
  if (group.installing.empty()) Run(&group);
}

void GroupTable::Run(Group* group) {
  group->phase = GroupPhase::kRunning;
  const std::string running =
      fmt::format("group {}: running with {} ranks", group->spec.name, group->spec.world_size);
  if (group->path_taken == Path::kHosts) {
    world_->Note(
        fmt::format("{} by the hosts, path MTU {}: {}", running, group->path_mtu, group->path_reason));
  } else {
    world_->Note(fmt::format("{} over {} switches, root {}, path MTU {}, M {}, W {}", running,
                             group->plan.contexts.size(), topology_->nodes[group->plan.contexts[0].node].name,
                             group->path_mtu, group->message_packets, group->window_messages));
  }
  for (const auto& [rank, member] : group->members) world_->Send(member.session, group->plan.replies[rank]);
}

Status GroupTable::CheckModes(const GroupSpec& spec) const {
  if (!IsMode(spec.mode))
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("mode: {} is none of {}", NumberOf(spec.mode), ModeChoice()));
  for (const auto& [name, mode] : spec.switch_modes) {
    if (!topology_->FindSwitch(name))
      return MakeStatus(StatusCode::kNotFound,
                        fmt::format("switch_modes: the topology has no switch {}", name));
    if (!IsMode(mode)) {
      return MakeStatus(StatusCode::kInvalidArgument, fmt::format("switch_modes: {} of {} is none of {}",
                                                                  NumberOf(mode), name, ModeChoice()));
    }
    if (const std::string reason = CannotMix(spec.mode, mode); !reason.empty()) {
      return MakeStatus(StatusCode::kInvalidArgument,
                        fmt::format("switch_modes: {} in mode {}, the group in mode {}: {}", name,
                                    NumeralOf(mode), NumeralOf(spec.mode), reason));
    }
  }
  return absl::OkStatus();
}

Status GroupTable::Create(const GroupSpec& asked) {
  GroupSpec spec = asked;
  if (spec.mode == Mode::kUnspecified) spec.mode = kDefaultMode;
  if (spec.path == Path::kUnspecified) spec.path = Path::kAuto;
  const auto invalid = [](const std::string& message) {
    return MakeStatus(StatusCode::kInvalidArgument, message);
  };
  if (!IsName(spec.name)) return invalid("name: must be 1 to 64 printable characters without spaces");
  if (!spec.wrong.empty()) return invalid(spec.wrong);
  if (Status status = CheckModes(spec); !status.ok()) return status;
  if (reserved_.contains(spec.name) || live_.contains(spec.name)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("group {} exists", spec.name));
  }
  if (spec.world_size == 1) return invalid(fmt::format("size: {}", kOfOneRank));
  if (spec.world_size < 2 || spec.world_size > kMaxWorldSize) {
    return invalid(fmt::format("size: {} is not between 2 and {}", spec.world_size, kMaxWorldSize));
  }
  if (!IsPath(spec.path)) {
    return invalid(fmt::format("path: {} is none of auto, network and hosts", static_cast<int>(spec.path)));
  }
  if (spec.path == Path::kHosts && spec.world_size > kMostHostRanks) {
    return invalid(
        fmt::format("size: {} is more than the {} ranks of path hosts", spec.world_size, kMostHostRanks));
  }
  if (!spec.hosts.empty() && spec.hosts.size() != spec.world_size) {
    return invalid(fmt::format("hosts: {} are named for {} ranks", spec.hosts.size(), spec.world_size));
  }
  for (const std::string& host : spec.hosts) {
    const std::optional<NodeId> node = topology_->FindNode(host);
    if (!node || topology_->IsSwitch(*node)) {
      return MakeStatus(StatusCode::kNotFound, fmt::format("hosts: the topology has no host {}", host));
    }
  }
  if (spec.path_mtu != 0 && !IsPathMtu(spec.path_mtu)) {
    return invalid(fmt::format("path_mtu: {} is not 256, 512, 1024, 2048 or 4096", spec.path_mtu));
  }
  const uint64_t window = uint64_t{std::max(spec.message_packets, 1u)} * std::max(spec.window_messages, 1u);
  if (window > options_.window_packets) {
    return invalid(fmt::format("M*W: {} packets are more than the {} that may be in flight", window,
                               options_.window_packets));
  }
  if (spec.inline_bytes.value_or(0) > kMostInlineBytes)
    return invalid(fmt::format("inline_bytes: {} is more than {}", *spec.inline_bytes, kMostInlineBytes));
  if (spec.start_psn && *spec.start_psn > Psn::kMask) return invalid("start_psn: must be below 2^24");
  reserved_[spec.name] = spec;
  world_->Note(fmt::format("group {}: reserved for {} ranks", spec.name, spec.world_size));
  return absl::OkStatus();
}

Status GroupTable::Destroy(Nanos now, const std::string& name, bool force) {
  Group* group = Live(name);
  if (group == nullptr && !reserved_.contains(name)) {
    return MakeStatus(StatusCode::kNotFound, fmt::format("there is no group {}", name));
  }
  if (group != nullptr && !force) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("group {} is {} with {} ranks; use --force to end it under them", name,
                                  Name(group->phase), group->members.size()));
  }
  reserved_.erase(name);
  generations_.erase(name);
  if (group != nullptr) {
    FailGroup(now, group,
              {ErrorCode::kAborted, fmt::format("group {} was destroyed by its operator", name), -1, ""});
  } else {
    world_->Note(fmt::format("group {}: destroyed", name));
  }
  return absl::OkStatus();
}

std::optional<Group> GroupTable::Find(const std::string& name) const {
  const auto live = live_.find(name);
  if (live != live_.end()) return groups_.at(live->second);
  for (const auto& [id, group] : groups_) {
    if (group.spec.name == name) return group;
  }
  const auto reserved = reserved_.find(name);
  if (reserved == reserved_.end()) return std::nullopt;
  Group group;
  group.spec = reserved->second;
  group.reserved = true;
  const auto generation = generations_.find(name);
  group.generation = generation == generations_.end() ? 0 : generation->second;
  return group;
}

std::vector<Group> GroupTable::List() const {
  std::set<std::string> names;
  for (const auto& [name, spec] : reserved_) names.insert(name);
  for (const auto& [id, group] : groups_) names.insert(group.spec.name);
  std::vector<Group> list;
  for (const std::string& name : names) list.push_back(*Find(name));
  return list;
}

}  // namespace epic::manager
