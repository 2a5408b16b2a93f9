// The queue pairs that nic_fuzz has, and how each is connected.
#pragma once

#include <array>

#include "base/check.h"
#include "softnic/core/nic.h"

namespace epic::softnic::testing {

inline constexpr Ipv4 kIp{0x0a000001}, kPeerIp{0x0a000002}, kGroup{0xe0000001};
// An address whose first and last words are these.
constexpr Ip Ip6(uint16_t first, uint16_t last) {
  std::array<uint8_t, Ip::kBytes> bytes{};
  bytes[0] = static_cast<uint8_t>(first >> 8);
  bytes[1] = static_cast<uint8_t>(first);
  bytes[14] = static_cast<uint8_t>(last >> 8);
  bytes[15] = static_cast<uint8_t>(last);
  return Ip::Of(bytes.data());
}
inline constexpr Ip kIp6 = Ip6(0x2001, 1), kPeerIp6 = Ip6(0x2001, 2), kGroup6 = Ip6(0xff0e, 1);
inline constexpr Qpn kPeerQpn{0x99};
inline constexpr uint32_t kMtu = 256, kQkey = 5, kDepth = 6;
inline constexpr uint32_t kPd = 1, kOtherPd = 2;

struct End {
  Qpn qpn{}, peer{};
  Ip peer_ip{};
  uint32_t pd = kPd;
  bool remote_read = true, remote_write = true, remote_atomic = true, shared = false;
  QpType type = QpType::kRc;
  bool exists = false;
  uint32_t next_psn = 0;  // of the peer's requests
  Ip own_ip = kIp;
  std::array<bool, 2> attached{};  // to kGroup, kGroup6; a RESET changes nothing of it
  // The last request that it has sent.
  roce::Opcode sent_opcode = roce::Opcode::kRcSendOnly;
  uint32_t sent_psn = 0, sent_bytes = 0;
};

// To a peer outside; two to each other; with the shared queue; of another domain, closed to its peer; UD; UC
// to a peer outside, with the shared queue and closed to its peer, and two to each other; by IPv6 RC and UC
// to peers outside, and RC to itself.
inline constexpr size_t kEnds = 13;
inline std::array<End, kEnds> AllEnds() {
  return {{{.qpn = Qpn{16}, .peer = kPeerQpn, .peer_ip = kPeerIp},
           {.qpn = Qpn{17}, .peer = Qpn{18}, .peer_ip = kIp},
           {.qpn = Qpn{18}, .peer = Qpn{17}, .peer_ip = kIp},
           {.qpn = Qpn{19},
            .peer = kPeerQpn,
            .peer_ip = kPeerIp,
            .remote_write = false,
            .remote_atomic = false,
            .shared = true},
           {.qpn = Qpn{20},
            .peer = kPeerQpn,
            .peer_ip = kPeerIp,
            .pd = kOtherPd,
            .remote_read = false,
            .remote_write = false,
            .remote_atomic = false},
           {.qpn = Qpn{21}, .peer = kPeerQpn, .peer_ip = kPeerIp, .type = QpType::kUd},
           {.qpn = Qpn{22}, .peer = kPeerQpn, .peer_ip = kPeerIp, .type = QpType::kUc},
           {.qpn = Qpn{23},
            .peer = kPeerQpn,
            .peer_ip = kPeerIp,
            .remote_write = false,
            .shared = true,
            .type = QpType::kUc},
           {.qpn = Qpn{24}, .peer = Qpn{25}, .peer_ip = kIp, .type = QpType::kUc},
           {.qpn = Qpn{25}, .peer = Qpn{24}, .peer_ip = kIp, .type = QpType::kUc},
           {.qpn = Qpn{26}, .peer = kPeerQpn, .peer_ip = kPeerIp6, .own_ip = kIp6},
           {.qpn = Qpn{27}, .peer = kPeerQpn, .peer_ip = kPeerIp6, .type = QpType::kUc, .own_ip = kIp6},
           {.qpn = Qpn{28}, .peer = Qpn{28}, .peer_ip = kIp6, .own_ip = kIp6}}};
}

inline void Change(Nic& nic, const End& end, roce::QpState to) {
  switch (end.type) {
    case QpType::kRc:
      nic.ModifyRc(end.qpn, {.state = to});
      return;
    case QpType::kUc:
      nic.ModifyUc(end.qpn, {.state = to});
      return;
    case QpType::kUd:
      nic.ModifyUd(end.qpn, to, {}, {});
  }
}

// From RESET to INIT, RTR or RTS.
inline void Connect(Nic& nic, End& end, roce::QpState to = roce::QpState::kRts) {
  using roce::QpState;
  end.next_psn = end.sent_psn = 100;
  roce::QpChange init{
      .state = QpState::kInit, .remote_read = end.remote_read, .remote_write = end.remote_write};
  roce::QpChange rtr{.state = QpState::kRtr,
                     .remote_ip = end.peer_ip,
                     .local_ip = end.own_ip,
                     .remote_qpn = end.peer,
                     .path_mtu = kMtu,
                     .rq_psn = Psn(100)};
  roce::QpChange rts{.state = QpState::kRts, .sq_psn = Psn(100)};
  if (end.type == QpType::kRc) {
    init.remote_atomic = end.remote_atomic;
    rtr.max_dest_rd_atomic = rts.max_rd_atomic = 4;
    rtr.min_rnr_timer = 12;
    rts.timeout = 14;
    rts.retry_cnt = 3;
    rts.rnr_retry = 7;
  }
  for (const roce::QpChange& change : {init, rtr, rts}) {
    if (*change.state > to) break;
    if (end.type == QpType::kRc) {
      nic.ModifyRc(end.qpn, change);
    } else if (end.type == QpType::kUc) {
      nic.ModifyUc(end.qpn, change);
    } else {
      const bool is_init = change.state == QpState::kInit;
      nic.ModifyUd(end.qpn, *change.state, is_init ? std::optional(kQkey) : std::nullopt, change.sq_psn);
    }
  }
  EPIC_CHECK(nic.state(end.qpn) == to);
}

}  // namespace epic::softnic::testing
