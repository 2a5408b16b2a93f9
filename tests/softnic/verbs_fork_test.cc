// Forks of a process with open devices: what a child may do, and that its parent notices nothing. A child
// that hangs is ended by an alarm, and its test fails.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/softnic/fork_testing.h"
#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

// For children, whose failures gtest does not see.
#define CHILD_EXPECT(condition)                                                          \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition); \
      return false;                                                                      \
    }                                                                                    \
  } while (false)

void ExpectTraffic(Connection& c, uint8_t byte) {
  std::memset(c.a.at(0), byte, 3000);
  std::memset(c.b.at(0), 0, 3000);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 3000), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 3000), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(c.a.at(0), c.b.at(0), 3000), 0);
}

bool EveryVerbIsRefused(Connection& c, ibv_srq* srq, ibv_ah* ah, ibv_mw* mw) {
  const auto refused = [](const void* object) { return object == nullptr && errno == EIO; };
  errno = 0;
  CHILD_EXPECT(refused(ibv_alloc_pd(c.a.context)));
  CHILD_EXPECT(refused(ibv_reg_mr(c.a.pd, c.a.at(0), 64, IBV_ACCESS_LOCAL_WRITE)));
  CHILD_EXPECT(refused(ibv_alloc_mw(c.a.pd, IBV_MW_TYPE_1)));
  ibv_mw_bind bind{};
  CHILD_EXPECT(ibv_bind_mw(c.qp_a, mw, &bind) == EIO);
  CHILD_EXPECT(refused(ibv_create_comp_channel(c.a.context)));
  CHILD_EXPECT(refused(ibv_create_cq(c.a.context, 8, nullptr, nullptr, 0)));
  ibv_srq_init_attr srq_init{.attr = {.max_wr = 8, .max_sge = 1}};
  CHILD_EXPECT(refused(ibv_create_srq(c.a.pd, &srq_init)));
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = c.cq_a;
  init.qp_type = IBV_QPT_RC;
  CHILD_EXPECT(refused(ibv_create_qp(c.a.pd, &init)));
  ibv_qp_init_attr_ex init_ex{};
  init_ex.send_cq = init_ex.recv_cq = c.cq_a;
  init_ex.qp_type = IBV_QPT_RC;
  init_ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init_ex.pd = c.a.pd;
  CHILD_EXPECT(refused(ibv_create_qp_ex(c.a.context, &init_ex)));
  ibv_cq_init_attr_ex cq_init{.cqe = 8};
  CHILD_EXPECT(refused(ibv_create_cq_ex(c.a.context, &cq_init)));
  ibv_ah_attr ah_attr{.is_global = 1, .port_num = 1};
  ah_attr.grh = {.dgid = c.b.gid(), .sgid_index = 1};
  CHILD_EXPECT(refused(ibv_create_ah(c.a.pd, &ah_attr)));

  ibv_wc wc;
  CHILD_EXPECT(ibv_poll_cq(c.cq_a, 1, &wc) == -1);
  CHILD_EXPECT(ibv_req_notify_cq(c.cq_a, 0) == EIO);
  CHILD_EXPECT(ibv_resize_cq(c.cq_a, 512) == EIO);
  CHILD_EXPECT(PostSend(c.a, c.qp_a, 9, 0, 8) == EIO);
  CHILD_EXPECT(PostRecv(c.a, c.qp_a, 9, 0, 8) == EIO);
  ibv_recv_wr recv{.wr_id = 1}, *bad = nullptr;
  CHILD_EXPECT(ibv_post_srq_recv(srq, &recv, &bad) == EIO && bad == &recv);
  ibv_srq_attr srq_attr{.srq_limit = 1};
  CHILD_EXPECT(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT) == EIO);
  CHILD_EXPECT(ibv_query_srq(srq, &srq_attr) == EIO);
  ibv_qp_attr attr{.qp_state = IBV_QPS_ERR};
  CHILD_EXPECT(ibv_modify_qp(c.qp_a, &attr, IBV_QP_STATE) == EIO);
  CHILD_EXPECT(ibv_query_qp(c.qp_a, &attr, IBV_QP_STATE, &init) == EIO);
  ibv_async_event async;
  CHILD_EXPECT(ibv_get_async_event(c.a.context, &async) == -1 && errno == EIO);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  CHILD_EXPECT(ibv_get_cq_event(c.a.channel, &cq, &user) == -1);
  ibv_ack_cq_events(c.cq_a, 0);

  CHILD_EXPECT(ibv_dealloc_mw(mw) == EIO);
  ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  CHILD_EXPECT(ibv_query_rt_values_ex(c.a.context, &values) == EIO);
  CHILD_EXPECT(ibv_rereg_mr(c.a.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) != 0 && errno == EIO);
  CHILD_EXPECT(ibv_destroy_ah(ah) == EIO);
  CHILD_EXPECT(ibv_destroy_qp(c.qp_a) == EIO);
  CHILD_EXPECT(ibv_destroy_srq(srq) == EIO);
  CHILD_EXPECT(ibv_destroy_cq(c.cq_a) == EIO);
  CHILD_EXPECT(ibv_destroy_comp_channel(c.a.channel) == EIO);
  CHILD_EXPECT(ibv_dereg_mr(c.a.mr) == EIO);
  CHILD_EXPECT(ibv_dealloc_pd(c.a.pd) == EIO);
  CHILD_EXPECT(ibv_close_device(c.a.context) == EIO);
  return true;
}

TEST(VerbsFork, EveryVerbOnWhatIsInheritedIsRefused) {
  Connection c;
  ibv_srq_init_attr init{.attr = {.max_wr = 8, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(c.a.pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_ah_attr ah_attr{.is_global = 1, .port_num = 1};
  ah_attr.grh = {.dgid = c.b.gid(), .sgid_index = 1};
  ibv_ah* ah = ibv_create_ah(c.a.pd, &ah_attr);
  ASSERT_NE(ah, nullptr);
  ibv_mw* mw = ibv_alloc_mw(c.a.pd, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  EXPECT_EQ(InChild([&] { return EveryVerbIsRefused(c, srq, ah, mw); }), 0);
  // A grandchild's are not its own either.
  EXPECT_EQ(InChild([&] { return InChild([&] { return EveryVerbIsRefused(c, srq, ah, mw); }) == 0; }), 0);
  ExpectTraffic(c, 0x11);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// Forked in the middle of a batch of requests and of one of completions, whose locks the child finds held.
TEST(VerbsFork, WhatIsBegunIsTheParents) {
  Connection c;
  ibv_cq_init_attr_ex cq_init{.cqe = 8};
  ibv_cq_ex* cq = ibv_create_cq_ex(c.a.context, &cq_init);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap.max_send_wr = 8;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = c.a.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* qp = ibv_create_qp_ex(c.a.context, &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  Connect(qp, c.b.gid(), c.qp_b->qp_num);
  Connect(c.qp_b, c.a.gid(), qp->qp_num);
  const auto write = [&](uint64_t id) {
    ex->wr_id = id;
    ibv_wr_rdma_write(ex, c.b.mr->rkey, c.b.address(0));
    ibv_wr_set_sge(ex, c.a.mr->lkey, c.a.address(0), 8);
  };
  ibv_wr_start(ex);
  write(1);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  ibv_poll_cq_attr attr{};
  while (ibv_start_poll(cq, &attr) != 0) {
  }
  EXPECT_EQ(cq->wr_id, 1u);
  ibv_wr_start(ex);
  write(2);
  EXPECT_EQ(InChild([&] {
              write(3);
              CHILD_EXPECT(ibv_wr_complete(ex) == EIO);
              ibv_wr_start(ex);
              ibv_wr_abort(ex);
              CHILD_EXPECT(ibv_start_poll(cq, &attr) == EIO);
              CHILD_EXPECT(ibv_next_poll(cq) == EIO);
              ibv_end_poll(cq);
              return true;
            }),
            0);
  ibv_end_poll(cq);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(Await(ibv_cq_ex_to_cq(cq)).wr_id, 2u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST(VerbsFork, TheParentGoesOnWhateverItsChildDoes) {
  Connection c;
  ASSERT_EQ(ibv_req_notify_cq(c.cq_b, 0), 0);
  ExpectTraffic(c, 0x21);
  EXPECT_EQ(InChild([] { return true; }), 0);
  ExpectTraffic(c, 0x22);
  // Through the handlers of exit().
  EXPECT_EQ(InChild([]() -> bool { std::exit(0); }), 0);
  ExpectTraffic(c, 0x23);
  EXPECT_EQ(InChild([] { return execl("/bin/true", "true", nullptr) == 0; }), 0);
  ExpectTraffic(c, 0x24);
  // What arrives while a child looks for it is the parent's.
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 0, 8), 0);
  EXPECT_EQ(InChild([&] {
              for (int i = 0; i < 1000; ++i) {
                ibv_wc wc;
                CHILD_EXPECT(ibv_poll_cq(c.cq_b, 1, &wc) == -1);
                CHILD_EXPECT(PostSend(c.a, c.qp_a, 3, 0, 8) == EIO);
              }
              ibv_cq* cq = nullptr;
              void* user = nullptr;
              CHILD_EXPECT(ibv_get_cq_event(c.b.channel, &cq, &user) == -1);
              return true;
            }),
            0);
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(c.b.channel, &cq, &user), 0) << "of the first message";
  EXPECT_EQ(cq, c.cq_b);
  ibv_ack_cq_events(cq, 1);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 2, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 2u);
  EXPECT_EQ(Await(c.cq_b).wr_id, 1u);
}

// By the system call, of which the C library hears nothing.
TEST(VerbsFork, AChildMadeByHandIsNoticedToo) {
  Connection c;
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    ibv_wc wc;
    _exit(ibv_poll_cq(c.cq_a, 1, &wc) == -1 && PostSend(c.a, c.qp_a, 3, 0, 8) == EIO ? 0 : 1);
  }
  EXPECT_EQ(Ended(child), 0);
  ExpectTraffic(c, 0x25);
}

// Before anything is opened, and also when memory has been registered: rdma-core's refuses that with EINVAL,
// where the kernel does not copy on fork.
TEST(VerbsFork, ForkInitIsNotNeeded) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  Connection c;
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  EXPECT_EQ(InChild([] { return ibv_fork_init() == 0 && ibv_is_fork_initialized() == IBV_FORK_UNNEEDED; }),
            0);
  ExpectTraffic(c, 0x51);
}

TEST(VerbsFork, ImplicitlyByTheCLibrary) {
  Connection c;
  EXPECT_EQ(std::system("true"), 0);
  ExpectTraffic(c, 0x52);
  FILE* const said = popen("echo a child", "r");
  ASSERT_NE(said, nullptr);
  char line[16] = "";
  EXPECT_NE(std::fgets(line, sizeof line, said), nullptr);
  ExpectTraffic(c, 0x53);
  EXPECT_EQ(pclose(said), 0);
}

#ifndef __SANITIZE_THREAD__  // which knows no threads that a child of a program with several starts
// Of two open devices of a child; numbers are others than the parent's.
bool ExchangesByItself(uint32_t parents_qpn) {
  Connection own;
  CHILD_EXPECT(own.qp_a->qp_num >> 8 != parents_qpn >> 8);
  std::memset(own.a.at(0), 0x5a, 64);
  CHILD_EXPECT(PostRecv(own.b, own.qp_b, 1, 0, 64) == 0);
  CHILD_EXPECT(PostSend(own.a, own.qp_a, 2, 0, 64) == 0);
  CHILD_EXPECT(Await(own.cq_a).status == IBV_WC_SUCCESS);
  CHILD_EXPECT(Await(own.cq_b).wr_id == 1);
  CHILD_EXPECT(std::memcmp(own.a.at(0), own.b.at(0), 64) == 0);
  return true;
}

TEST(VerbsFork, AChildMayOpenDevicesOfItsOwn) {
  Connection c;
  EXPECT_EQ(InChild([&] { return ExchangesByItself(c.qp_a->qp_num); }), 0);
  ExpectTraffic(c, 0x31);
  // And so may its own children, with what they inherit from two.
  EXPECT_EQ(InChild([&] {
              Connection own;
              return InChild([&] { return ExchangesByItself(own.qp_a->qp_num); }) == 0;
            }),
            0);
  ExpectTraffic(c, 0x32);
}

TEST(VerbsFork, SeveralChildrenAtOnce) {
  Connection c;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i)
    children.push_back(StartChild([&] { return ExchangesByItself(c.qp_a->qp_num); }));
  for (int i = 0; i < 20; ++i) ExpectTraffic(c, static_cast<uint8_t>(i));
  for (const pid_t child : children) EXPECT_EQ(Ended(child), 0);
}

// What the child holds keeps numbers and port, which the parent's next devices do not need.
TEST(VerbsFork, AChildMayHoldItsCopyWhileItsParentClosesAndOpensAnew) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  auto c = std::make_unique<Connection>();
  const uint32_t qpn = c->qp_a->qp_num;
  const pid_t child = StartChild([&] {
    char byte;
    CHILD_EXPECT(read(go[0], &byte, 1) == 1);
    ibv_wc wc;
    CHILD_EXPECT(ibv_poll_cq(c->cq_a, 1, &wc) == -1 && errno == EIO);
    CHILD_EXPECT(ibv_close_device(c->a.context) == EIO);
    return ExchangesByItself(qpn);
  });
  c.reset();
  Connection anew;
  EXPECT_NE(anew.qp_a->qp_num >> 8, qpn >> 8);
  ExpectTraffic(anew, 0x61);
  EXPECT_EQ(write(go[1], "g", 1), 1);
  EXPECT_EQ(Ended(child), 0);
  ExpectTraffic(anew, 0x62);
  close(go[0]);
  close(go[1]);
}
#endif

// So that at most forks somebody else holds the lock of a device.
TEST(VerbsFork, WhileOtherThreadsAreInVerbs) {
  Connection c;
  ibv_pd* pd = ibv_alloc_pd(c.b.context);
  ibv_cq* idle = c.b.CreateCq(8);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    ibv_wc wc;
    while (!stop) EXPECT_EQ(ibv_poll_cq(idle, 1, &wc), 0);
  });
  threads.emplace_back([&] {
    uint8_t bytes[64];
    while (!stop) EXPECT_EQ(ibv_dereg_mr(ibv_reg_mr(pd, bytes, sizeof bytes, 0)), 0);
  });
  int status = 0;
  for (int i = 0; i < 100 && status == 0; ++i) {
    status = InChild([&] {
      ibv_wc wc;
      CHILD_EXPECT(ibv_poll_cq(idle, 1, &wc) == -1);
      CHILD_EXPECT(ibv_destroy_cq(idle) == EIO);
      CHILD_EXPECT(ibv_close_device(c.b.context) == EIO);
      return true;
    });
  }
  EXPECT_EQ(status, 0);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ExpectTraffic(c, 0x41);
  EXPECT_EQ(ibv_destroy_cq(idle), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
