// Extended queue pairs and completion queues: requests built by functions, posted whole or not at all, and
// the iterator over completions.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/softnic/verbs_extended_testing.h"

namespace epic::softnic::testing {
namespace {

TEST(VerbsExtended, EveryOperationCarriesItsData) {
  ExtendedConnection c;
  ASSERT_NE(c.ex, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(c.qp_a), nullptr) << "not created for it";
  for (size_t i = 0; i < 5000; ++i) *c.a.at(i) = static_cast<uint8_t>(i * 7);
  const auto same = [&](size_t at_b, size_t at_a, size_t bytes) {
    return std::memcmp(c.b.at(at_b), c.a.at(at_a), bytes) == 0;
  };
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 8192, 6000), 0);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 2, 16384, 6000), 0);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 3, 0, 0), 0);
  // All in one batch, in that order.
  ibv_wr_start(c.ex);
  c.ex->wr_id = 10;
  ibv_wr_send(c.ex);
  c.SetPiece(0, 5000);
  c.ex->wr_id = 11;
  ibv_wr_send_imm(c.ex, htonl(0x01020304));
  const std::array pieces = {ibv_sge{c.a.address(100), 50, c.a.mr->lkey},
                             ibv_sge{c.a.address(0), 100, c.a.mr->lkey}};
  ibv_wr_set_sge_list(c.ex, pieces.size(), pieces.data());
  c.ex->wr_id = 12;
  ibv_wr_rdma_write(c.ex, c.b.mr->rkey, c.b.address(24000));
  c.SetPiece(0, 3000);
  c.ex->wr_id = 13;
  ibv_wr_rdma_write_imm(c.ex, c.b.mr->rkey, c.b.address(28000), htonl(5));
  c.SetPiece(0, 2000);
  c.ex->wr_id = 14;
  ibv_wr_rdma_read(c.ex, c.b.mr->rkey, c.b.address(24000));
  c.SetPiece(40000, 3000);
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  for (const ibv_wc_opcode opcode :
       {IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ}) {
    const ibv_wc wc = Await(c.cq_a);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << wc.wr_id;
    EXPECT_EQ(wc.opcode, opcode) << wc.wr_id;
  }
  EXPECT_EQ(Await(c.cq_b).byte_len, 5000u);
  const ibv_wc with_imm = Await(c.cq_b);
  EXPECT_EQ(with_imm.byte_len, 150u);
  EXPECT_EQ(with_imm.imm_data, htonl(0x01020304));
  EXPECT_EQ(Await(c.cq_b).imm_data, htonl(5));
  EXPECT_TRUE(same(8192, 0, 5000));
  EXPECT_TRUE(same(16384, 100, 50) && same(16434, 0, 100));
  EXPECT_TRUE(same(24000, 0, 3000) && same(28000, 0, 2000));
  EXPECT_EQ(std::memcmp(c.a.at(40000), c.a.at(0), 3000), 0);
}

TEST(VerbsExtended, InlineDataIsTheCallersAgainAtOnce) {
  ExtendedConnection c;
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 64), 0);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 2, 64, 64), 0);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 3, 128, 64), 0);
  std::array<char, 16> own{};
  std::memcpy(own.data(), "hello, world", 13);
  ibv_wr_start(c.ex);
  ibv_wr_send(c.ex);
  ibv_wr_set_inline_data(c.ex, own.data(), 13);
  ibv_wr_send(c.ex);
  const std::array<ibv_data_buf, 3> list = {{{own.data() + 7, 5}, {own.data(), 0}, {own.data(), 5}}};
  ibv_wr_set_inline_data_list(c.ex, list.size(), list.data());
  ibv_wr_send(c.ex);
  ibv_wr_set_inline_data_list(c.ex, 0, nullptr);
  own.fill('x');
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  EXPECT_EQ(Await(c.cq_b).byte_len, 13u);
  EXPECT_EQ(Await(c.cq_b).byte_len, 10u);
  EXPECT_EQ(Await(c.cq_b).byte_len, 0u);
  EXPECT_EQ(std::memcmp(c.b.at(0), "hello, world", 13), 0);
  EXPECT_EQ(std::memcmp(c.b.at(64), "worldhello", 10), 0);
}

TEST(VerbsExtended, FlagsAndTheRequestsNumberAreThoseOfItsBeginning) {
  Connection c;
  ibv_qp_init_attr_ex init = InitFor(c.a, c.cq_a, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
  init.sq_sig_all = 0;
  ibv_qp* qp = ibv_create_qp_ex(c.a.context, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  Connect(qp, c.b.gid(), c.qp_b->qp_num);
  Connect(c.qp_b, c.a.gid(), qp->qp_num);
  ibv_wr_start(ex);
  for (uint64_t i = 0; i < 4; ++i) {
    ex->wr_id = i;
    ex->wr_flags = i == 2 ? IBV_SEND_SIGNALED : IBV_SEND_INLINE;  // which the setter says, not the flag
    ibv_wr_rdma_write(ex, c.b.mr->rkey, c.b.address(0));
    ex->wr_id = 99;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_set_sge(ex, c.a.mr->lkey, c.a.address(0), 100);  // longer than what may be inline
  }
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 2u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST(VerbsExtended, DatagramsNameTheirDestination) {
  Device a, b;
  ibv_cq *cq_a = a.CreateCq(8), *cq_b = b.CreateCq(8);
  ibv_qp_init_attr_ex init = InitFor(a, cq_a, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
  ibv_qp* from = ibv_create_qp_ex(a.context, &init);
  init = InitFor(b, cq_b, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
  ibv_qp* to = ibv_create_qp_ex(b.context, &init);
  ASSERT_TRUE(from != nullptr && to != nullptr);
  for (ibv_qp* qp : {from, to}) {
    ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .qkey = 0x1234, .port_num = 1};
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  ibv_ah_attr ah_attr{.is_global = 1, .port_num = 1};
  ah_attr.grh = {.dgid = b.gid(), .sgid_index = 1};
  ibv_ah *ah = ibv_create_ah(a.pd, &ah_attr), *foreign = ibv_create_ah(b.pd, &ah_attr);
  ASSERT_TRUE(ah != nullptr && foreign != nullptr);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(from);
  const auto send = [&](ibv_ah* with) {
    ibv_wr_start(ex);
    ibv_wr_send_imm(ex, htonl(6));
    if (with != nullptr) ibv_wr_set_ud_addr(ex, with, to->qp_num, 0x1234);
    ibv_wr_set_sge(ex, a.mr->lkey, a.address(0), 5);
    return ibv_wr_complete(ex);
  };
  EXPECT_EQ(send(nullptr), EINVAL) << "no destination";
  EXPECT_EQ(send(foreign), EINVAL) << "of another device";
  std::memcpy(a.at(0), "hello", 5);
  ASSERT_EQ(PostRecv(b, to, 1, 0, 100), 0);
  ASSERT_EQ(send(ah), 0);
  EXPECT_EQ(Await(cq_a).status, IBV_WC_SUCCESS);
  const ibv_wc wc = Await(cq_b);
  EXPECT_EQ(wc.imm_data, htonl(6));
  EXPECT_EQ(wc.src_qp, from->qp_num);
  EXPECT_EQ(std::memcmp(b.at(40), "hello", 5), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_ah(foreign), 0);
  EXPECT_EQ(ibv_destroy_qp(from), 0);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
  EXPECT_EQ(ibv_destroy_cq(cq_a), 0);
  EXPECT_EQ(ibv_destroy_cq(cq_b), 0);
}

// What may be wrong with one request; a good one is in front of it and another behind.
TEST(VerbsExtended, ABatchIsPostedWholeOrNotAtAll) {
  ExtendedConnection c(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
  std::array<uint8_t, 65> own{};
  std::vector<ibv_sge> too_many(1000, ibv_sge{c.a.address(0), 8, c.a.mr->lkey});
  const auto batch = [&](const auto& wrong) {
    ibv_wr_start(c.ex);
    ibv_wr_send(c.ex);
    c.SetPiece(0, 8);
    wrong();
    ibv_wr_send(c.ex);
    c.SetPiece(0, 8);
    return ibv_wr_complete(c.ex);
  };
  EXPECT_EQ(batch([&] {
              ibv_wr_send(c.ex);
              ibv_wr_set_sge_list(c.ex, too_many.size(), too_many.data());
            }),
            EINVAL);
  EXPECT_EQ(batch([&] {
              ibv_wr_send(c.ex);
              ibv_wr_set_inline_data(c.ex, own.data(), own.size());
            }),
            EINVAL)
      << "64 bytes were asked for";
  EXPECT_EQ(batch([&] {
              ibv_wr_rdma_read(c.ex, c.b.mr->rkey, c.b.address(0));
              ibv_wr_set_inline_data(c.ex, own.data(), 8);
            }),
            EINVAL)
      << "a Read has no data to send: found when it is posted";
  EXPECT_EQ(batch([&] { c.SetPiece(0, 8); }), EINVAL) << "data twice";
  EXPECT_EQ(batch([&] { ibv_wr_rdma_write(c.ex, c.b.mr->rkey, c.b.address(0)); }), EOPNOTSUPP)
      << "not asked for when it was created";
  EXPECT_EQ(batch([&] { ibv_wr_local_inv(c.ex, 1); }), EOPNOTSUPP);
  EXPECT_EQ(batch([&] { ibv_wr_set_ud_addr(c.ex, nullptr, 1, 1); }), EOPNOTSUPP) << "no datagrams";
  EXPECT_EQ(batch([&] {
              for (int i = 0; i < 7; ++i) {
                ibv_wr_send(c.ex);
                c.SetPiece(0, 8);
              }
            }),
            ENOMEM)
      << "nine, and it has eight places";
  ibv_wr_start(c.ex);
  c.SetPiece(0, 8);
  EXPECT_EQ(ibv_wr_complete(c.ex), EINVAL) << "data of no request";
  ibv_wr_start(c.ex);
  ibv_wr_send(c.ex);
  c.SetPiece(0, 8);
  ibv_wr_abort(c.ex);
  EXPECT_EQ(ibv_wr_complete(c.ex), EINVAL) << "nothing was started";
  ibv_wr_abort(c.ex);
  ibv_wr_send(c.ex);
  ibv_wr_start(c.ex);
  EXPECT_EQ(ibv_wr_complete(c.ex), 0) << "an empty batch";
  c.ExpectNothingPosted();
}

TEST(VerbsExtended, ABatchThatTheQueueHasNoRoomForLeavesNothing) {
  ExtendedConnection c;
  const auto post = [&](int count) {
    ibv_wr_start(c.ex);
    for (int i = 0; i < count; ++i) {
      ibv_wr_send(c.ex);
      c.SetPiece(0, 8);
    }
    return ibv_wr_complete(c.ex);
  };
  // They wait for a receive.
  ASSERT_EQ(post(6), 0);
  EXPECT_EQ(post(3), ENOMEM);
  EXPECT_EQ(post(2), 0);
  EXPECT_EQ(post(1), ENOMEM);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 0, 8), 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(Await(c.cq_b).wr_id, i);
  c.ExpectNothingPosted();
}

TEST(VerbsExtended, NothingIsPostedWhereItDoesNotSend) {
  ExtendedConnection c;
  ibv_qp_attr attr{.qp_state = IBV_QPS_RESET};
  ASSERT_EQ(ibv_modify_qp(c.qp, &attr, IBV_QP_STATE), 0);
  for (const int count : {1, 2}) {
    ibv_wr_start(c.ex);
    for (int i = 0; i < count; ++i) ibv_wr_send(c.ex);
    EXPECT_EQ(ibv_wr_complete(c.ex), EINVAL);
  }
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(c.qp, &attr, IBV_QP_STATE), 0);
  ibv_wr_start(c.ex);
  for (c.ex->wr_id = 0; c.ex->wr_id < 3; ++c.ex->wr_id) ibv_wr_send(c.ex);
  EXPECT_EQ(ibv_wr_complete(c.ex), 0) << "flushed, as with ibv_post_send";
  for (uint64_t i = 0; i < 3; ++i) {
    const ibv_wc wc = Await(c.cq_a);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.wr_id, i);
  }
}

TEST(VerbsExtended, BatchesOfThreadsDoNotMix) {
  ExtendedConnection c;
  constexpr int kThreads = 4, kBatches = 30;  // all of their completions have room at once
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&c, t] {
      for (uint64_t i = 0; i < kBatches;) {
        ibv_wr_start(c.ex);
        for (uint64_t part = 0; part < 2; ++part) {
          c.ex->wr_id = t << 32 | i << 1 | part;
          ibv_wr_rdma_write(c.ex, c.b.mr->rkey, c.b.address(0));
          c.SetPiece(0, 8);
        }
        const int error = ibv_wr_complete(c.ex);
        if (error == 0) ++i;
        if (error != 0 && error != ENOMEM) return;  // the test sees that completions are missing
        if (error == ENOMEM) std::this_thread::yield();
      }
    });
  }
  std::array<uint64_t, kThreads> next{};
  for (int i = 0; i < kThreads * kBatches; ++i) {
    const uint64_t first = Await(c.cq_a).wr_id, second = Await(c.cq_a).wr_id;
    EXPECT_EQ(second, first | 1);
    EXPECT_EQ(first & UINT32_MAX, next[first >> 32]++ << 1);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(VerbsExtended, QueuePairsThatCannotBeHadAreRefused) {
  Device device, other;
  ibv_cq* cq = device.CreateCq(8);
  const auto refused_with = [&](const ibv_qp_init_attr_ex& init) {
    ibv_qp_init_attr_ex copy = init;
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(device.context, &copy), nullptr);
    return errno;
  };
  const ibv_qp_init_attr_ex good = InitFor(device, cq, IBV_QPT_RC, kRcOperations);
  ibv_qp_init_attr_ex init = good;
  init.send_ops_flags |= IBV_QP_EX_WITH_TSO;
  EXPECT_EQ(refused_with(init), EOPNOTSUPP);
  init = InitFor(device, cq, IBV_QPT_UD, kRcOperations);
  EXPECT_EQ(refused_with(init), EOPNOTSUPP) << "datagrams do not write";
  init = good;
  init.send_ops_flags |= uint64_t{1} << 63;
  EXPECT_EQ(refused_with(init), EOPNOTSUPP);
  init = good;
  init.qp_type = IBV_QPT_DRIVER;
  EXPECT_EQ(refused_with(init), EOPNOTSUPP);
  init = good;
  init.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  EXPECT_EQ(refused_with(init), EOPNOTSUPP);
  init = good;
  init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  EXPECT_EQ(refused_with(init), EOPNOTSUPP);
  init = good;
  init.comp_mask &= ~uint32_t{IBV_QP_INIT_ATTR_PD};
  EXPECT_EQ(refused_with(init), EINVAL);
  init = good;
  init.pd = other.pd;
  EXPECT_EQ(refused_with(init), EINVAL);
  init = good;
  init.cap.max_send_wr = 1u << 30;
  EXPECT_EQ(refused_with(init), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), 0) << "nobody was counted as its user";
}

}  // namespace
}  // namespace epic::softnic::testing
