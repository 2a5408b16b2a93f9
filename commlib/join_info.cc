#include "commlib/join_info.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/system_random.h"
#include "commlib/timeouts.h"
#include "proto/manager.pb.h"

namespace epic::internal {

static_assert(static_cast<int>(PathChoice::kAuto) == proto::PATH_AUTO &&
              static_cast<int>(PathChoice::kNetwork) == proto::PATH_NETWORK &&
              static_cast<int>(PathChoice::kHosts) == proto::PATH_HOSTS);

static_assert(static_cast<int>(verbs::DatagramReach::kNone) == proto::DATAGRAM_REACH_UNSPECIFIED &&
              static_cast<int>(verbs::DatagramReach::kRemote) == proto::DATAGRAM_REACH_REMOTE &&
              static_cast<int>(verbs::DatagramReach::kAll) == proto::DATAGRAM_REACH_ALL);

proto::ClientMessage ToProto(const JoinInfo& info) {
  proto::ClientMessage message;
  proto::Join& join = *message.mutable_join();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  join.set_group(info.group);
  join.set_rank(info.rank);
  join.set_world_size(info.size);
  join.set_ip(Raw(info.ip));
  join.set_qpn(info.qpn);
  join.set_max_path_mtu(info.max_path_mtu);
  join.set_max_outstanding(info.max_outstanding);
  join.set_super_frames(info.super_frames);
  join.set_host_name(host);
  join.set_pid(getpid());
  join.set_version(fmt::format("{}.{}.{}", EPIC_VERSION_MAJOR, EPIC_VERSION_MINOR, EPIC_VERSION_PATCH));
  join.set_join_timeout_ms(WireMilliseconds(info.join_timeout));
  join.set_mode(static_cast<proto::Mode>(info.mode));
  join.set_path(static_cast<proto::Path>(info.path));
  join.set_max_bytes(info.max_bytes);
  if (!info.types.empty()) join.add_types(info.types);
  join.set_quantise(info.quantise);
  join.set_quantise_int8(info.quantise_int8);
  join.set_tells_calls(true);
  join.set_datagram_qpn(info.datagram_qpn);
  join.set_datagram_reach(static_cast<proto::DatagramReach>(info.datagram_reach));
  join.set_datagrams_offered(info.datagrams_offered);
  join.set_datagram_receives(info.datagram_receives);
  join.set_rejoins(info.away_timeout.count() != 0);
  join.set_nonce(SystemRandom().value_or(0));
  return message;
}

}  // namespace epic::internal
