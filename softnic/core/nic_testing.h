// For tests of the adapter: one with two queue pairs connected to each other.
#pragma once

#include <array>
#include <vector>

#include "roce/transport/transport_testing.h"
#include "softnic/core/nic.h"

namespace epic::softnic::testing {

struct TwoQps {
  explicit TwoQps(uint32_t cq_depth = 16, bool shared = false) : cq(nic.CreateCq(cq_depth)) {
    key = *nic.memory().Register(kPd, bytes.data(), 0, bytes.size(),
                                 {.local_write = true, .remote_read = true, .remote_write = true});
    if (shared) srq = nic.CreateSrq(8);
    for (const Qpn qpn : {a, b}) {
      nic.CreateQp({.qpn = qpn,
                    .pd = kPd,
                    .send_cq = cq,
                    .recv_cq = cq,
                    .srq = shared ? std::optional(srq) : std::nullopt,
                    .send_depth = 4,
                    .recv_depth = 4});
      ToRts(qpn, kIp, qpn == a ? b : a);
    }
  }

  void ToRts(Qpn qpn, Ipv4 peer_ip, Qpn peer) {
    Change(qpn, {.state = roce::QpState::kInit, .remote_read = true, .remote_write = true});
    Change(qpn, {.state = roce::QpState::kRtr,
                 .remote_ip = peer_ip,
                 .remote_qpn = peer,
                 .path_mtu = 1024,
                 .rq_psn = Psn(0),
                 .max_dest_rd_atomic = 1,
                 .min_rnr_timer = 1});
    Change(qpn, {.state = roce::QpState::kRts,
                 .sq_psn = Psn(0),
                 .timeout = 14,
                 .retry_cnt = 3,
                 .rnr_retry = 7,
                 .max_rd_atomic = 1});
  }
  // Runs until nothing is left to be done at once.
  void Settle() {
    for (int i = 0; i < 100 && nic.next_deadline() == 0; ++i) nic.Run(0, sink);
  }
  roce::SendWr Send(uint64_t id, uint64_t address, uint32_t length) const {
    return {.wr_id = id, .sges = roce::testing::OneSge(address, length, key)};
  }
  roce::RecvWr Recv(uint64_t id, uint64_t address, uint32_t length) const {
    return {.wr_id = id, .sges = roce::testing::OneSge(address, length, key)};
  }
  std::vector<Work> Poll() {
    std::vector<Work> works(16);
    works.resize(nic.PollCq(cq, works));
    return works;
  }
  void Change(Qpn qpn, const roce::QpChange& change) {
    EPIC_CHECK(nic.ModifyRc(qpn, change) == roce::ModifyResult::kOk);
  }

  static constexpr uint32_t kPd = 1;
  static constexpr Ipv4 kIp{0x0a000001};
  std::array<uint8_t, 4096> bytes{};
  Nic nic{kIp, 1024, roce::Policy{}};
  uint32_t cq;
  uint32_t key = 0;
  uint32_t srq = 0;
  Qpn a{16}, b{17};
  roce::testing::KeepingSink sink;
};

}  // namespace epic::softnic::testing
