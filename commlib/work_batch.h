// Work requests of one connection that are posted together: a chain of receives, and behind it one of sends.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "commlib/core/group_calls.h"
#include "commlib/verbs/datagram_qp.h"
#include "commlib/verbs/queue_pair.h"

namespace epic::internal {

class WorkBatch {
 public:
  bool empty() const { return sends_ + recvs_ == 0; }
  // Of the requests here; only if there are some.
  uint32_t connection() const { return connection_; }
  // There is room, and what is here is for the same connection.
  bool Takes(const GroupCalls::Request& request) const {
    return empty() || (request.connection == connection_ && sends_ < kMost && recvs_ < kMost);
  }
  // Not of HostVerb::kQkey, of which nothing is posted.
  void Add(const GroupCalls::Request& request, const ibv_sge& sge);
  // Posts them to their connection's queue pair; then there are none here. The error is an errno, 0 if all
  // are posted; else *unposted are not.
  int Post(verbs::QueuePair* qp, size_t* unposted) { return PostTo(qp, unposted); }
  int Post(verbs::DatagramQp* qp, size_t* unposted) { return PostTo(qp, unposted); }

 private:
  // Of each. What is posted together leaves together, so that a NIC with super-frames can fill them (15
  // datagrams of 4 KiB in each).
  static constexpr size_t kMost = 64;
  template <typename Qp>
  int PostTo(Qp* qp, size_t* unposted);

  uint32_t connection_ = 0;
  size_t sends_ = 0;
  size_t recvs_ = 0;
  // Not initialised: most are never used.
  std::array<ibv_sge, 2 * kMost> sges_;
  std::array<ibv_send_wr, kMost> send_wrs_;
  std::array<ibv_recv_wr, kMost> recv_wrs_;
};

}  // namespace epic::internal
