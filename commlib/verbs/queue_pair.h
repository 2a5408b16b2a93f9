// A reliable connection, to a switch endpoint or to another rank: plain libibverbs, nothing private.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/types.h"
#include "commlib/verbs/any_qp.h"
#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/device.h"
#include "epic/epic.h"

namespace epic::verbs {

// The other end and the manager's choices (docs/PROTOCOL.md, "What a host does about trouble").
struct ConnectInfo {
  std::string name = "the switch";  // the other end's, for messages
  Ipv4 remote_ip{};
  uint32_t remote_qpn = 0;
  uint32_t send_psn = 0;
  uint32_t recv_psn = 0;
  uint32_t path_mtu = 0;  // bytes
  uint8_t timeout = 0;    // 4.096 us * 2^timeout
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry = 0;
  uint8_t min_rnr_timer = 0;
  bool super_frames = false;  // the other end takes them
};

// RDMA Reads over a queue pair: none, or its own and the other end's.
enum class Reads : uint8_t { kNone, kBothWays };

// Not thread-safe; its owner has a lock.
class QueuePair : public AnyQp {
 public:
  // A queue pair in state INIT, whose completions go to `cq`. With `reads` each end has up to kMaxReads under
  // way, if its NIC can; of what is posted beyond, the NIC begins none before another one is through.
  // kNoResource or kInternal if verbs refuse.
  static constexpr uint8_t kMaxReads = 8;
  static Error Create(std::shared_ptr<Device> device, std::shared_ptr<CompletionQueue> cq, uint32_t max_sends,
                      uint32_t max_recvs, std::unique_ptr<QueuePair>* qp, Reads reads = Reads::kNone);

  // INIT to RTR to RTS. The kernel resolves the remote address by ARP: kTransport after some attempts without
  // an answer. Blocks for up to some seconds.
  Error Connect(const ConnectInfo& info);

  // Destroys the queue pair: afterwards the NIC does not touch any buffer, and nothing completes.
  using AnyQp::DestroyQp;

  // As PostRecvs, of sends.
  using AnyQp::PostSends;

  // What comes is acknowledged only every so many messages (1: each), or after the delay; at once if it is
  // changed. Without effect if the NIC does not offer that.
  void ShareAcks(uint32_t messages, uint32_t delay_us);

 private:
  QueuePair() = default;
  Error ToReadyToReceive(const ConnectInfo& info);
  Error ToReadyToSend(const ConnectInfo& info);
  // As many of the Reads that the NIC can have as this queue pair is to have.
  uint8_t ReadsOf(uint8_t most) const;

  Reads reads_ = Reads::kNone;
};

// "10.0.0.1".
std::string ToString(Ipv4 ip);

}  // namespace epic::verbs
