// The calls themselves: operations, queries, events, who may go before whom, and what is not supported.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <set>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

// As who is linked with another libibverbs finds it.
TEST(VerbsCalls, TheDeviceSaysHowManyPacketsCanBeUnacknowledged) {
  const Device device;
  auto* const most =
      reinterpret_cast<uint32_t (*)(ibv_context*)>(dlsym(RTLD_DEFAULT, "epic_softnic_max_outstanding"));
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(most(device.context), 128u);
}

TEST(VerbsCalls, AcknowledgementsCanBeShared) {
  Connection c;
  auto* const share =
      reinterpret_cast<int (*)(ibv_qp*, uint32_t, uint32_t)>(dlsym(RTLD_DEFAULT, "epic_softnic_share_acks"));
  ASSERT_NE(share, nullptr);
  EXPECT_EQ(share(c.qp_b, 0, 100), EINVAL);
  EXPECT_EQ(share(c.qp_b, 1025, 100), EINVAL);
  ASSERT_EQ(share(c.qp_b, 4, 100), 0);
  for (uint64_t i = 0; i < 9; ++i) {
    ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 0, 8), 0);
    ASSERT_EQ(PostSend(c.a, c.qp_a, i, 0, 8), 0);
    EXPECT_EQ(Await(c.cq_b).wr_id, i);
  }
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(Await(c.cq_a).wr_id, i);
}

TEST(VerbsCalls, EveryOperationCarriesItsData) {
  Connection c;
  for (size_t i = 0; i < 5000; ++i) *c.a.at(i) = static_cast<uint8_t>(i * 7);
  const auto same = [&](size_t offset_b, size_t bytes) {
    return std::memcmp(c.a.at(0), c.b.at(offset_b), bytes) == 0;
  };
  ibv_sge sge{c.a.address(0), 5000, c.a.mr->lkey};
  ibv_send_wr wr{.sg_list = &sge, .num_sge = 1}, *bad = nullptr;
  wr.imm_data = 0x01020304;
  // 5000 bytes are five packets.
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 8192, 6000), 0);
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).opcode, IBV_WC_SEND);
  ibv_wc wc = Await(c.cq_b);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 5000u);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(wc.imm_data, 0x01020304u) << "in the order of the network, as it was given";
  EXPECT_EQ(wc.qp_num, c.qp_b->qp_num);
  EXPECT_TRUE(same(8192, 5000));

  ASSERT_EQ(PostRecv(c.b, c.qp_b, 2, 0, 0), 0);
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.wr.rdma.remote_addr = c.b.address(20000);
  wr.wr.rdma.rkey = c.b.mr->rkey;
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(Await(c.cq_b).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_TRUE(same(20000, 5000));

  ASSERT_EQ(PostRdma(c.b, c.qp_b, IBV_WR_RDMA_READ, 3, 30000, 5000, {c.a.address(0), c.a.mr->rkey}), 0);
  EXPECT_EQ(Await(c.cq_b).opcode, IBV_WC_RDMA_READ);
  EXPECT_TRUE(same(30000, 5000));

  // Inline data is the caller's again at once, and needs no key.
  uint8_t own[16];
  std::memset(own, 0x5c, sizeof own);
  sge = {reinterpret_cast<uintptr_t>(own), sizeof own, 0};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_INLINE;
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  std::memset(own, 0, sizeof own);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_TRUE(std::all_of(c.b.at(20000), c.b.at(20016), [](uint8_t byte) { return byte == 0x5c; }));
}

TEST(VerbsCalls, OnlySignalledRequestsComplete) {
  Connection c;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = c.cq_a;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 16;
  ibv_qp* qp = ibv_create_qp(c.a.pd, &init);
  ASSERT_NE(qp, nullptr);
  Connect(qp, c.b.gid(), c.qp_b->qp_num);
  Connect(c.qp_b, c.a.gid(), qp->qp_num);
  ibv_send_wr wrs[4] = {}, *bad = nullptr;
  ibv_sge sge{c.a.address(0), 8, c.a.mr->lkey};
  for (uint64_t i = 0; i < 4; ++i) {
    wrs[i] = {.wr_id = i,
              .next = i < 3 ? &wrs[i + 1] : nullptr,
              .sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_RDMA_WRITE};
    wrs[i].wr.rdma = {c.b.address(i * 8), c.b.mr->rkey};
  }
  wrs[3].send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(qp, wrs, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 3u);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(c.cq_a, 1, &wc), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST(VerbsCalls, QueryTellsWhatWasSet) {
  Connection c({.send_depth = 33, .recv_depth = 44}, {.timeout = 17, .retry_cnt = 5});
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(c.qp_a, &attr, ~0, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, c.qp_b->qp_num);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.timeout, 17);
  EXPECT_EQ(attr.retry_cnt, 5);
  EXPECT_EQ(attr.rnr_retry, 7);
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.min_rnr_timer, 1);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(std::memcmp(&attr.ah_attr.grh.dgid, c.b.gid().raw, 16), 0);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.send_cq, c.cq_a);
  EXPECT_EQ(init.sq_sig_all, 1);
  EXPECT_GE(init.cap.max_send_wr, 33u);
  EXPECT_GE(attr.cap.max_recv_wr, 44u);
}

TEST(VerbsCalls, TransitionsThatAreNoneAreRefused) {
  Device device;
  ibv_cq* cq = device.CreateCq(8);
  ibv_qp* qp = CreateRc(device, cq);
  ibv_qp_attr attr{.qp_state = IBV_QPS_RTS};
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL) << "without port, P_Key and access";
  attr.port_num = 2;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
  EXPECT_NE(PostSend(device, qp, 1, 0, 8), 0) << "it does not send yet";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(VerbsCalls, PostsThatAreWrongNameTheOneThatIs) {
  Connection c({.send_depth = 2, .recv_depth = 2});
  ibv_sge sges[33] = {};
  ibv_recv_wr second{.wr_id = 2, .sg_list = sges, .num_sge = 33}, *bad_recv = nullptr;
  ibv_recv_wr first{.wr_id = 1, .next = &second};
  EXPECT_EQ(ibv_post_recv(c.qp_b, &first, &bad_recv), EINVAL);
  EXPECT_EQ(bad_recv, &second);
  EXPECT_EQ(PostRecv(c.b, c.qp_b, 3, 0, 8), 0);
  EXPECT_EQ(PostRecv(c.b, c.qp_b, 4, 0, 8), ENOMEM) << "the first of the chain is there, and takes a place";
  ibv_send_wr wr{.opcode = IBV_WR_TSO}, *bad = nullptr;
  EXPECT_EQ(ibv_post_send(c.qp_a, &wr, &bad), EOPNOTSUPP);
  EXPECT_EQ(bad, &wr);
  uint8_t own[65] = {};
  sges[0] = {reinterpret_cast<uintptr_t>(own), sizeof own, 0};
  wr = {.sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
  EXPECT_EQ(ibv_post_send(c.qp_a, &wr, &bad), EINVAL) << "64 bytes were asked for";
}

TEST(VerbsCalls, WhatIsInUseStays) {
  Connection c;
  EXPECT_EQ(ibv_destroy_cq(c.cq_a), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(c.a.pd), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(c.a.channel), EBUSY);
  ibv_pd* pd = ibv_alloc_pd(c.a.context);
  ibv_ah_attr attr{.is_global = 1, .port_num = 1};
  attr.grh = {.dgid = c.b.gid(), .sgid_index = 1};
  ibv_ah* ah = ibv_create_ah(pd, &attr);
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(VerbsCalls, EventsComeOnceForEachRequest) {
  Connection c;
  pollfd readable{c.b.channel->fd, POLLIN, 0};
  ASSERT_EQ(ibv_req_notify_cq(c.cq_b, 0), 0);
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 0, 8), 0);
    ASSERT_EQ(PostSend(c.a, c.qp_a, i, 0, 8), 0);
    EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  }
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), 0);
  EXPECT_EQ(cq, c.cq_b);
  EXPECT_EQ(poll(&readable, 1, 0), 0) << "it was armed once";
  fcntl(c.b.channel->fd, F_SETFL, O_NONBLOCK);
  EXPECT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_ack_cq_events(c.cq_b, 1);
}

TEST(VerbsCalls, DestructionWaitsForAcknowledgements) {
  Connection c;
  ibv_cq* cq = c.b.CreateCq(8);
  ibv_qp* qp = CreateRc(c.b, cq);
  Connect(qp, c.a.gid(), c.qp_a->qp_num);
  Connect(c.qp_a, c.b.gid(), qp->qp_num);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(PostRecv(c.b, qp, 1, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  ibv_cq* told = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(c.b.channel, &told, &user), 0);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  auto destroyed = std::async(std::launch::async, [cq] { return ibv_destroy_cq(cq); });
  EXPECT_EQ(destroyed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(destroyed.get(), 0);
}

TEST(VerbsCalls, QueuePairNumbersAreNotUsedAgainSoon) {
  Device device;
  ibv_cq* cq = device.CreateCq(8);
  std::set<uint32_t> seen;
  for (int i = 0; i < 200; ++i) {
    ibv_qp* qp = CreateRc(device, cq);
    EXPECT_TRUE(seen.insert(qp->qp_num).second) << qp->qp_num;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(VerbsCalls, WhatIsNotSupportedSaysSo) {
  Device device;
  ibv_cq* cq = device.CreateCq(8);
  const auto null_with = [](const void* result, int error) { return result == nullptr && errno == error; };
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND}) {
    init.qp_type = type;
    EXPECT_TRUE(null_with(ibv_create_qp(device.pd, &init), EOPNOTSUPP)) << type;
  }
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 1u << 30;
  EXPECT_TRUE(null_with(ibv_create_qp(device.pd, &init), EINVAL));
  const auto try_register = [&](int access) { return ibv_reg_mr(device.pd, device.at(0), 8, access); };
  EXPECT_TRUE(null_with(try_register(IBV_ACCESS_ON_DEMAND), EOPNOTSUPP));
  EXPECT_TRUE(null_with(try_register(IBV_ACCESS_REMOTE_WRITE), EINVAL)) << "needs local write as well";
  EXPECT_TRUE(null_with(ibv_create_cq(device.context, 0, nullptr, nullptr, 0), EINVAL));
  EXPECT_TRUE(null_with(ibv_create_cq(device.context, 8, nullptr, nullptr, 1), EINVAL));
  ibv_xrcd_init_attr xrcd{};
  EXPECT_TRUE(null_with(ibv_open_xrcd(device.context, &xrcd), EOPNOTSUPP));
  ibv_alloc_dm_attr dm{.length = 64};
  EXPECT_TRUE(null_with(ibv_alloc_dm(device.context, &dm), EOPNOTSUPP));
  ibv_gid gid;
  EXPECT_EQ(ibv_query_gid(device.context, 1, 16, &gid), -1);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(device.context, 2, &port), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
