// A group that asks for a server, for tests.
#pragma once

#include <cstdint>

#include "proto/manager.pb.h"

namespace epic::host {

inline constexpr uint32_t kTestMtu = 1024, kTestSlots = 32;
inline constexpr uint32_t kTestSwitchIp = 0x0a00ff01;

// The switch's end has QPN 0x100 and the group's id; PSNs near the end of their range.
inline proto::MakeServer ServerOf(uint64_t id) {
  proto::MakeServer request;
  request.mutable_group()->set_group_id(id);
  request.mutable_group()->set_generation(1);
  request.set_name("g");
  request.set_world_size(4);
  request.set_path_mtu(kTestMtu);
  request.set_message_packets(4);
  request.set_slots(kTestSlots);
  request.set_sum_mtus(2);
  request.set_switch_name("leaf1");
  request.set_remote_ip(kTestSwitchIp);
  request.set_remote_qpn(static_cast<uint32_t>(0x100 + id));
  request.set_send_psn(0xfffff0);
  request.set_recv_psn(0xfffffe);
  request.set_qp_timeout(18);
  request.set_retry_cnt(7);
  request.set_rnr_retry(7);
  request.set_min_rnr_timer(1);
  return request;
}

}  // namespace epic::host
