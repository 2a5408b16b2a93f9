// Extended queue pairs for our own verbs programs over softnic.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {

inline constexpr uint64_t kRcOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                          IBV_QP_EX_WITH_RDMA_READ;

inline ibv_qp_init_attr_ex InitFor(const Device& device, ibv_cq* cq, ibv_qp_type type, uint64_t operations) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = type;
  init.sq_sig_all = 1;
  init.cap = {
      .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = device.pd;
  init.send_ops_flags = operations;
  return init;
}

// A Connection whose side a has an extended queue pair beside.
struct ExtendedConnection : Connection {
  explicit ExtendedConnection(uint64_t operations = kRcOperations, const QpOptions& options = {})
      : Connection(options) {
    ibv_qp_init_attr_ex init = InitFor(a, cq_a, options.type, operations);
    qp = ibv_create_qp_ex(a.context, &init);
    if (qp == nullptr) Die("ibv_create_qp_ex");
    ex = ibv_qp_to_qp_ex(qp);
    Connect(qp, b.gid(), qp_b->qp_num, options);
    Connect(qp_b, a.gid(), qp->qp_num, options);
  }
  ~ExtendedConnection() {
    if (ibv_destroy_qp(qp) != 0) Die("ibv_destroy_qp");
  }
  void SetPiece(size_t offset, uint32_t bytes) { ibv_wr_set_sge(ex, a.mr->lkey, a.address(offset), bytes); }
  // Nothing has completed, and nothing is on its way that would: what is sent now completes first.
  void ExpectNothingPosted() {
    ASSERT_EQ(PostRecv(b, qp_b, 1, 8192, 8), 0);
    ibv_wr_start(ex);
    ex->wr_id = 77;
    ibv_wr_send(ex);
    SetPiece(0, 8);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_EQ(Await(cq_a).wr_id, 77u);
    EXPECT_EQ(Await(cq_b).wr_id, 1u);
  }

  ibv_qp* qp = nullptr;
  ibv_qp_ex* ex = nullptr;
};

}  // namespace epic::softnic::testing
