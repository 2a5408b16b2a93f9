#include "commlib/verbs/any_qp.h"

#include <cerrno>
#include <utility>

#include "commlib/verbs/ports.h"
#include "commlib/verbs/verbs_error.h"

namespace epic::verbs {

Error AnyQp::CreateQp(std::shared_ptr<Device> device, std::shared_ptr<CompletionQueue> cq, ibv_qp_type type,
                      uint32_t max_sends, uint32_t max_recvs, ibv_qp_attr attr, int mask) {
  device_ = std::move(device);
  cq_ = std::move(cq);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_->cq_;
  init.cap = {.max_send_wr = max_sends,
              .max_recv_wr = max_recvs,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = type;
  qp_ = ibv_create_qp(device_->pd(), &init);
  if (qp_ == nullptr) return VerbsError(ErrorCode::kNoResource, "cannot create a queue pair", errno);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = device_->port();
  const int error = ibv_modify_qp(qp_, &attr, mask | IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
  if (error != 0) return VerbsError(ErrorCode::kInternal, "cannot initialise the queue pair", error);
  return {};
}

void AnyQp::ToError() {
  if (qp_ == nullptr) return;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(qp_, &attr, IBV_QP_STATE);
}

void AnyQp::DestroyQp() {
  if (qp_ != nullptr) ibv_destroy_qp(qp_);
  qp_ = nullptr;
}

ibv_ah_attr AnyQp::AddressOf(Ipv4 ip, uint8_t hop_limit) const {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = device_->port();
  attr.grh.dgid = GidOf(ip);
  attr.grh.hop_limit = hop_limit;
  attr.grh.sgid_index = device_->gid_index();
  return attr;
}

}  // namespace epic::verbs
