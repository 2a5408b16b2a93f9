#include "commlib/session_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/ip.h"
#include "proto/manager.pb.h"
#include "protocol/bounds.h"
#include "protocol/types.h"

namespace epic::internal {
namespace {

static_assert(static_cast<int>(ErrorCode::kLinkLost) == static_cast<int>(proto::ERROR_LINK_LOST) &&
              static_cast<int>(ErrorCode::kFallbackLost) == static_cast<int>(proto::ERROR_FALLBACK_LOST) &&
              static_cast<int>(ErrorCode::kNotFinite) == static_cast<int>(proto::ERROR_NOT_FINITE));

Error FromProto(const proto::Failure& failure) {
  const int code = failure.code();
  const bool known = (code > 0 && code <= static_cast<int>(ErrorCode::kFallbackLost)) ||
                     code == static_cast<int>(ErrorCode::kNotFinite);
  return {known ? static_cast<ErrorCode>(code) : ErrorCode::kInternal, failure.message()};
}

struct Field {
  const char* name;
  uint32_t value;
  uint32_t max;
};
constexpr uint32_t kBits24 = (1u << 24) - 1;
// Each rank says at most two things of its end of a connection. Two ranks, the neighbours, have a second one.
constexpr size_t kMaxPeerEnds = 2 * (kMaxHostRanks + 2);
constexpr uint32_t kQkeyOfTheQueuePair = 1u << 31;  // verbs: "send the queue pair's own"

Error CheckFields(const char* of, std::span<const Field> fields) {
  for (const Field& field : fields) {
    if (field.value <= field.max) continue;
    return {ErrorCode::kUnsupported,
            fmt::format("{} has {} {}, which is above {}", of, field.name, field.value, field.max)};
  }
  return {};
}

Error NoMulticast(const std::string& field) {
  return {ErrorCode::kInternal, "the manager's answer to the join has multicast." + field};
}

Error CheckMulticast(const proto::MulticastGroup& group, uint32_t world_size) {
  if (!Ip(Ipv4{group.address()}).is_multicast()) {
    return NoMulticast(
        fmt::format("address {}, which is no group's", verbs::ToString(Ipv4{group.address()})));
  }
  if ((group.qkey() & kQkeyOfTheQueuePair) != 0)
    return NoMulticast(fmt::format("qkey {:#x}, whose uppermost bit is set", group.qkey()));
  if (static_cast<uint32_t>(group.ends_size()) != world_size)
    return NoMulticast(fmt::format("ends of {} ranks, but the group has {}", group.ends_size(), world_size));
  for (int rank = 0; rank < group.ends_size(); ++rank) {
    const uint32_t qpn = group.ends(rank).qpn();
    if (qpn == 0 || qpn > kBits24)
      return NoMulticast(fmt::format("ends[{}].qpn {}, which is no queue pair's", rank, qpn));
  }
  return {};
}

// What does not fit into a queue pair's attributes; the window and the path MTU are checked where they are
// used.
Error CheckJoined(const proto::Joined& joined, uint32_t world_size) {
  const Field fields[] = {{"remote_qpn", joined.remote_qpn(), kBits24},
                          {"send_psn", joined.send_psn(), kBits24},
                          {"recv_psn", joined.recv_psn(), kBits24},
                          {"qp_timeout", joined.qp_timeout(), 31},
                          {"retry_cnt", joined.retry_cnt(), 7},
                          {"rnr_retry", joined.rnr_retry(), 7},
                          {"min_rnr_timer", joined.min_rnr_timer(), 31},
                          {"inline_bytes", joined.inline_bytes(), kMaxInlineBytes}};
  if (joined.quantise() != 0 && !IsScale(joined.quantise())) {
    return {ErrorCode::kUnsupported,
            fmt::format("the manager's answer to the join has quantise {}, which is not from {} to {}",
                        joined.quantise(), kLeastScale, kLargestScale)};
  }
  if (joined.quantise() != 0 && joined.quantise_int8()) {
    return {ErrorCode::kUnsupported, "the manager's answer to the join has both a scale and int8 (quantise)"};
  }
  if (Error e = CheckFields("the manager's answer to the join", fields); !e.ok()) return e;
  return joined.has_multicast() ? CheckMulticast(joined.multicast(), world_size) : Error{};
}

Error CheckPeerEnd(const proto::PeerEnd& end) {
  const Field fields[] = {
      {"rank", end.rank(), kMaxHostRanks - 1}, {"qpn", end.qpn(), kBits24}, {"psn", end.psn(), kBits24}};
  return CheckFields("what the manager says of another rank's queue pair", fields);
}

bool GoesByHosts(const proto::Joined& joined) { return joined.path() == proto::PATH_HOSTS; }

// A manager that tells neither of operations nor of who lacks some knows of no others than the first. Where
// switches have no operation in common, who lacks them is told.
GroupAbilities AbilitiesOf(const proto::Joined& joined) {
  GroupAbilities out;
  out.scale = joined.quantise();
  out.blocks = joined.quantise_int8();
  out.levels = joined.levels();
  if (GoesByHosts(joined)) return out;
  out.hosts_reach = joined.hosts_reach();
  out.why_not_hosts = joined.path_reason();
  out.asks = joined.asks();
  out.priorities = joined.priorities();
  if (joined.operations().empty() && joined.lacks().empty()) {
    out.hosts_reach = false;  // its switches know of no calls whose data go elsewhere
    out.has = Abilities::First();
    return out;
  }
  out.has = {};
  out.has.turns = joined.turns();
  for (const std::string& name : joined.types()) out.has.Add(TypeNamed(name).value_or(DataType::kNone));
  for (const std::string& name : joined.operations()) out.has.Add(OpNamed(name).value_or(ReduceOp::kNone));
  for (const proto::Lack& lack : joined.lacks()) out.where.emplace(lack.what(), lack.where());
  return out;
}

MulticastInfo FromProto(const proto::MulticastGroup& group) {
  MulticastInfo info{.address = Ipv4{group.address()},
                     .qkey = group.qkey(),
                     .ends = {},
                     .super_frames = group.super_frames(),
                     .receives = group.receives(),
                     .takes_counts = group.takes_counts()};
  for (const proto::DatagramEnd& end : group.ends())
    info.ends.push_back({.ip = Ipv4{end.ip()}, .qpn = end.qpn()});
  return info;
}

JoinedInfo FromProto(const proto::Joined& joined) {
  JoinedInfo info;
  info.group_id = joined.group_id();
  info.generation = joined.generation();
  info.secret = joined.secret();
  info.durable = joined.durable();
  info.path = GoesByHosts(joined) ? PathChoice::kHosts : PathChoice::kNetwork;
  // Of the network's path it is why single calls may not go by the hosts.
  if (GoesByHosts(joined)) info.path_reason = joined.path_reason();
  info.mode = joined.mode();
  info.message_packets = joined.message_packets();
  info.window_messages = joined.window_messages();
  info.start_messages = std::min(joined.start_messages(), joined.window_messages());
  info.inline_bytes = joined.inline_bytes();
  info.abilities = AbilitiesOf(joined);
  info.connect = {.remote_ip = Ipv4{joined.remote_ip()},
                  .remote_qpn = joined.remote_qpn(),
                  .send_psn = joined.send_psn(),
                  .recv_psn = joined.recv_psn(),
                  .path_mtu = joined.path_mtu(),
                  .timeout = static_cast<uint8_t>(joined.qp_timeout()),
                  .retry_cnt = static_cast<uint8_t>(joined.retry_cnt()),
                  .rnr_retry = static_cast<uint8_t>(joined.rnr_retry()),
                  .min_rnr_timer = static_cast<uint8_t>(joined.min_rnr_timer()),
                  .super_frames = joined.super_frames()};
  // An earlier manager gives it also to ranks that send by other rules.
  if (joined.has_multicast() && joined.multicast().receives() > 0)
    info.multicast = FromProto(joined.multicast());
  info.multicast_reason = joined.multicast_reason();
  if (joined.multicast_error() == proto::ERROR_NO_RESOURCE) info.multicast_error = ErrorCode::kNoResource;
  if (joined.multicast_error() == proto::ERROR_MTU) info.multicast_error = ErrorCode::kMtu;
  if (!joined.remote_name().empty()) info.connect.name = joined.remote_name();
  return info;
}

}  // namespace

bool SessionState::OnMessage(const proto::ServerMessage& message) {
  if (message.has_failure()) return Fail(FromProto(message.failure()));
  if (message.has_joined() && !joined_) {
    if (Error e = CheckJoined(message.joined(), world_size_); !e.ok()) return Fail(e);
    joined_ = FromProto(message.joined());
  }
  if (message.has_left()) left_ = true;
  if (message.has_peer()) {
    const proto::PeerEnd& end = message.peer();
    if (Error e = CheckPeerEnd(end); !e.ok()) return Fail(e);
    if (!TakePeer({.rank = end.rank(),
                   .ip = Ipv4{end.ip()},
                   .qpn = end.qpn(),
                   .psn = end.psn(),
                   .ready = end.ready(),
                   .super_frames = end.super_frames(),
                   .fetches = end.fetches()}))
      return Fail({ErrorCode::kInternal, "the manager says more of other ranks than there are"});
  }
  if (message.has_calls()) calls_asked_ = true;
  if (message.has_probe()) probe_ = Ipv4{message.probe().ip()};
  if (message.has_waiting()) {
    waiting_ =
        fmt::format("ranks that have not come: {}", fmt::join(message.waiting().missing_ranks(), ", "));
  }
  return false;
}

bool SessionState::TakePeer(const PeerEndInfo& end) {
  const auto said = ends_.find({end.rank, end.fetches});
  const auto is_known = [&end](const PeerEndInfo& before) {
    return before.ip == end.ip && before.qpn == end.qpn && before.psn == end.psn && before.ready >= end.ready;
  };
  if (said != ends_.end() && is_known(said->second)) return true;
  if (peers_.size() == kMaxPeerEnds) return false;
  ends_.insert_or_assign({end.rank, end.fetches}, end);
  peers_.push_back(end);
  return true;
}

bool SessionState::Fail(const Error& failure) {
  if (failure_ || left_) return false;
  failure_ = failure;
  return true;
}

}  // namespace epic::internal
