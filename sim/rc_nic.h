// A simple RC queue pair for the virtual-time world: Send and Send with immediate, in the manner of Linux'
// rdma_rxe 6.1 (what it does on the wire is noted at each rule). Sans-IO; the transport in roce/ does not
// exist yet, this model covers what hosts of mode II need.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "roce/packet.h"

namespace epic::sim {

struct NicConfig {
  Ipv4 local_ip{};
  Qpn local_qpn{};
  Ipv4 remote_ip{};
  Qpn remote_qpn{};
  Psn send_psn;
  Psn recv_psn;
  uint32_t path_mtu = 1024;
  Nanos timeout_ns = 1074 * kMillisecond;  // 4.096 us * 2^18
  int32_t max_outstanding = 128;           // packets
};

struct Completion {
  uint64_t wr_id = 0;
  bool is_recv = false;
  bool ok = true;
  uint32_t bytes = 0;
  std::optional<uint32_t> imm;
};

class RcNic {
 public:
  explicit RcNic(const NicConfig& config) : config_(config), snd_nxt_(0), rq_psn_(config.recv_psn) {}

  // data is read when packets are sent, and again when they are repeated: the caller keeps it until the
  // completion.
  void PostSend(uint64_t wr_id, std::span<const uint8_t> data, std::optional<uint32_t> imm);
  void PostRecv(uint64_t wr_id, std::span<uint8_t> buffer);

  void OnPacket(Nanos now, const roce::Packet& packet);
  // Sends what may be sent and handles timers; packets are appended to out() and view the callers' buffers.
  void Poll(Nanos now);

  // Packets to put on the wire; the caller takes them all.
  std::vector<roce::Packet>& out() { return out_; }
  // Completions in order; the caller pops.
  std::deque<Completion>& completions() { return completions_; }
  // When Poll must be called again; kNever if only a packet can change anything.
  Nanos next_deadline() const;

  uint64_t retransmitted_packets() const { return retransmitted_; }
  uint64_t timeouts() const { return timeouts_; }

 private:
  struct SendWr {
    uint64_t wr_id;
    std::span<const uint8_t> data;
    std::optional<uint32_t> imm;
    int64_t first;  // packet number in this direction
    int64_t packets;
  };
  struct RecvWr {
    uint64_t wr_id;
    std::span<uint8_t> buffer;
  };

  roce::Packet MakePacket() const;
  void EmitPacket(const SendWr& wr, int64_t number);
  void CompleteThrough(int64_t acked, Nanos now);
  void OnAck(Nanos now, const roce::Packet& packet);
  void OnSend(const roce::Packet& packet);
  void SendAeth(uint8_t syndrome, Psn psn);

  NicConfig config_;
  // Requester: packet numbers count from 0 at send_psn.
  std::deque<SendWr> sends_;
  int64_t snd_una_ = 0;
  int64_t snd_nxt_ = 0;
  int64_t snd_max_ = 0;  // highest ever sent + 1
  int64_t posted_ = 0;
  bool started_retry_ = false;  // rxe: a second NAK without an ACK in between starts no new retry
  int since_ack_req_ = 0;       // rxe: AckReq every 66th packet, not reset by a retry
  Nanos timer_at_ = kNever;
  Nanos rnr_until_ = -1;
  // Responder.
  std::deque<RecvWr> recvs_;
  Psn rq_psn_;
  uint32_t msn_ = 0;
  uint32_t filled_ = 0;
  bool nak_sent_ = false;

  std::vector<roce::Packet> out_;
  std::deque<Completion> completions_;
  uint64_t retransmitted_ = 0;
  uint64_t timeouts_ = 0;
};

}  // namespace epic::sim
