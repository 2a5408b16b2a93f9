// What a rank says in its session (proto/manager.proto, ClientMessage), but for its join and its calls.
#pragma once

#include <cstdint>
#include <string>

#include "commlib/core/host_multicast.h"
#include "commlib/core/window_trials.h"
#include "commlib/session_state.h"
#include "epic/epic.h"
#include "proto/manager.pb.h"

namespace epic::internal {

inline proto::ClientMessage ToProto(const PeerEndInfo& end) {
  proto::ClientMessage message;
  proto::PeerEnd& peer = *message.mutable_peer();
  peer.set_rank(end.rank);
  peer.set_qpn(end.qpn);
  peer.set_psn(end.psn);
  peer.set_ready(end.ready);
  peer.set_fetches(end.fetches);
  return message;
}

inline proto::ClientMessage ToProto(const WindowTrials::Found& found) {
  proto::ClientMessage message;
  proto::WindowInUse& window = *message.mutable_window();
  window.set_messages(found.messages);
  window.set_ns_per_packet(found.ns_per_packet);
  window.set_before_messages(found.before_messages);
  window.set_before_ns_per_packet(found.before_ns_per_packet);
  return message;
}

inline proto::ClientMessage ToProto(const MulticastCounts& counts) {
  proto::ClientMessage message;
  proto::DatagramsSeen& seen = *message.mutable_datagrams();
  seen.set_expected(counts.expected);
  seen.set_came(counts.came);
  seen.set_read(counts.read);
  seen.set_stranger(counts.stranger);
  seen.set_stale(counts.stale);
  seen.set_alien(counts.alien);
  seen.set_length(counts.length);
  seen.set_again(counts.again);
  return message;
}

inline proto::ClientMessage RejoinOf(const std::string& group, uint32_t rank, const JoinedInfo& joined) {
  proto::ClientMessage message;
  proto::Rejoin& rejoin = *message.mutable_rejoin();
  rejoin.set_group(group);
  rejoin.set_group_id(joined.group_id);
  rejoin.set_generation(joined.generation);
  rejoin.set_rank(rank);
  rejoin.set_secret(joined.secret);
  rejoin.set_ends_with_manager(!joined.durable);
  return message;
}

inline proto::ClientMessage ProbedOf(Ipv4 about, bool asked, uint32_t answered) {
  proto::ClientMessage message;
  proto::Probed& probed = *message.mutable_probed();
  probed.set_ip(Raw(about));
  probed.set_asked(asked);
  probed.set_answered(answered);
  return message;
}

inline proto::ClientMessage AbortOf(const std::string& reason) {
  proto::ClientMessage message;
  message.mutable_abort()->set_reason(reason);
  return message;
}

// refused: as Session::Leave.
inline proto::ClientMessage LeaveOf(const Error& refused) {
  proto::ClientMessage message;
  message.mutable_leave()->set_drained(true);
  if (refused.ok()) return message;
  proto::Failure& failure = *message.mutable_leave()->mutable_refused();
  failure.set_code(static_cast<proto::ErrorCode>(refused.code()));
  failure.set_message(refused.message());
  failure.set_rank(-1);
  return message;
}

}  // namespace epic::internal
