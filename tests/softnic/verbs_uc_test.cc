// Unreliable connections by verbs.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr QpOptions kUc{.type = IBV_QPT_UC};

void Fill(Connection& c, size_t bytes) { std::iota(c.a.at(0), c.a.at(bytes), uint8_t{1}); }
bool SameAtB(Connection& c, size_t at, size_t bytes) {
  return std::memcmp(c.a.at(0), c.b.at(at), bytes) == 0;
}

TEST(VerbsUc, SendsAndWritesArrive) {
  Connection c(kUc);
  Fill(c, 5000);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 8192, 5000), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 5000), 0);
  const ibv_wc sent = Await(c.cq_a), received = Await(c.cq_b);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 5000u);
  EXPECT_EQ(received.qp_num, c.qp_b->qp_num);
  EXPECT_EQ(received.wc_flags & unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM}, 0u);
  EXPECT_TRUE(SameAtB(c, 8192, 5000));

  ASSERT_EQ(PostRecv(c.b, c.qp_b, 3, 0, 0), 0);
  ibv_sge sge{c.a.address(0), 3000, c.a.mr->lkey};
  ibv_send_wr wr{.wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM},
      *bad = nullptr;
  wr.imm_data = htonl(77);
  wr.wr.rdma = {c.b.address(20000), c.b.mr->rkey};
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).opcode, IBV_WC_RDMA_WRITE);
  const ibv_wc written = Await(c.cq_b);
  EXPECT_EQ(written.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ntohl(written.imm_data), 77u);
  EXPECT_EQ(written.byte_len, 3000u);
  EXPECT_TRUE(SameAtB(c, 20000, 3000));
}

TEST(VerbsUc, QueryTellsWhatWasSet) {
  Connection c(kUc);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(c.qp_a, &attr, ~0, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, c.qp_b->qp_num);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(attr.sq_draining, 0);
  EXPECT_EQ(init.qp_type, IBV_QPT_UC);
}

// man ibv_modify_qp: the attributes of each transition.
TEST(VerbsUc, WhatIsOfReliableConnectionsIsRefused) {
  Connection c(kUc);
  ibv_qp* qp = c.qp_a;
  ibv_qp_attr attr{};
  const auto modify = [&](ibv_qp_state to, int mask) {
    attr.qp_state = to;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
  };
  attr.port_num = 1;
  ASSERT_EQ(modify(IBV_QPS_RESET, 0), 0);
  EXPECT_EQ(modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL) << "no access flags";
  const int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(modify(IBV_QPS_INIT, init | IBV_QP_TIMEOUT), EINVAL);
  ASSERT_EQ(modify(IBV_QPS_INIT, init), 0);
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = c.qp_b->qp_num;
  attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
  attr.ah_attr.grh = {.dgid = c.b.gid(), .sgid_index = 1};
  const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  for (const int more : {IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER})
    EXPECT_EQ(modify(IBV_QPS_RTR, rtr | more), EINVAL) << more;
  EXPECT_EQ(modify(IBV_QPS_RTR, rtr & ~IBV_QP_PATH_MTU), EINVAL);
  ASSERT_EQ(modify(IBV_QPS_RTR, rtr), 0);
  for (const int more : {IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC})
    EXPECT_EQ(modify(IBV_QPS_RTS, IBV_QP_SQ_PSN | more), EINVAL) << more;
  EXPECT_EQ(modify(IBV_QPS_RTS, 0), EINVAL);
  ibv_qp_init_attr unused{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, ~0, &unused), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTR) << "nothing has changed";
  ASSERT_EQ(modify(IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
  EXPECT_EQ(PostRdma(c.a, qp, IBV_WR_RDMA_READ, 1, 0, 8, {c.b.address(0), c.b.mr->rkey}), EINVAL);
  EXPECT_EQ(PostSend(c.a, qp, 2, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 2u);
}

TEST(VerbsUc, ASendErrorIsTheSendQueuesAlone) {
  Connection c(kUc);
  ibv_sge sge{c.a.address(0), 8, c.a.mr->lkey + 1};
  ibv_send_wr wr{.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = nullptr;
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_WR_FLUSH_ERR);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(c.qp_a, &attr, ~0, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_SQE);
  // It receives all the time, and sends again from RTS on.
  ASSERT_EQ(PostRecv(c.a, c.qp_a, 3, 0, 8), 0);
  ASSERT_EQ(PostSend(c.b, c.qp_b, 4, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 3u);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 5, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 6, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
}

TEST(VerbsUc, WritesThatMayNotBeAreDropped) {
  Connection c({.access = 0, .type = IBV_QPT_UC});
  c.b.at(100)[0] = 9;
  c.a.at(0)[0] = 1;
  ASSERT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 1, 0, 8, {c.b.address(100), c.b.mr->rkey}), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS) << "nobody says otherwise";
  // What is sent behind it tells when it would have been there.
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 2, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 3, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(c.b.at(100)[0], 9);
}

}  // namespace
}  // namespace epic::softnic::testing
