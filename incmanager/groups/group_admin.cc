// What ranks and operators ask for, and is refused at once where it cannot be; groups that operators create,
// destroy and look at.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/path_mtu.h"
#include "base/psn.h"
#include "incmanager/groups/group_table.h"
#include "incmanager/text.h"
#include "protocol/bounds.h"
#include "protocol/types.h"

namespace epic::manager {
namespace {

constexpr char kOfOneRank[] = "1 is less than 2: a group of one rank needs no manager";

Failure Invalid(const std::string& message) { return {ErrorCode::kInvalidArgument, message, -1, ""}; }

std::string ScaleInWords(float scale) { return scale == 0 ? "none" : fmt::format("{}", scale); }

// What is wrong with a scale; empty if nothing is.
std::string WrongScale(float scale) {
  if (scale == 0 || IsScale(scale)) return {};
  return fmt::format("quantise: {} is not a number from {} to {}", scale, kLeastScale, kLargestScale);
}

// Of a group that its ranks have made: whoever came first must not decide what the others may call.
Failure CheckDeclared(const GroupSpec& spec, const JoinRequest& join) {
  if (join.max_bytes != spec.max_bytes) {
    const auto text = [](uint64_t bytes) {
      return bytes == 0 ? std::string("of any length") : fmt::format("of up to {} bytes", bytes);
    };
    return RankFailure(ErrorCode::kMismatch, join.rank,
                       fmt::format("max_bytes: rank {} has calls {}, the group {} is for calls {}", join.rank,
                                   text(join.max_bytes), spec.name, text(spec.max_bytes)));
  }
  if (join.needs != spec.needs) {
    const auto text = [](const Abilities& types) {
      return types.empty() ? std::string("calls of any type") : NamesOf(types);
    };
    return RankFailure(ErrorCode::kMismatch, join.rank,
                       fmt::format("types: rank {} has {}, the group {} is for {}", join.rank,
                                   text(join.needs), spec.name, text(spec.needs)));
  }
  return {};
}

}  // namespace

GroupSpec WithDefaults(GroupSpec spec) {
  if (spec.mode == Mode::kUnspecified) spec.mode = kDefaultMode;
  if (spec.path == Path::kUnspecified) spec.path = Path::kAuto;
  return spec;
}

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
    return Invalid(fmt::format("max_path_mtu: {} is not {}", join.max_path_mtu, kPathMtusInWords));
  }
  if (join.mode != Mode::kUnspecified && !IsMode(join.mode))
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("mode: rank {} asks for {}, which is none of {}", join.rank,
                                   NumberOf(join.mode), ModeChoice()));
  if (join.path != Path::kUnspecified && !IsPath(join.path))
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("path: rank {} asks for {}, which is none of auto, network and hosts",
                                   join.rank, static_cast<int>(join.path)));
  if (const std::string wrong = WrongScale(join.scale); !wrong.empty())
    return RankFailure(ErrorCode::kInvalidArgument, join.rank, wrong);
  if (!join.wrong.empty()) return RankFailure(ErrorCode::kInvalidArgument, join.rank, join.wrong);
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
  // Sums differ by it. Who says nothing takes what the operator chose.
  if (join.scale != spec.scale && !(group.reserved && join.scale == 0)) {
    return RankFailure(ErrorCode::kMismatch, join.rank,
                       fmt::format("quantise: rank {} has the scale {}, the group {} has {}", join.rank,
                                   ScaleInWords(join.scale), spec.name, ScaleInWords(spec.scale)));
  }
  if (Failure refused = RefusesQpn(spec, join); !refused.ok()) return refused;
  // An operator knows what the group is for, whatever single ranks say.
  if (Failure differs = group.reserved ? Failure{} : CheckDeclared(spec, join); !differs.ok()) return differs;
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
  if (!spec.hosts.empty() && topology_->FindHost(spec.hosts[join.rank]) != host) {
    return RankFailure(ErrorCode::kInvalidArgument, join.rank,
                       fmt::format("rank {} of group {} is reserved for host {}, not {}", join.rank,
                                   spec.name, spec.hosts[join.rank], topology_->nodes[host].name));
  }
  return {};
}

// Where switches bear hosts' addresses, what they have forgotten comes to hosts: none of them may have a QPN of
// a switch.
Failure GroupTable::RefusesQpn(const GroupSpec& spec, const JoinRequest& join) {
  const ModeInfo* const mode = FindMode(spec.mode);
  if (mode == nullptr || !mode->bears_hosts || spec.path == Path::kHosts) return {};
  if (join.qpn < QpnPool::kFirstBorneQpn) return {};
  return RankFailure(
      ErrorCode::kUnsupported, join.rank,
      fmt::format("mode {}: rank {} of {} has QPN {:#x}: its NIC numbers queue pairs from {:#x} on, a range that "
                  "is kept for the switches of this mode",
                  mode->name, join.rank, join.host_name, join.qpn, QpnPool::kFirstBorneQpn));
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

// All but the name.
Status GroupTable::CheckSpec(const GroupSpec& spec) const {
  const auto invalid = [](const std::string& message) {
    return MakeStatus(StatusCode::kInvalidArgument, message);
  };
  if (!spec.wrong.empty()) return invalid(spec.wrong);
  if (const std::string wrong = WrongScale(spec.scale); !wrong.empty()) return invalid(wrong);
  if (Status status = CheckModes(spec); !status.ok()) return status;
  if (Status status = CheckPolicy(spec); !status.ok()) return status;
  if (spec.world_size == 1) return invalid(fmt::format("size: {}", kOfOneRank));
  if (spec.world_size < 2 || spec.world_size > kMaxWorldSize) {
    return invalid(fmt::format("size: {} is not between 2 and {}", spec.world_size, kMaxWorldSize));
  }
  if (!IsPath(spec.path)) {
    return invalid(fmt::format("path: {} is none of auto, network and hosts", static_cast<int>(spec.path)));
  }
  if (spec.path == Path::kHosts && spec.world_size > kMaxHostRanks) {
    return invalid(
        fmt::format("size: {} is more than the {} ranks of path hosts", spec.world_size, kMaxHostRanks));
  }
  if (!spec.hosts.empty() && spec.hosts.size() != spec.world_size) {
    return invalid(fmt::format("hosts: {} named for {}", Counted(spec.hosts.size(), "host is", "hosts are"),
                               Counted(spec.world_size, "rank")));
  }
  for (const std::string& host : spec.hosts) {
    if (!topology_->FindHost(host))
      return MakeStatus(StatusCode::kNotFound, fmt::format("hosts: the topology has no host {}", host));
  }
  if (spec.path_mtu != 0 && !IsPathMtu(spec.path_mtu)) {
    return invalid(fmt::format("path_mtu: {} is not {}", spec.path_mtu, kPathMtusInWords));
  }
  const uint64_t window = uint64_t{std::max(spec.message_packets, 1u)} * std::max(spec.window_messages, 1u);
  if (window > options_.window_packets) {
    return invalid(fmt::format("M*W: {} packets are more than the {} that may be in flight", window,
                               options_.window_packets));
  }
  if (spec.inline_bytes.value_or(0) > kMaxInlineBytes)
    return invalid(fmt::format("inline_bytes: {} is more than {}", *spec.inline_bytes, kMaxInlineBytes));
  if (spec.start_psn && *spec.start_psn > Psn::kMask) return invalid("start_psn: must be below 2^24");
  return absl::OkStatus();
}

Status GroupTable::Create(const GroupSpec& asked) {
  const GroupSpec spec = Defaulted(asked);
  if (!IsName(spec.name))
    return MakeStatus(StatusCode::kInvalidArgument,
                      "name: must be 1 to 64 printable characters without spaces");
  if (reserved_.contains(spec.name) || live_.contains(spec.name)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("group {} exists", spec.name));
  }
  if (Status status = CheckSpec(spec); !status.ok()) return status;
  reserved_[spec.name] = spec;
  world_->Note(fmt::format("group {}: reserved for {}", spec.name, Counted(spec.world_size, "rank", "ranks")));
  return absl::OkStatus();
}

Status GroupTable::Destroy(Nanos now, const std::string& name, bool force) {
  Group* group = Live(name);
  if (group == nullptr && !reserved_.contains(name)) {
    return MakeStatus(StatusCode::kNotFound, fmt::format("there is no group {}", name));
  }
  if (group != nullptr && !force) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("group {} is {} with {}; use --force to end it under them", name,
                                  Name(group->phase), Counted(group->members.size(), "rank", "ranks")));
  }
  const auto reserved = reserved_.find(name);
  Group blank;
  if (reserved != reserved_.end()) blank.spec = reserved->second;
  const bool has_lived = generations_.contains(name);
  reserved_.erase(name);
  generations_.erase(name);
  if (group != nullptr) {
    FailGroup(now, group,
              {ErrorCode::kAborted, fmt::format("group {} was destroyed by its operator", name), -1, ""});
  } else if (has_lived && EndOf(name) != nullptr) {
    world_->Note(fmt::format("group {}: destroyed", name));  // how its last life ended says more
  } else {
    End(now, blank, "destroyed");
  }
  return absl::OkStatus();
}

void GroupTable::End(Nanos now, const Group& group, const std::string& how, const Failure& failure) {
  ends_.Add({.name = group.spec.name,
             .id = group.id,
             .generation = group.generation,
             .world_size = group.spec.world_size,
             .joined = static_cast<uint32_t>(group.members.size()),
             .mode = group.spec.mode,
             .at = now,
             .how = how,
             .failure = failure});
  world_->NoteEnd(fmt::format("group {}: {}", group.spec.name, how));
}

std::optional<Group> GroupTable::Find(const std::string& name) const {
  const auto live = live_.find(name);
  if (live != live_.end()) return groups_.at(live->second);
  // Of lives that are being removed the last.
  for (auto at = groups_.rbegin(); at != groups_.rend(); ++at) {
    if (at->second.spec.name == name) return at->second;
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

std::vector<std::string> GroupTable::Names(const std::string& after) const {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name > after) names.insert(name);
  };
  for (const auto& [name, spec] : reserved_) add(name);
  for (const auto& [id, group] : groups_) add(group.spec.name);
  return {names.begin(), names.end()};
}

}  // namespace epic::manager
