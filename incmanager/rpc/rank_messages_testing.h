// What ranks and operators say to the manager, for tests with messages by chance.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/types.h"
#include "incmanager/topology.h"
#include "proto/manager.pb.h"

namespace epic::manager::testing {

// A message that is right by itself, of the kind that `how` chooses, from a session of this number. topology:
// that of Tree32, whose hosts are h0 to h3.
inline proto::ClientMessage ValidMessage(const Topology& topology, uint8_t how, size_t slot) {
  constexpr uint32_t kHosts = 4;
  proto::ClientMessage message;
  if (how >= 0xf8 && (how & 1) != 0) {
    proto::PeerEnd& end = *message.mutable_peer();
    end.set_rank((how >> 1 & 1) == slot % 2 ? 2 : how >> 1 & 1);
    end.set_qpn(0x100 + static_cast<uint32_t>(slot));
    end.set_psn(how);
    end.set_ready((how & 4) != 0);
  } else if (how == 0xfe) {
    proto::DatagramsSeen& seen = *message.mutable_datagrams();
    seen.set_expected(7);
    seen.set_came(5);
    seen.set_read(2);
  } else if (how >= 0xf8) {
    proto::WindowInUse& window = *message.mutable_window();
    window.set_messages(1);
    window.set_ns_per_packet(how);
    window.set_before_messages(1);
    window.set_before_ns_per_packet(400);
  } else if (how >= 0xf0) {
    proto::Probed& probed = *message.mutable_probed();
    probed.set_ip(Raw(topology.nodes[how % topology.switches.size()].address));
    probed.set_asked(true);
    probed.set_answered(how & 7);
  } else if (how >= 0xe0) {
    message.mutable_leave()->set_drained(true);
  } else if (how >= 0xd0) {
    message.mutable_abort()->set_reason("no more");
  } else {
    const auto rank = static_cast<uint32_t>(slot % kHosts);
    proto::Join& join = *message.mutable_join();
    join.set_group((how & 1) != 0 ? "k" : "g");
    join.set_world_size((how & 2) != 0 ? 4 : 2);
    join.set_rank(rank % join.world_size());
    join.set_ip(Raw(topology.nodes[*topology.FindNode(fmt::format("h{}", rank))].address));
    join.set_qpn(0x11 + static_cast<uint32_t>(slot));
    join.set_max_path_mtu(256u << (how >> 2) % 5);
    join.set_max_outstanding(129);
    join.set_host_name(fmt::format("h{}", rank));
    join.set_pid(1000);
    if ((how & 0x40) != 0) join.set_path(static_cast<proto::Path>(1 + (how >> 2) % 3));
    if ((how & 0x20) != 0) join.set_datagram_qpn(0x200 + static_cast<uint32_t>(slot));
    join.set_datagram_reach(proto::DATAGRAM_REACH_ALL);
    join.set_datagram_receives(how);
  }
  return message;
}

// A group, the kind of which `how` chooses.
inline proto::CreateGroupRequest ValidCreation(uint8_t how) {
  proto::CreateGroupRequest valid;
  valid.set_name((how & 1) != 0 ? "k" : "g");
  valid.set_world_size((how & 2) != 0 ? 4 : 2);
  valid.set_mode(static_cast<proto::Mode>(how / 4 % proto::Mode_ARRAYSIZE));
  valid.set_reproducible((how & 0x10) != 0);
  valid.set_path(static_cast<proto::Path>(how / 4 % proto::Path_ARRAYSIZE));
  if ((how & 0x80) != 0) {
    valid.add_types("float64");
    valid.add_operations("product");
  }
  if ((how & 0xc) == 0xc) valid.set_tenant("k");
  if ((how & 0xc) == 0x8) valid.set_policy((how & 0x20) != 0 ? "spatial" : "edt");
  if ((how & 0x3c) == 0x18) {
    valid.set_policy("temporal");
    valid.set_duty((how & 0x10) != 0 ? 0.4 : 0.7);
    if ((how & 0x40) != 0) valid.set_job("k");
    if ((how & 0x40) != 0) valid.set_phase((how & 1) != 0 ? "k" : "g");
  }
  if ((how & 0x20) != 0) (*valid.mutable_switch_modes())["leaf1"] = proto::MODE_TERMINATED;
  if ((how & 0x40) != 0) {
    for (uint32_t rank = 0; rank < valid.world_size(); ++rank) valid.add_hosts(fmt::format("h{}", rank));
  }
  return valid;
}

inline constexpr size_t kMaxFailureBytes = 1024;

// What any rank may be told; last: its session ends with it.
inline void CheckTold(const proto::ServerMessage& message, bool last) {
  const bool ends = message.has_failure() || message.has_left();
  EPIC_CHECK(last == ends && message.kind_case() != proto::ServerMessage::KIND_NOT_SET);
  proto::ServerMessage parsed;
  EPIC_CHECK(parsed.ParseFromString(message.SerializeAsString()));
  if (message.has_peer()) EPIC_CHECK(message.peer().ip() != 0 && message.peer().qpn() != 0);
  if (message.has_joined()) {
    const proto::Joined& joined = message.joined();
    const bool by_hosts = joined.path() == proto::PATH_HOSTS;
    EPIC_CHECK(by_hosts || joined.path() == proto::PATH_NETWORK);
    EPIC_CHECK(by_hosts == (joined.remote_qpn() == 0) && joined.path_mtu() != 0);
    EPIC_CHECK(joined.path_reason().empty() == (!by_hosts && joined.hosts_reach()));
    EPIC_CHECK(joined.multicast_reason().empty() == (joined.multicast_error() == proto::ERROR_OK));
    if (joined.has_multicast()) {
      EPIC_CHECK(joined.multicast_reason().empty() && joined.multicast().address() >> 28 == 0xe);
      EPIC_CHECK(joined.multicast().ends_size() >= 2 && joined.multicast().qkey() >> 30 == 0);
    }
  }
  if (!message.has_failure()) return;
  const proto::Failure& failure = message.failure();
  EPIC_CHECK(failure.code() != proto::ERROR_OK && !failure.message().empty());
  EPIC_CHECK(failure.ByteSizeLong() <= kMaxFailureBytes);
}

}  // namespace epic::manager::testing
