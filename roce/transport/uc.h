// An unreliable connection (UC) queue pair: the sibling of QueuePair, in the same manner (no I/O, a copy is a
// snapshot). Sends and Writes, with immediate data or not, to one peer; nothing is acknowledged or repeated.
// Memory windows are bound and invalidated in their turn among them.
// InfiniBand Architecture Specification 1.4, 9.8.2.
//
// A message arrives whole or not at all: one of which a packet is missing is dropped in silence, its receive
// serves the next one. Of a Write, what came before the gap has been written.
#pragma once

#include <cstdint>
#include <vector>

#include "roce/packet.h"
#include "roce/transport/config.h"
#include "roce/transport/memory.h"
#include "roce/transport/message.h"
#include "roce/transport/ring.h"
#include "roce/transport/types.h"

namespace epic::roce {

struct UcConfig {
  Ip local_ip;
  Qpn local_qpn{};
  uint32_t send_depth = 64;
  uint32_t recv_depth = 64;
  uint32_t max_inline_bytes = 64;
  // Receives come from a shared receive queue, as QpConfig says. One that a message took and did not use up
  // stays with the queue pair for the next.
  bool shared_receives = false;
};

struct UcCounters {
  uint64_t packets_sent = 0;
  // Packets dropped:
  uint64_t not_ours = 0;         // addresses, QPN, P_Key or transport of somebody else
  uint64_t bad_state = 0;        // the queue pair does not receive now
  uint64_t out_of_sequence = 0;  // of a message that is not in hand, or after a gap in it
  uint64_t no_recv = 0;
  uint64_t refused = 0;  // lengths, keys or rights are not as they must be
  // Messages given up because another one began, or for a reason above.
  uint64_t cut_short = 0;
};

class UcQueuePair {
 public:
  explicit UcQueuePair(const UcConfig& config);

  // As QueuePair's, without what is RC's alone (Reads, retries, timers), which is kAttributeNotNow; that
  // Reads are allowed may be said, and means nothing. An error of a send leads to SQE, from where RTS goes
  // on.
  ModifyResult Modify(const QpChange& change);
  QpState state() const { return state_; }
  const QpAttributes& attributes() const { return attr_; }

  // Sends, Writes, and what is local. One is complete when its last packet has been given to the sink, so
  // that its memory may be the consumer's again as soon as the sink has let go of it.
  PostResult PostSend(const SendWr& wr);
  // As QueuePair's.
  PostResult CheckSend(const SendWr& wr, size_t ahead = 0) const;
  PostResult PostRecv(const RecvWr& wr);
  void OnPacket(const Packet& packet, Memory& memory);
  // Sends what was posted, at most `budget` packets.
  void Poll(Memory& memory, PacketSink& sink, int budget = 256);
  bool wants_poll() const;
  bool NextCompletion(Completion* out);

  // In SQD: no message is half sent.
  bool sq_drained() const { return state_ == QpState::kSqd && sent_ == 0; }
  const UcCounters& counters() const { return counters_; }

 private:
  bool IsForUs(const Packet& packet) const;
  bool Receives() const;
  bool HasRoom(size_t ahead = 0) const;
  bool HasReceive(Memory& memory);
  void GiveUp();
  void Execute(const Packet& packet, Message kind, Memory& memory);
  void Complete(WcStatus status);
  void FailSend(WcStatus status);
  void DoLocal(Memory& memory);
  void EnterError();

  UcConfig config_;
  QpState state_ = QpState::kReset;
  QpAttributes attr_;
  Ring<PostedSend> sends_;
  std::vector<uint8_t> inline_bytes_;
  int64_t sent_ = 0;  // packets of the oldest send
  Psn psn_;           // of the next packet
  Ring<RecvWr> recvs_;
  Psn epsn_;  // within a message
  Arrival in_;
  Ring<Completion> completions_;
  UcCounters counters_;
};

}  // namespace epic::roce
