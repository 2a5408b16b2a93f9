// What goes wrong, and how verbs tells it: completions with errors, asynchronous events, errnos.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

ibv_qp_state StateOf(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

// The other queue pairs of both devices go on.
void ExpectOthersWork(Connection& c) {
  ibv_qp* from = CreateRc(c.a, c.cq_a);
  ibv_qp* to = CreateRc(c.b, c.cq_b);
  Connect(from, c.b.gid(), to->qp_num);
  Connect(to, c.a.gid(), from->qp_num);
  std::memcpy(c.a.at(0), "hello", 5);
  ASSERT_EQ(PostRecv(c.b, to, 1, 64, 64), 0);
  ASSERT_EQ(PostSend(c.a, from, 2, 0, 5), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  const ibv_wc received = Await(c.cq_b);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.byte_len, 5u);
  EXPECT_EQ(std::memcmp(c.b.at(64), "hello", 5), 0);
  EXPECT_EQ(ibv_destroy_qp(from), 0);
  EXPECT_EQ(ibv_destroy_qp(to), 0);
}

// A request that the peer must refuse: an error here, an event there, and its memory as it was.
struct Refusal {
  const char* name;
  ibv_wr_opcode opcode;
  bool wrong_key = false;
  uint32_t bytes = 16;
  int64_t offset = 0;  // to the start of the memory that the key is for
  int mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  int qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  bool other_domain = false;
  ibv_event_type event = IBV_EVENT_QP_ACCESS_ERR;
  ibv_wc_status status = IBV_WC_REM_ACCESS_ERR;
};

std::ostream& operator<<(std::ostream& out, const Refusal& refusal) { return out << refusal.name; }

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, FailsTouchesNothingAndIsTold) {
  const Refusal& how = GetParam();
  Connection c({.access = how.qp_access});
  alignas(8) std::array<uint8_t, 64> target{};
  ibv_pd* pd = how.other_domain ? ibv_alloc_pd(c.b.context) : c.b.pd;
  ibv_mr* mr = ibv_reg_mr(pd, target.data() + 16, 32, how.mr_access);
  ASSERT_NE(mr, nullptr);
  std::memset(c.a.at(0), 0x77, 128);
  const uint64_t address =
      reinterpret_cast<uintptr_t>(target.data() + 16) + static_cast<uint64_t>(how.offset);
  const uint32_t rkey = how.wrong_key ? mr->rkey + 1 : mr->rkey;
  if (how.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    ASSERT_EQ(PostAtomic(c.a, c.qp_a, how.opcode, 7, 0, {address, rkey}, 1), 0);
  } else {
    ASSERT_EQ(PostRdma(c.a, c.qp_a, how.opcode, 7, 0, how.bytes, {address, rkey}), 0);
  }
  ASSERT_EQ(PostSend(c.a, c.qp_a, 8, 0, 16), 0);
  const ibv_wc failed = Await(c.cq_a), flushed = Await(c.cq_a);
  EXPECT_EQ(failed.wr_id, 7u);
  EXPECT_EQ(failed.status, how.status);
  EXPECT_EQ(flushed.wr_id, 8u);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(StateOf(c.qp_a), IBV_QPS_ERR);
  const auto event = c.b.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, how.event);
  EXPECT_EQ(event->element.qp, c.qp_b);
  EXPECT_EQ(StateOf(c.qp_b), IBV_QPS_ERR);
  EXPECT_EQ(target, (std::array<uint8_t, 64>{})) << "nothing was written";
  EXPECT_EQ(c.a.memory[0], 0x77) << "nothing was read";
  ExpectOthersWork(c);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  if (how.other_domain) {
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  }
}

constexpr int kReadOnly = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr int kAtomic = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kWriteOnly = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
INSTANTIATE_TEST_SUITE_P(
    Verbs, RefusalTest,
    ::testing::Values(
        Refusal{.name = "WriteWrongKey", .opcode = IBV_WR_RDMA_WRITE, .wrong_key = true},
        Refusal{.name = "ReadWrongKey", .opcode = IBV_WR_RDMA_READ, .wrong_key = true},
        Refusal{.name = "WriteBeyondTheEnd", .opcode = IBV_WR_RDMA_WRITE, .bytes = 33},
        Refusal{.name = "WriteBeforeTheStart", .opcode = IBV_WR_RDMA_WRITE, .offset = -1},
        Refusal{.name = "ReadBeyondTheEnd", .opcode = IBV_WR_RDMA_READ, .offset = 17},
        Refusal{.name = "WriteToReadable", .opcode = IBV_WR_RDMA_WRITE, .mr_access = kReadOnly},
        Refusal{.name = "ReadFromWritable", .opcode = IBV_WR_RDMA_READ, .mr_access = kWriteOnly},
        Refusal{.name = "WriteOfAnotherDomain", .opcode = IBV_WR_RDMA_WRITE, .other_domain = true},
        Refusal{.name = "QpWithoutWrite",
                .opcode = IBV_WR_RDMA_WRITE,
                .qp_access = IBV_ACCESS_REMOTE_READ,
                .event = IBV_EVENT_QP_REQ_ERR,
                .status = IBV_WC_REM_INV_REQ_ERR},
        Refusal{.name = "AtomicToWritable", .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .qp_access = kAtomic},
        Refusal{.name = "AtomicBeyondTheEnd",
                .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                .offset = 32,
                .mr_access = kAtomic,
                .qp_access = kAtomic},
        Refusal{.name = "QpWithoutAtomic",
                .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                .mr_access = kAtomic,
                .event = IBV_EVENT_QP_REQ_ERR,
                .status = IBV_WC_REM_INV_REQ_ERR},
        Refusal{.name = "QpWithoutRead",
                .opcode = IBV_WR_RDMA_READ,
                .qp_access = IBV_ACCESS_REMOTE_WRITE,
                .event = IBV_EVENT_QP_REQ_ERR,
                .status = IBV_WC_REM_INV_REQ_ERR}),
    [](const auto& test) { return test.param.name; });

TEST(VerbsErrors, ReceiveThatIsTooSmall) {
  Connection c;
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 9), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_REM_INV_REQ_ERR);
  const auto event = c.b.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_QP_REQ_ERR);
  ExpectOthersWork(c);
}

TEST(VerbsErrors, OwnKeyThatIsWrong) {
  Connection c;
  ibv_sge sge{c.a.address(0), 16, c.a.mr->lkey + 1};
  ibv_send_wr wr{.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad = nullptr;
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(StateOf(c.qp_a), IBV_QPS_ERR);
  ExpectOthersWork(c);
}

TEST(VerbsErrors, ErrorStateFlushesInOrderAndAtOnceAfterwards) {
  Connection c;
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(PostRecv(c.a, c.qp_a, i, 0, 8), 0);
  ibv_qp_attr attr{.qp_state = IBV_QPS_ERR};
  ASSERT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(PostRecv(c.a, c.qp_a, 3, 0, 8), 0);
  for (uint64_t i = 0; i < 4; ++i) {
    const ibv_wc wc = Await(c.cq_a);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.qp_num, c.qp_a->qp_num);
  }
  ASSERT_EQ(PostSend(c.a, c.qp_a, 4, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_FALSE(c.a.HasEvent()) << "an error that was asked for is no news";
  // RESET makes it new.
  Connect(c.qp_a, c.b.gid(), c.qp_b->qp_num);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 5, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 6, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Await(c.cq_b).wr_id, 5u);
}

TEST(VerbsErrors, SharedReceivesTellLimitAndLastReceive) {
  Connection c;
  ibv_srq_init_attr init{.attr = {.max_wr = 8, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(c.b.pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_qp* qp = CreateRc(c.b, c.cq_b, {.srq = srq});
  Connect(qp, c.a.gid(), c.qp_a->qp_num);
  Connect(c.qp_a, c.b.gid(), qp->qp_num);
  ibv_sge sge{c.b.address(0), 64, c.b.mr->lkey};
  ibv_recv_wr wr{.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
  EXPECT_EQ(bad, &wr);
  EXPECT_NE(PostRecv(c.b, qp, 1, 0, 8), 0) << "it has no receive queue of its own";
  ibv_srq_attr attr{.srq_limit = 7};
  ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 1, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(c.b.HasEvent());
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  const auto limit = c.b.NextEvent();
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(limit->element.srq, srq);
  ASSERT_EQ(ibv_query_srq(srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 0u) << "it is told once";
  EXPECT_EQ(attr.max_wr, 8u);
  ASSERT_EQ(PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 3, 0, 8, {}), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_REM_ACCESS_ERR);
  for (const ibv_event_type expected : {IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_LAST_WQE_REACHED}) {
    const auto event = c.b.NextEvent();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, expected);
    EXPECT_EQ(event->element.qp, qp);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST(VerbsErrors, CompletionQueueThatIsFull) {
  Connection c;
  ibv_cq* small = c.a.CreateCq(2);
  ibv_qp* qp = CreateRc(c.a, small);
  ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .qp_access_flags = 0, .port_num = 1};
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(PostRecv(c.a, qp, i, 0, 8), 0);
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  const auto event = c.a.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, small);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

// Two opens of one device are two devices; their objects have the same numbers.
TEST(VerbsErrors, WhatIsOfAnotherDeviceIsRefused) {
  Connection c;
  ibv_srq_init_attr srq_init{.attr = {.max_wr = 8, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(c.b.pd, &srq_init);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr own{};
  own.send_cq = own.recv_cq = c.cq_a;
  own.qp_type = IBV_QPT_RC;
  const auto refused = [&](ibv_qp_init_attr init) {
    errno = 0;
    return ibv_create_qp(c.a.pd, &init) == nullptr && errno == EINVAL;
  };
  ibv_qp_init_attr init = own;
  init.send_cq = c.cq_b;
  EXPECT_TRUE(refused(init));
  init = own;
  init.recv_cq = c.cq_b;
  EXPECT_TRUE(refused(init));
  init = own;
  init.srq = srq;
  EXPECT_TRUE(refused(init));
  errno = 0;
  EXPECT_EQ(ibv_create_cq(c.a.context, 8, nullptr, c.b.channel, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);

  init = own;
  init.qp_type = IBV_QPT_UD;
  init.cap.max_send_wr = 1;
  ibv_qp* ud = ibv_create_qp(c.a.pd, &init);
  ASSERT_NE(ud, nullptr);
  ibv_ah_attr attr{.is_global = 1, .port_num = 1};
  attr.grh = {.dgid = c.b.gid(), .sgid_index = 1};
  ibv_ah* ah = ibv_create_ah(c.b.pd, &attr);
  ASSERT_NE(ah, nullptr);
  ibv_send_wr wr{.wr_id = 1, .opcode = IBV_WR_SEND}, *bad = nullptr;
  wr.wr.ud = {.ah = ah, .remote_qpn = 1, .remote_qkey = 1};
  EXPECT_EQ(ibv_post_send(ud, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_qp(ud), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ExpectOthersWork(c);
}

TEST(VerbsErrors, SendQueueDrains) {
  Connection c;
  ibv_qp_attr attr{.qp_state = IBV_QPS_SQD};
  ASSERT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE), 0);
  const auto event = c.a.NextEvent();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(StateOf(c.qp_a), IBV_QPS_SQD);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 2u);
  EXPECT_EQ(Await(c.cq_b).wr_id, 1u);
}

}  // namespace
}  // namespace epic::softnic::testing
