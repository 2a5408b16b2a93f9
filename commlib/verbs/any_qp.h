// What queue pairs of all types have in common: plain libibverbs, nothing private.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "base/types.h"
#include "commlib/verbs/completion_queue.h"
#include "commlib/verbs/device.h"
#include "epic/epic.h"

namespace epic::verbs {

// Owns a queue pair and holds what it stands on. Not thread-safe; its owner has a lock.
class AnyQp {
 public:
  AnyQp(const AnyQp&) = delete;
  AnyQp& operator=(const AnyQp&) = delete;

  uint32_t qpn() const { return qp_->qp_num; }
  bool exists() const { return qp_ != nullptr; }

  // To the error state: everything outstanding completes with a flush error.
  void ToError();

  // Posts a chain or one request; the error is an errno, 0 if posted. *rest: after an error, the part of the
  // chain that is not posted.
  int PostRecvs(ibv_recv_wr* first, ibv_recv_wr** rest) { return ibv_post_recv(qp_, first, rest); }

 protected:
  AnyQp() = default;
  ~AnyQp() { DestroyQp(); }

  // A queue pair in state INIT, of which `attr` has what `mask` says beside state, port and P_Key.
  // kNoResource or kInternal if verbs refuse.
  Error CreateQp(std::shared_ptr<Device> device, std::shared_ptr<CompletionQueue> cq, ibv_qp_type type,
                 uint32_t max_sends, uint32_t max_recvs, ibv_qp_attr attr, int mask);
  void DestroyQp();
  int PostSends(ibv_send_wr* first, ibv_send_wr** rest) { return ibv_post_send(qp_, first, rest); }

  // An address of RoCE v2 over IPv4, as seen from the device.
  ibv_ah_attr AddressOf(Ipv4 ip, uint8_t hop_limit) const;

  ibv_qp* qp() { return qp_; }
  Device& device() { return *device_; }
  const Device& device() const { return *device_; }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<CompletionQueue> cq_;
  ibv_qp* qp_ = nullptr;
};

}  // namespace epic::verbs
