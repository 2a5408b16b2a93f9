// An unreliable datagram (UD) queue pair, with multicast: the sibling of QueuePair, in the same manner (no
// I/O, a copy is a snapshot). InfiniBand Architecture Specification 1.4, 9.8.
//
// A receive buffer begins with kGrhBytes bytes for the header, as in verbs.
#pragma once

#include <cstdint>
#include <vector>

#include "roce/packet.h"
#include "roce/transport/config.h"
#include "roce/transport/memory.h"
#include "roce/transport/ring.h"
#include "roce/transport/types.h"

namespace epic::roce {

inline constexpr Qpn kMulticastQpn{0xffffff};
inline constexpr size_t kMaxMulticastGroups = 16;

struct UdConfig {
  Ip local_ip;  // what is sent comes from it, unless the request says otherwise
  // Datagrams are taken that come to local_ip; or to whichever address, but for groups: the owner has
  // several, and hands over only what comes to one of them.
  bool any_address = false;
  Qpn local_qpn{};
  uint32_t mtu = 1024;  // the longest datagram, bytes
  uint32_t send_depth = 64;
  uint32_t recv_depth = 64;
  uint32_t max_inline_bytes = 64;
  // Receives come from a shared receive queue, as QpConfig says. One that is too short for the datagram stays
  // with the queue pair for the next.
  bool shared_receives = false;
};

struct UdCounters {
  uint64_t packets_sent = 0;
  // Dropped:
  uint64_t not_ours = 0;
  uint64_t bad_state = 0;
  uint64_t bad_qkey = 0;
  uint64_t no_recv = 0;
  uint64_t too_long = 0;  // for the receive that was next; that one stays
};

class UdQueuePair {
 public:
  explicit UdQueuePair(const UdConfig& config);

  // From RESET to INIT with the Q_Key that arriving datagrams must have, which may be another one later: in
  // all transitions, or in none, but for those to RESET and ERR and from RTS to SQD. From RTR to RTS with the
  // first PSN. A send error leads to SQE, from where RTS goes on.
  ModifyResult Modify(QpState to, std::optional<uint32_t> qkey = {}, std::optional<Psn> sq_psn = {});
  QpState state() const { return state_; }

  // Receive what is sent to a multicast address, from now on and also after a RESET. False if it is none, or
  // for the 17th.
  bool Attach(Ip group);
  // False if it was not attached.
  bool Detach(Ip group);
  bool IsAttached(Ip group) const;

  PostResult PostSend(const SendWr& wr);  // kSend and kSendImm, to *wr.ud
  // As QueuePair says.
  PostResult CheckSend(const SendWr& wr, size_t ahead = 0) const;
  PostResult PostRecv(const RecvWr& wr);
  void OnPacket(const Packet& packet, Memory& memory);
  // Sends what was posted, at most `budget` packets.
  void Poll(Memory& memory, PacketSink& sink, int budget = 256);
  bool wants_poll() const { return state_ == QpState::kRts && !sends_.empty(); }
  bool NextCompletion(Completion* out);
  const UdCounters& counters() const { return counters_; }

 private:
  // As SendWr.
  struct SendEntry {
    uint64_t wr_id = 0;
    bool signaled = true;
    bool solicited = false;
    bool has_imm = false;
    bool is_inline = false;
    uint32_t imm = 0;
    uint32_t length = 0;     // bytes
    uint32_t inline_at = 0;  // in inline_bytes_; used if is_inline
    UdAddress to;
    SgeList sges;  // not of inline data

    void Release() { sges.Release(); }
  };

  bool IsForUs(const Packet& packet) const;
  bool HasRoom(size_t ahead = 0) const;
  bool HasReceive(Memory& memory);
  bool Emit(const SendEntry& entry, Memory& memory, PacketSink& sink);
  void FlushSends();
  void FlushRecvs();

  UdConfig config_;
  QpState state_ = QpState::kReset;
  uint32_t qkey_ = 0;
  Psn psn_;
  std::vector<Ip> groups_;
  Ring<SendEntry> sends_;
  std::vector<uint8_t> inline_bytes_;
  Ring<RecvWr> recvs_;
  Ring<Completion> completions_;
  UdCounters counters_;
};

}  // namespace epic::roce
