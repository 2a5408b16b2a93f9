// What a queue pair is made with, what Modify sets, and what it counts.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip.h"
#include "base/path_mtu.h"
#include "base/psn.h"
#include "base/types.h"
#include "roce/transport/rate.h"
#include "roce/transport/types.h"

namespace epic::roce {

// Choices that the InfiniBand specification leaves open, or that implementations make differently.
struct Policy {
  // Ask for an acknowledgement at this many packets without one, and at the end of every message. The count
  // goes on through repetitions, so a repeated packet may ask when it did not before (as Linux' rdma_rxe).
  int ack_req_every = 66;
  // Unacknowledged PSNs after which nothing more is sent.
  int32_t max_outstanding = 128;
  // rdma_rxe: once a sequence NAK has started a repetition, further ones start none until a request completes
  // or an ACK makes progress. By specification each starts one.
  bool one_retry_per_ack = false;
  // rdma_rxe: retry_cnt 7 has no end. By specification only rnr_retry 7 has none.
  bool retry_7_is_forever = false;
  // The responder holds acknowledgements back until so many were asked for, or for ack_delay_ns. One of a
  // later PSN replaces all before.
  int ack_after = 1;
  Nanos ack_delay_ns = 0;
  // Messages are acknowledged when the owner lets their sender send on (QueuePair::Release), not when they
  // have come; of the one that is due next also what has come of it, if `within_messages`: for a peer whose
  // window may be shorter than a message. A NAK still acknowledges everything before its PSN.
  bool hold_acks = false;
  bool within_messages = true;
  // Acknowledgements say how many receives are posted; rdma_rxe never does. What a peer says is always kept
  // to.
  bool give_credits = false;
  // At most one congestion notification in this time (RoCEv2 annex A17.9.3, and DCQCN's notification point).
  Nanos cnp_interval_ns = 50 * kMicrosecond;
  RateConfig rate;
};

// How rdma_rxe of Linux 6.1 behaves where it matters to its peer.
constexpr Policy RxeLike() {
  Policy policy;
  policy.one_retry_per_ack = true;
  policy.retry_7_is_forever = true;
  return policy;
}

// Fixed for the life of a queue pair.
struct QpConfig {
  Ip local_ip;
  Qpn local_qpn{};
  uint32_t send_depth = 256;
  uint32_t recv_depth = 256;
  uint32_t max_inline_bytes = 64;
  // RDMA Reads and atomics outstanding, own ones and the peer's: the most that Modify may ask for; at most
  // 128.
  uint8_t max_rd_atomic = 16;
  // Receives come from a shared receive queue (Memory::TakeSharedReceive), one per message; PostRecv takes
  // none, recv_depth counts for nothing, and credits are not given (InfiniBand specification 10.2.9.1).
  bool shared_receives = false;
  Policy policy;
};

// The longest message, in bytes. At the smallest path MTU it has 2^22 packets, half of what PSNs can tell
// apart.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 30;

// As ibv_modify_qp: what is not set stays as it is. What is marked so may be set again in SQD.
struct QpChange {
  std::optional<QpState> state;
  // To INIT.
  std::optional<bool> remote_read, remote_write, remote_atomic;  // access flags
  // To RTR.
  std::optional<Ip> remote_ip;  // again in SQD
  // Of the same version, if it is another one than the configuration's; again in SQD.
  std::optional<Ip> local_ip;
  // Of every packet, requests and answers; of IPv4 the type of service. ECT(0) = 2 in its last two bits lets
  // switches mark it. Again in SQD.
  std::optional<uint8_t> traffic_class;
  std::optional<Qpn> remote_qpn;
  std::optional<uint32_t> path_mtu;  // of kPathMtus
  std::optional<Psn> rq_psn;
  // RDMA Reads and atomics that the peer may have outstanding; again in SQD.
  std::optional<uint8_t> max_dest_rd_atomic;
  std::optional<uint8_t> min_rnr_timer;  // code
  // To RTS; all but the PSN again in SQD.
  std::optional<Psn> sq_psn;
  std::optional<uint8_t> timeout;  // exponent; 0 is for ever
  std::optional<uint8_t> retry_cnt, rnr_retry;
  std::optional<uint8_t> max_rd_atomic;  // own RDMA Reads and atomics outstanding
};

enum class ModifyResult : uint8_t {
  kOk,
  kBadTransition,     // InfiniBand specification 10.3.1, figure 126
  kMissingAttribute,  // the transition needs one that was not given
  kBadAttribute,      // a value out of range
  kAttributeNotNow,   // the attribute cannot be changed in this transition
};

struct QpAttributes {
  bool remote_read = false, remote_write = false, remote_atomic = false;
  Ip remote_ip, local_ip;
  uint8_t traffic_class = 0;
  Qpn remote_qpn{};
  uint32_t path_mtu = 1024;
  Psn rq_psn, sq_psn;
  uint8_t max_dest_rd_atomic = 0, max_rd_atomic = 0;
  uint8_t min_rnr_timer = 0;
  uint8_t timeout = 0;
  uint8_t retry_cnt = 0, rnr_retry = 0;
};

// Whether every value that is given lies in its range; at most so many Reads either way.
bool InRange(const QpChange& change, uint8_t max_rd_atomic);
// Whether both ends' addresses are of one version, if the change names one.
bool IsOneVersion(const QpChange& change, const QpAttributes& now);
// Sets what is given.
void TakeAttributes(const QpChange& change, QpAttributes* to);

struct QpCounters {
  uint64_t packets_sent = 0;  // requests and responses
  uint64_t packets_repeated = 0;
  uint64_t timeouts = 0;
  uint64_t naks_received = 0;
  uint64_t rnr_naks_received = 0;
  uint64_t naks_sent = 0;
  uint64_t rnr_naks_sent = 0;
  uint64_t duplicates = 0;
  uint64_t out_of_sequence = 0;
  uint64_t cnps_received = 0;
  uint64_t cnps_sent = 0;
  uint64_t read_gaps = 0;  // a read response was missing
  // Dropped without an answer:
  uint64_t not_ours = 0;       // addresses, QPN or P_Key of somebody else
  uint64_t bad_state = 0;      // the queue pair does not receive now
  uint64_t ack_beyond = 0;     // acknowledges what was never sent
  uint64_t stale = 0;          // response to something completed long since
  uint64_t bad_response = 0;   // malformed, but not worth an error
  uint64_t bad_duplicate = 0;  // repeated read or atomic that is none
  uint64_t no_room = 0;        // too many answers waiting
};

}  // namespace epic::roce
