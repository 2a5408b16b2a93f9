#include "commlib/work_batch.h"

#include <netinet/in.h>

namespace epic::internal {

void WorkBatch::Add(const GroupCalls::Request& request, const ibv_sge& sge) {
  connection_ = request.connection;
  ibv_sge* const at = &sges_[sends_ + recvs_];
  *at = sge;
  if (request.is_recv) {
    recv_wrs_[recvs_] = {.wr_id = request.wr_id, .next = nullptr, .sg_list = at, .num_sge = 1};
    if (recvs_ > 0) recv_wrs_[recvs_ - 1].next = &recv_wrs_[recvs_];
    ++recvs_;
    return;
  }
  ibv_send_wr& wr = send_wrs_[sends_];
  wr = {};
  wr.wr_id = request.wr_id;
  wr.sg_list = at;
  wr.num_sge = 1;
  wr.opcode = request.has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
  if (request.verb == HostVerb::kRead) {
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma = {.remote_addr = request.remote.address, .rkey = request.remote.rkey};
  }
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = htonl(request.imm);
  if (sends_ > 0) send_wrs_[sends_ - 1].next = &wr;
  ++sends_;
}

template <typename Qp>
int WorkBatch::PostTo(Qp* qp, size_t* unposted) {
  ibv_recv_wr* recvs = recvs_ > 0 ? recv_wrs_.data() : nullptr;
  ibv_send_wr* sends = sends_ > 0 ? send_wrs_.data() : nullptr;
  sends_ = recvs_ = 0;
  *unposted = 0;
  int error = 0;
  if (recvs != nullptr) error = qp->PostRecvs(recvs, &recvs);
  if (error == 0) {
    recvs = nullptr;
    if (sends != nullptr) error = qp->PostSends(sends, &sends);
  }
  if (error == 0) return 0;
  for (; recvs != nullptr; recvs = recvs->next) ++*unposted;
  for (; sends != nullptr; sends = sends->next) ++*unposted;
  return error;
}

template int WorkBatch::PostTo(verbs::QueuePair* qp, size_t* unposted);
template int WorkBatch::PostTo(verbs::DatagramQp* qp, size_t* unposted);

}  // namespace epic::internal
