// What ibv_modify_qp takes in which state, by the type of the queue pair, and what it then does.
#include <gtest/gtest.h>

#include <cerrno>
#include <initializer_list>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

ibv_qp_attr Queried(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, ~0, &init), 0);
  return attr;
}

int GoTo(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{.qp_state = state};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

// Two UD queue pairs of one device, in RTS, and an address handle of it.
struct Datagrams {
  Datagrams() : cq(device.CreateCq(64)), from(CreateUd(device, cq)), ah(CreateAh(device, device.gid())) {}
  ~Datagrams() {
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(ibv_destroy_qp(from), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  int Send(ibv_qp* to) { return PostDatagram(device, from, ah, to->qp_num, 1, 0, 8); }

  Device device;
  ibv_cq* cq;
  ibv_qp* from;
  ibv_ah* ah;
};

TEST(VerbsStates, AnAttributeOfAnotherTypeIsRefused) {
  Connection c;
  Datagrams d;
  ibv_qp_attr attr = Queried(c.qp_a);
  attr.qp_state = IBV_QPS_RTS;
  for (const int bit : {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_TIMEOUT, IBV_QP_ACCESS_FLAGS, IBV_QP_MIN_RNR_TIMER,
                        IBV_QP_DEST_QPN})
    EXPECT_EQ(ibv_modify_qp(d.from, &attr, IBV_QP_STATE | bit), EINVAL) << bit;
  for (const int bit : {IBV_QP_QKEY, IBV_QP_PORT, IBV_QP_AV, IBV_QP_TIMEOUT, IBV_QP_EN_SQD_ASYNC_NOTIFY,
                        IBV_QP_CAP, IBV_QP_ALT_PATH})
    EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE | bit), EINVAL) << bit;
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  EXPECT_EQ(Queried(c.qp_a).qp_state, IBV_QPS_RTS);
  EXPECT_EQ(Queried(d.from).qp_state, IBV_QPS_RTS);
}

TEST(VerbsStates, WithoutAStateItStaysWhereItIs) {
  Connection c;
  ibv_qp_attr attr{.qp_state = IBV_QPS_ERR, .qp_access_flags = IBV_ACCESS_REMOTE_READ, .min_rnr_timer = 9};
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, 0), 0);
  EXPECT_EQ(Queried(c.qp_a).qp_state, IBV_QPS_RTS);
  EXPECT_EQ(Queried(c.qp_a).min_rnr_timer, 9);
  ASSERT_EQ(GoTo(c.qp_a, IBV_QPS_RESET), 0);
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_ACCESS_FLAGS), EINVAL);
}

// There are no alternate paths.
TEST(VerbsStates, OnlyOneStateOfMigrationIsTrue) {
  Connection c;
  ibv_qp_attr attr{.path_mig_state = IBV_MIG_MIGRATED};
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_PATH_MIG_STATE), 0);
  attr.path_mig_state = IBV_MIG_REARM;
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
}

TEST(VerbsStates, ADrainedConnectionTakesAnotherPathAndRetries) {
  Connection c;
  ASSERT_EQ(GoTo(c.qp_a, IBV_QPS_SQD), 0);
  ibv_qp_attr attr = Queried(c.qp_a);
  attr.timeout = 15;
  attr.retry_cnt = 5;
  attr.rnr_retry = 4;
  attr.max_rd_atomic = 2;
  attr.max_dest_rd_atomic = 3;
  ASSERT_EQ(ibv_modify_qp(c.qp_a, &attr,
                          IBV_QP_AV | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC),
            0);
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_PATH_MTU), EINVAL);
  EXPECT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_SQ_PSN), EINVAL);
  attr = Queried(c.qp_a);
  EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
  EXPECT_EQ(attr.timeout, 15);
  EXPECT_EQ(attr.max_dest_rd_atomic, 3);
  ASSERT_EQ(GoTo(c.qp_a, IBV_QPS_RTS), 0);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Await(c.cq_b).wr_id, 1u);
}

TEST(VerbsStates, ADatagramQueuePairTakesAnotherQkey) {
  Datagrams d;
  ibv_qp* to = CreateUd(d.device, d.cq);
  ASSERT_EQ(PostRecv(d.device, to, 3, 64, kGrh + 8), 0);
  ibv_qp_attr attr{.qkey = kQkey + 1};
  ASSERT_EQ(ibv_modify_qp(to, &attr, IBV_QP_QKEY), 0);
  EXPECT_EQ(Queried(to).qkey, kQkey + 1);
  ASSERT_EQ(d.Send(to), 0);
  EXPECT_EQ(Await(d.cq).wr_id, 1u) << "it is dropped";
  attr = {.qp_state = IBV_QPS_RTS, .qkey = kQkey};
  ASSERT_EQ(ibv_modify_qp(to, &attr, IBV_QP_STATE | IBV_QP_QKEY), 0);
  ASSERT_EQ(d.Send(to), 0);
  EXPECT_EQ(Await(d.cq).wr_id + Await(d.cq).wr_id, 1u + 3u);
  attr.qp_state = IBV_QPS_SQD;
  EXPECT_EQ(ibv_modify_qp(to, &attr, IBV_QP_STATE | IBV_QP_QKEY), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
}

TEST(VerbsStates, ADatagramQueuePairDrainsAndGoesOn) {
  Datagrams d;
  ibv_qp* to = CreateUd(d.device, d.cq);
  ASSERT_EQ(PostRecv(d.device, to, 3, 64, kGrh + 8), 0);
  ASSERT_EQ(GoTo(d.from, IBV_QPS_SQD), 0);
  const auto event = d.device.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event->element.qp, d.from);
  EXPECT_EQ(Queried(d.from).sq_draining, 0);
  ASSERT_EQ(d.Send(to), 0);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(d.cq, 1, &wc), 0);
  ASSERT_EQ(GoTo(d.from, IBV_QPS_RTS), 0);
  EXPECT_EQ(Await(d.cq).wr_id + Await(d.cq).wr_id, 1u + 3u);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
}

TEST(VerbsStates, DatagramsComeToASharedReceiveQueue) {
  Datagrams d;
  ibv_srq_init_attr srq_init{.attr = {.max_wr = 8, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(d.device.pd, &srq_init);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr init{.send_cq = d.cq, .recv_cq = d.cq, .srq = srq, .qp_type = IBV_QPT_UD};
  ibv_qp* to = ibv_create_qp(d.device.pd, &init);
  ASSERT_NE(to, nullptr);
  MakeReady(to);
  EXPECT_NE(PostRecv(d.device, to, 1, 0, 64), 0) << "it has no receive queue of its own";
  ibv_sge sge{d.device.address(64), kGrh + 8, d.device.mr->lkey};
  ibv_recv_wr wr{.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  ASSERT_EQ(d.Send(to), 0);
  EXPECT_EQ(Await(d.cq).wr_id + Await(d.cq).wr_id, 1u + 3u);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(GoTo(to, IBV_QPS_ERR), 0);
  const auto event = d.device.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_FALSE(d.device.HasEvent()) << "it is told once";
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
