// What ranks say while their group runs, and are told of each other.
#include "incmanager/rpc/convert.h"

namespace epic::manager {

static_assert(static_cast<int>(DatagramReach::kNobodys) == proto::DATAGRAM_REACH_UNSPECIFIED);
static_assert(static_cast<int>(DatagramReach::kRemote) == proto::DATAGRAM_REACH_REMOTE);
static_assert(static_cast<int>(DatagramReach::kAll) == proto::DATAGRAM_REACH_ALL &&
              proto::DatagramReach_MAX == proto::DATAGRAM_REACH_ALL);

DatagramReach FromProto(proto::DatagramReach reach) {
  return proto::DatagramReach_IsValid(reach) ? static_cast<DatagramReach>(reach) : DatagramReach::kNobodys;
}

WindowInUse FromProto(const proto::WindowInUse& window) {
  return {.messages = window.messages(),
          .ns_per_packet = window.ns_per_packet(),
          .before_messages = window.before_messages(),
          .before_ns_per_packet = window.before_ns_per_packet()};
}

DatagramsSeen FromProto(const proto::DatagramsSeen& datagrams) {
  return {.expected = datagrams.expected(),
          .came = datagrams.came(),
          .read = datagrams.read(),
          .stranger = datagrams.stranger(),
          .stale = datagrams.stale(),
          .alien = datagrams.alien(),
          .length = datagrams.length(),
          .again = datagrams.again()};
}

proto::DatagramsSeen ToProto(const DatagramsSeen& datagrams) {
  proto::DatagramsSeen out;
  out.set_expected(datagrams.expected);
  out.set_came(datagrams.came);
  out.set_read(datagrams.read);
  out.set_stranger(datagrams.stranger);
  out.set_stale(datagrams.stale);
  out.set_alien(datagrams.alien);
  out.set_length(datagrams.length);
  out.set_again(datagrams.again);
  return out;
}

PeerEnd FromProto(const proto::PeerEnd& end) {
  return {
      .rank = end.rank(), .qpn = end.qpn(), .psn = end.psn(), .ready = end.ready(), .fetches = end.fetches()};
}

proto::PeerEnd ToProto(const PeerEnd& end) {
  proto::PeerEnd out;
  out.set_rank(end.rank);
  out.set_ip(Raw(end.ip));
  out.set_qpn(end.qpn);
  out.set_psn(end.psn);
  out.set_ready(end.ready);
  out.set_super_frames(end.super_frames);
  out.set_fetches(end.fetches);
  return out;
}

proto::MulticastGroup ToProto(const MulticastGroup& group) {
  proto::MulticastGroup out;
  out.set_address(Raw(group.address));
  out.set_qkey(group.qkey);
  for (const MulticastGroup::End& end : group.ends) {
    proto::DatagramEnd& of_rank = *out.add_ends();
    of_rank.set_ip(Raw(end.ip));
    of_rank.set_qpn(end.qpn);
  }
  out.set_super_frames(group.super_frames);
  out.set_receives(group.receives);
  out.set_takes_counts(true);
  return out;
}

proto::Join ToProto(const JoinRequest& join) {
  proto::Join out;
  out.set_group(join.group);
  out.set_rank(join.rank);
  out.set_world_size(join.world_size);
  out.set_ip(Raw(join.ip));
  out.set_qpn(join.qpn);
  out.set_max_path_mtu(join.max_path_mtu);
  out.set_max_outstanding(join.max_outstanding);
  out.set_host_name(join.host_name);
  out.set_pid(join.pid);
  out.set_join_timeout_ms(join.join_timeout_ms);
  out.set_mode(static_cast<proto::Mode>(join.mode));
  out.set_super_frames(join.super_frames);
  out.set_path(static_cast<proto::Path>(join.path));
  out.set_max_bytes(join.max_bytes);
  NameTypes(join.needs, &out);
  out.set_quantise(join.scale);
  out.set_quantise_int8(join.int8);
  out.set_tells_calls(join.tells_calls);
  out.set_datagram_qpn(join.datagram_qpn);
  out.set_datagram_reach(static_cast<proto::DatagramReach>(join.datagram_reach));
  out.set_datagrams_offered(join.datagrams_offered);
  out.set_datagram_receives(join.datagram_receives);
  out.set_rejoins(join.rejoins);
  out.set_nonce(join.nonce);
  return out;
}

}  // namespace epic::manager
