#include "incmanager/groups/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/path_mtu.h"
#include "base/psn.h"
#include "incmanager/groups/qpn_pool.h"
#include "incmanager/text.h"
#include "protocol/bounds.h"
#include "protocol/types.h"

namespace epic::manager {
namespace {

// Who asks for something: a rank, or none, an operator.
using Asker = std::optional<uint32_t>;

Failure Invalid(std::string message, Asker rank = {}) {
  return {ErrorCode::kInvalidArgument, std::move(message), rank ? static_cast<int32_t>(*rank) : -1, ""};
}

// The first that is one.
Failure FirstOf(std::initializer_list<Failure> failures) {
  const auto first = std::ranges::find_if(failures, [](const Failure& failure) { return !failure.ok(); });
  return first == failures.end() ? Failure{} : *first;
}

Failure NotFound(std::string message) { return {ErrorCode::kNotFound, std::move(message), -1, ""}; }

// text: what is wrong; empty if nothing is.
Failure WrongText(const std::string& text, Asker rank = {}) {
  return text.empty() ? Failure{} : Invalid(text, rank);
}

Failure WrongSize(uint32_t size, Asker rank = {}) {
  if (size >= 2 && size <= kMaxWorldSize) return {};
  const std::string field = rank ? "world_size" : "size";
  if (size == 1)
    return Invalid(fmt::format("{}: 1 is less than 2: a group of one rank needs no manager", field));
  if (!rank) return Invalid(fmt::format("{}: {} is not between 2 and {}", field, size, kMaxWorldSize));
  return Invalid(size < 2 ? fmt::format("{}: {} is less than 2", field, size)
                          : fmt::format("{}: {} is more than {}", field, size, kMaxWorldSize));
}

// What was asked for by number.
Failure NoneOf(const std::string& field, int asked, const std::string& choice, Asker rank) {
  const std::string who =
      rank ? fmt::format("rank {} asks for {}, which", *rank, asked) : fmt::format("{}", asked);
  return Invalid(fmt::format("{}: {} is none of {}", field, who, choice), rank);
}

Failure WrongMode(Mode mode, Asker rank = {}) {
  if (mode == Mode::kUnspecified || CanBeChosen(mode)) return {};
  return NoneOf("mode", NumberOf(mode), ModeChoice(), rank);
}

Failure WrongPath(Path path, Asker rank = {}) {
  if (path == Path::kUnspecified || IsPath(path)) return {};
  return NoneOf("path", static_cast<int>(path), "auto, network and hosts", rank);
}

Failure WrongQuantise(float scale, bool int8, Asker rank = {}) {
  if (scale != 0 && int8)
    return Invalid("quantise: a scale and int8 are two ways, and a group has one", rank);
  if (scale == 0 || IsScale(scale)) return {};
  return Invalid(fmt::format("quantise: {} is not a number from {} to {}", scale, kLeastScale, kLargestScale),
                 rank);
}

Failure WrongDatagramQpn(const JoinRequest& join) {
  if (join.datagram_qpn == 0) return {};
  const std::string wrong = WrongQpn(join.datagram_qpn);
  return WrongText(wrong.empty() ? "" : fmt::format("datagram_{} (rank {})", wrong, join.rank), join.rank);
}

Failure WrongMtu(const std::string& field, uint32_t bytes) {
  return IsPathMtu(bytes) ? Failure{}
                          : Invalid(fmt::format("{}: {} is not {}", field, bytes, kPathMtusInWords));
}

Failure Mismatch(const JoinRequest& join, const std::string& text) {
  return RankFailure(ErrorCode::kMismatch, join.rank, text);
}

// Of a group that its ranks have made: whoever came first must not decide what the others may call.
Failure DiffersInCalls(const GroupSpec& spec, const JoinRequest& join) {
  if (join.max_bytes != spec.max_bytes) {
    const auto text = [](uint64_t bytes) {
      return bytes == 0 ? std::string("of any length") : fmt::format("of up to {} bytes", bytes);
    };
    return Mismatch(join, fmt::format("max_bytes: rank {} has calls {}, the group {} is for calls {}",
                                      join.rank, text(join.max_bytes), spec.name, text(spec.max_bytes)));
  }
  if (join.needs == spec.needs) return {};
  const auto text = [](const Abilities& types) {
    return types.empty() ? std::string("calls of any type") : NamesOf(types);
  };
  return Mismatch(join, fmt::format("types: rank {} has {}, the group {} is for {}", join.rank,
                                    text(join.needs), spec.name, text(spec.needs)));
}

Failure Differs(const Group& group, const JoinRequest& join) {
  const GroupSpec& spec = group.spec;
  if (join.mode != Mode::kUnspecified && join.mode != spec.mode)
    return Mismatch(join, fmt::format("mode: rank {} asks for mode {}, the group {} has mode {}", join.rank,
                                      NumeralOf(join.mode), spec.name, NumeralOf(spec.mode)));
  // Any path is right for a rank that asks for none.
  if (join.path != Path::kUnspecified && join.path != Path::kAuto && join.path != spec.path)
    return Mismatch(join, fmt::format("path: rank {} asks for path {}, the group {} has path {}", join.rank,
                                      Name(join.path), spec.name, Name(spec.path)));
  // Sums differ by it. Who says nothing takes what the operator chose.
  if (join.scale == spec.scale && join.int8 == spec.int8) return {};
  if (group.reserved && join.scale == 0 && !join.int8) return {};
  if (join.int8 || spec.int8) {
    const auto text = [](float scale, bool int8) {
      return int8 ? "int8" : scale == 0 ? "none" : fmt::format("the scale {}", scale);
    };
    return Mismatch(join, fmt::format("quantise: rank {} has {}, the group {} has {}", join.rank,
                                      text(join.scale, join.int8), spec.name, text(spec.scale, spec.int8)));
  }
  const auto text = [](float scale) { return scale == 0 ? "none" : fmt::format("{}", scale); };
  return Mismatch(join, fmt::format("quantise: rank {} has the scale {}, the group {} has {}", join.rank,
                                    text(join.scale), spec.name, text(spec.scale)));
}

// Where switches bear hosts' addresses, what they have forgotten comes to hosts: none of them may have a QPN
// of a switch.
Failure RefusesQpn(const GroupSpec& spec, const JoinRequest& join) {
  const ModeInfo* const mode = FindMode(spec.mode);
  if (mode == nullptr || !mode->bears_hosts || spec.path == Path::kHosts) return {};
  if (join.qpn < QpnPool::kFirstBorneQpn) return {};
  return RankFailure(
      ErrorCode::kUnsupported, join.rank,
      fmt::format(
          "mode {}: rank {} of {} has QPN {:#x}: its NIC numbers queue pairs from {:#x} on, a range that "
          "is kept for the switches of this mode",
          mode->name, join.rank, join.host_name, join.qpn, QpnPool::kFirstBorneQpn));
}

Failure WrongShare(const GroupSpec& spec) {
  if (spec.duty > kWholeTime)
    return Invalid(fmt::format("duty: {} is not more than 0 and at most 1", DutyWords(spec.duty)));
  const auto wrong_name = [](const char* what, const std::string& name) {
    return name.empty() ? Failure{} : WrongName(what, name);
  };
  const bool no_job = !spec.phase.empty() && spec.job.empty();
  return FirstOf({wrong_name("job:", spec.job), wrong_name("phase:", spec.phase),
                  no_job ? Invalid(fmt::format("phase: {} is that of no job", spec.phase)) : Failure{}});
}

}  // namespace

Failure WrongName(const std::string& what, const std::string& name) {
  if (IsName(name)) return {};
  return Invalid(fmt::format("{} must be {}", what, kNameInWords));
}

std::string WrongRank(uint32_t rank, uint32_t world_size) {
  return rank < world_size ? "" : fmt::format("rank: {} is not below the world size {}", rank, world_size);
}

std::string WrongQpn(uint32_t qpn) {
  return qpn != 0 && qpn <= kQpnMask ? "" : fmt::format("qpn: {:#x} is not a 24-bit QPN", qpn);
}

Status StatusOf(const Failure& failure) {
  if (failure.ok()) return absl::OkStatus();
  return MakeStatus(
      failure.code == ErrorCode::kNotFound ? StatusCode::kNotFound : StatusCode::kInvalidArgument,
      failure.message);
}

Failure Admission::WrongModes(const GroupSpec& spec) const {
  if (Failure wrong = WrongMode(spec.mode); !wrong.ok()) return wrong;
  for (const auto& [name, mode] : spec.switch_modes) {
    if (!topology_->FindSwitch(name))
      return NotFound(fmt::format("switch_modes: the topology has no switch {}", name));
    if (!CanBeChosen(mode))
      return Invalid(fmt::format("switch_modes: {} of {} is none of {}", NumberOf(mode), name, ModeChoice()));
    if (const std::string reason = CannotMix(spec.mode, mode); !reason.empty())
      return Invalid(fmt::format("switch_modes: {} in mode {}, the group in mode {}: {}", name,
                                 NumeralOf(mode), NumeralOf(spec.mode), reason));
  }
  return {};
}

Failure Admission::WrongPolicy(const GroupSpec& spec) const {
  const auto no_use = [&spec](const char* field, const char* who_has) {
    return Invalid(
        fmt::format("{}: policy {} has no use for it, only {}", field, Name(spec.policy), who_has));
  };
  if (!HasWidths(spec.policy)) {
    constexpr char kWho[] = "spatial and temporal have";
    if (spec.prefer != Prefer::kUnspecified) return no_use("prefer", kWho);
    if (spec.rate_kbps != 0) return no_use("rate", kWho);
  }
  if (spec.policy != Policy::kTemporal) {
    constexpr char kWho[] = "temporal has";
    if (spec.duty != 0) return no_use("duty", kWho);
    if (!spec.job.empty()) return no_use("job", kWho);
    if (!spec.phase.empty()) return no_use("phase", kWho);
  }
  if (Failure wrong = WrongShare(spec); !wrong.ok()) return wrong;
  if (spec.tenant.empty() || tenants_->Find(spec.tenant) != nullptr) return {};
  return NotFound(fmt::format("tenant: there is no tenant {}", spec.tenant));
}

// What no group whose payloads lie in a pool can have, and what only such a group can.
Failure Admission::WrongInPool(const GroupSpec& spec) const {
  const std::string_view mode = NumeralOf(spec.mode);
  if (!IsInPool(spec.mode)) {
    if (spec.priority_limit == 0) return {};
    return Invalid(fmt::format("priority_limit: in mode {} calls have no priorities", mode));
  }
  if (spec.reproducible)
    return Invalid(fmt::format("reproducible: in mode {} sums are built in the order of arrival", mode));
  if (!spec.switch_modes.empty())
    return Invalid(fmt::format("switch_modes: one switch sums for a group in mode {}", mode));
  if (spec.policy != Policy::kShortest)
    return Invalid(
        fmt::format("policy: {} places no group in mode {}, only shortest does", Name(spec.policy), mode));
  return {};
}

Failure Admission::WrongHosts(const GroupSpec& spec) const {
  if (spec.path == Path::kHosts && spec.world_size > kMaxHostRanks)
    return Invalid(
        fmt::format("size: {} is more than the {} ranks of path hosts", spec.world_size, kMaxHostRanks));
  if (!spec.hosts.empty() && spec.hosts.size() != spec.world_size)
    return Invalid(fmt::format("hosts: {} named for {}", Counted(spec.hosts.size(), "host is", "hosts are"),
                               Counted(spec.world_size, "rank")));
  for (const std::string& host : spec.hosts) {
    if (!topology_->FindHost(host)) return NotFound(fmt::format("hosts: the topology has no host {}", host));
  }
  return {};
}

Failure Admission::WrongSizes(const GroupSpec& spec) const {
  if (Failure wrong = spec.path_mtu == 0 ? Failure{} : WrongMtu("path_mtu", spec.path_mtu); !wrong.ok())
    return wrong;
  const uint64_t window = uint64_t{std::max(spec.message_packets, 1u)} * std::max(spec.window_messages, 1u);
  if (window > window_packets_)
    return Invalid(
        fmt::format("M*W: {} packets are more than the {} that may be in flight", window, window_packets_));
  if (spec.inline_bytes.value_or(0) > kMaxInlineBytes)
    return Invalid(fmt::format("inline_bytes: {} is more than {}", *spec.inline_bytes, kMaxInlineBytes));
  if (spec.start_psn && *spec.start_psn > Psn::kMask) return Invalid("start_psn: must be below 2^24");
  return {};
}

Failure Admission::RefusesGroup(const GroupSpec& spec) const {
  return FirstOf({WrongText(spec.wrong), WrongQuantise(spec.scale, spec.int8), WrongModes(spec),
                  WrongInPool(spec), WrongPolicy(spec), WrongSize(spec.world_size), WrongPath(spec.path),
                  WrongHosts(spec), WrongSizes(spec)});
}

// What is wrong in any group.
Failure Admission::WrongJoin(const JoinRequest& join) const {
  const Asker rank = join.rank;
  Failure wrong = FirstOf(
      {WrongName("group:", join.group), WrongSize(join.world_size, rank),
       WrongText(WrongRank(join.rank, join.world_size), rank), WrongText(WrongQpn(join.qpn)),
       WrongMtu("max_path_mtu", join.max_path_mtu), WrongMode(join.mode, rank), WrongPath(join.path, rank),
       WrongQuantise(join.scale, join.int8, rank), WrongDatagramQpn(join), WrongText(join.wrong, rank)});
  if (!wrong.ok() || topology_->FindHostByAddress(join.ip)) return wrong;
  return RankFailure(ErrorCode::kNotFound, join.rank,
                     fmt::format("ip: the topology {} has no host with the address {} (rank {}, {}). EPIC_IFNAME there says "
                                 "which interface is on the data network",
                                 topology_->name, ToString(join.ip), join.rank, join.host_name));
}

// By another rank, or for another host.
Failure Admission::HeldAlready(const Group& group, const JoinRequest& join) const {
  const GroupSpec& spec = group.spec;
  const auto holder = group.members.find(join.rank);
  if (holder != group.members.end()) {
    return RankFailure(ErrorCode::kDuplicateRank, join.rank,
                       fmt::format("rank {} of group {} is held by {} ({}, pid {})", join.rank, spec.name,
                                   holder->second.join.host_name, ToString(holder->second.join.ip),
                                   holder->second.join.pid));
  }
  for (const auto& [rank, member] : group.members) {
    if (member.join.ip != join.ip) continue;
    const auto held = [&, holds = rank](const char* field, uint32_t qpn) {
      return Invalid(
          fmt::format("{}: {:#x} at {} is that of rank {} already", field, qpn, ToString(join.ip), holds),
          join.rank);
    };
    if (member.join.qpn == join.qpn) return held("qpn", join.qpn);
    if (join.datagram_qpn != 0 && member.join.datagram_qpn == join.datagram_qpn)
      return held("datagram_qpn", join.datagram_qpn);
  }
  const NodeId host = *topology_->FindHostByAddress(join.ip);
  if (spec.hosts.empty() || topology_->FindHost(spec.hosts[join.rank]) == host) return {};
  return Invalid(fmt::format("rank {} of group {} is reserved for host {}, not {}", join.rank, spec.name,
                             spec.hosts[join.rank], topology_->nodes[host].name),
                 join.rank);
}

Failure Admission::RefusesRank(const Group& group, const JoinRequest& join) const {
  const GroupSpec& spec = group.spec;
  if (Failure wrong = WrongJoin(join); !wrong.ok()) return wrong;
  if (spec.world_size != join.world_size)
    return RankFailure(ErrorCode::kSizeMismatch, join.rank,
                       fmt::format("world_size: rank {} says {}, the group {} has {}", join.rank,
                                   join.world_size, spec.name, spec.world_size));
  // An operator knows what the group is for, whatever single ranks say.
  Failure refused = FirstOf({Differs(group, join), RefusesQpn(spec, join),
                             group.reserved ? Failure{} : DiffersInCalls(spec, join)});
  if (!refused.ok()) return refused;
  if (group.phase == GroupPhase::kLeaving)
    return {ErrorCode::kAlreadyExists,
            fmt::format("group {} is being left; join again when it is gone", spec.name), -1, ""};
  return HeldAlready(group, join);
}

}  // namespace epic::manager
