// Memory windows of both types, local and remote invalidation, and zero-based regions. Also run on rdma_rxe.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

// Device b has a region that only windows open, and a window of the type.
struct Window {
  Window(Connection& c, ibv_mw_type type, int access = kBindable)
      : mr(ibv_reg_mr(c.b.pd, c.b.at(1024), 256, access)), mw(ibv_alloc_mw(c.b.pd, type)) {
    if (mr == nullptr || mw == nullptr) Die("ibv_reg_mr, ibv_alloc_mw");
  }
  ~Window() {
    if (mw != nullptr && ibv_dealloc_mw(mw) != 0) Die("ibv_dealloc_mw");
    if (ibv_dereg_mr(mr) != 0) Die("ibv_dereg_mr");
  }
  ibv_mw_bind_info Info(Connection& c, uint64_t length = 16,
                        unsigned access = IBV_ACCESS_REMOTE_WRITE) const {
    return {.mr = mr,
            .addr = length == 0 ? 0 : c.b.address(1024 + 64),
            .length = length,
            .mw_access_flags = access};
  }
  ibv_mr* mr;
  ibv_mw* mw;
};

int BindType1(Connection& c, const ibv_mw_bind_info& info, ibv_mw* mw) {
  ibv_mw_bind bind{.wr_id = 70, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
  return ibv_bind_mw(c.qp_b, mw, &bind);
}

int BindType2(Connection& c, const ibv_mw_bind_info& info, ibv_mw* mw, uint32_t rkey) {
  ibv_send_wr wr{.wr_id = 71, .opcode = IBV_WR_BIND_MW}, *bad = nullptr;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = rkey;
  wr.bind_mw.bind_info = info;
  return ibv_post_send(c.qp_b, &wr, &bad);
}

int PostInvalidate(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t rkey) {
  ibv_send_wr wr{.wr_id = 72, .opcode = opcode}, *bad = nullptr;
  wr.invalidate_rkey = rkey;
  return ibv_post_send(qp, &wr, &bad);
}

ibv_wc_status WriteByA(Connection& c, uint64_t address, uint32_t rkey, uint32_t bytes = 4) {
  if (PostRdma(c.a, c.qp_a, IBV_WR_RDMA_WRITE, 1, 0, bytes, {address, rkey}) != 0) Die("ibv_post_send");
  return Await(c.cq_a).status;
}

TEST(VerbsWindows, OfType1AreBoundAndUnbound) {
  Connection c;
  Window w(c, IBV_MW_TYPE_1);
  const uint32_t first = w.mw->rkey;
  ASSERT_EQ(BindType1(c, w.Info(c), w.mw), 0);
  const ibv_wc wc = Await(c.cq_b);
  EXPECT_EQ(wc.wr_id, 70u);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  EXPECT_NE(w.mw->rkey, first);
  EXPECT_EQ(w.mw->rkey >> 8, first >> 8);
  std::memcpy(c.a.at(0), "here", 4);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), w.mw->rkey), IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_EQ(std::memcmp(c.b.at(1024 + 64), "here", 4), 0);
  EXPECT_EQ(ibv_dereg_mr(w.mr), EINVAL) << "a window is bound to it";
  const uint32_t bound = w.mw->rkey;
  ASSERT_EQ(BindType1(c, w.Info(c, 0, 0), w.mw), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), bound), IBV_WC_REM_ACCESS_ERR);
}

TEST(VerbsWindows, OfType2AreTheirQueuePairsUntilTheyAreInvalidated) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  const uint32_t rkey = (w.mw->rkey & ~0xffu) | 0x5a;
  ASSERT_EQ(BindType2(c, w.Info(c), w.mw, rkey), 0);
  EXPECT_EQ(Await(c.cq_b).opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), rkey), IBV_WC_SUCCESS);
  ASSERT_EQ(PostInvalidate(c.qp_b, IBV_WR_LOCAL_INV, rkey), 0);
  const ibv_wc wc = Await(c.cq_b);
  EXPECT_EQ(wc.wr_id, 72u);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), rkey), IBV_WC_REM_ACCESS_ERR);
}

// A window of b that is bound, and invalidated by a Send of a: what b hears.
ibv_wc InvalidateByASend(Connection& c, Window& w, uint32_t* rkey) {
  *rkey = (w.mw->rkey & ~0xffu) | 0x5b;
  EXPECT_EQ(BindType2(c, w.Info(c), w.mw, *rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(PostRecv(c.b, c.qp_b, 5, 0, 64), 0);
  ibv_sge sge{c.a.address(0), 10, c.a.mr->lkey};
  ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV}, *bad = nullptr;
  wr.invalidate_rkey = *rkey;
  EXPECT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).opcode, IBV_WC_SEND);
  return Await(c.cq_b);
}

TEST(VerbsWindows, ThePeerInvalidatesByASend) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  uint32_t rkey = 0;
  const ibv_wc wc = InvalidateByASend(c, w, &rkey);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.byte_len, 10u);
  EXPECT_EQ(wc.invalidated_rkey, rkey);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST(VerbsWindows, WhatMayNotBeInvalidatedEndsTheReceiver) {
  Connection c;
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 5, 0, 64), 0);
  ASSERT_EQ(PostInvalidate(c.qp_a, IBV_WR_SEND_WITH_INV, c.b.mr->rkey), 0);
  const ibv_wc wc = Await(c.cq_b);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS) << "the data is there";
}

TEST(VerbsWindows, WhatMayNotBeInvalidatedHereEndsTheQueuePair) {
  Connection c;
  ASSERT_EQ(PostInvalidate(c.qp_b, IBV_WR_LOCAL_INV, c.b.mr->rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_LOC_QP_OP_ERR);
}

TEST(VerbsWindows, ThatMayNotBeBoundEndTheQueuePair) {
  struct Refused {
    const char* why;
    int region = kBindable;
    uint64_t length = 16;
    unsigned access = IBV_ACCESS_REMOTE_WRITE;
  };
  for (const Refused& refused :
       {Refused{.why = "the region takes none", .region = IBV_ACCESS_LOCAL_WRITE},
        Refused{.why = "the region may not be written", .region = IBV_ACCESS_MW_BIND},
        Refused{.why = "more than the region has", .length = 1000},
        Refused{.why = "atomics write", .region = IBV_ACCESS_MW_BIND, .access = IBV_ACCESS_REMOTE_ATOMIC}}) {
    Connection c;
    Window w(c, IBV_MW_TYPE_2, refused.region);
    ASSERT_EQ(BindType2(c, w.Info(c, refused.length, refused.access), w.mw, w.mw->rkey + 1), 0);
    EXPECT_EQ(Await(c.cq_b).status, IBV_WC_MW_BIND_ERR) << refused.why;
  }
}

TEST(VerbsWindows, OfType2AreNotBoundTwice) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  ASSERT_EQ(BindType2(c, w.Info(c), w.mw, w.mw->rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  ASSERT_EQ(BindType2(c, w.Info(c), w.mw, w.mw->rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_MW_BIND_ERR);
}

TEST(VerbsWindows, ZeroBasedOnesCountFromTheirBegin) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  const uint32_t rkey = (w.mw->rkey & ~0xffu) | 2;
  ASSERT_EQ(BindType2(c, w.Info(c, 16, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED), w.mw, rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  std::memcpy(c.a.at(0), "zero", 4);
  EXPECT_EQ(WriteByA(c, 3, rkey), IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_EQ(std::memcmp(c.b.at(1024 + 64 + 3), "zero", 4), 0);
}

TEST(VerbsWindows, CarryAtomics) {
  Connection c({.access = IBV_ACCESS_REMOTE_ATOMIC});
  Window w(c, IBV_MW_TYPE_2);
  const uint32_t rkey = (w.mw->rkey & ~0xffu) | 3;
  ASSERT_EQ(BindType2(c, w.Info(c, 16, IBV_ACCESS_REMOTE_ATOMIC), w.mw, rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  ASSERT_EQ(PostAtomic(c.a, c.qp_a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, {c.b.address(1024 + 64), rkey}, 3), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_EQ(*c.b.at(1024 + 64), 3);
}

TEST(VerbsWindows, TakeNothingThatIsWrong) {
  Connection c;
  Window one(c, IBV_MW_TYPE_1), two(c, IBV_MW_TYPE_2);
  EXPECT_EQ(BindType1(c, one.Info(c, 16, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED), one.mw), EINVAL);
  EXPECT_EQ(BindType1(c, two.Info(c), two.mw), EINVAL) << "it is of type 2";
  EXPECT_EQ(ibv_alloc_mw(c.b.pd, static_cast<ibv_mw_type>(3)), nullptr);
  // The window has its domain.
  EXPECT_EQ(ibv_dealloc_pd(c.b.pd), EBUSY);
  ASSERT_EQ(BindType1(c, one.Info(c), one.mw), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS) << "nothing has happened to the queue pair";
}

TEST(VerbsWindows, OfUnreliableConnections) {
  Connection c({.type = IBV_QPT_UC});
  Window one(c, IBV_MW_TYPE_1), two(c, IBV_MW_TYPE_2);
  ASSERT_EQ(BindType1(c, one.Info(c), one.mw), 0);
  EXPECT_EQ(Await(c.cq_b).opcode, IBV_WC_BIND_MW);
  const uint32_t rkey = (two.mw->rkey & ~0xffu) | 0x5a;
  ASSERT_EQ(BindType2(c, two.Info(c), two.mw, rkey), 0);
  EXPECT_EQ(Await(c.cq_b).opcode, IBV_WC_BIND_MW);
  for (const uint32_t key : {one.mw->rkey, rkey}) {
    std::memcpy(c.a.at(0), &key, sizeof key);
    EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), key), IBV_WC_SUCCESS);
    // What comes behind it tells that it is there.
    ASSERT_EQ(PostRecv(c.b, c.qp_b, 5, 0, 64), 0);
    ASSERT_EQ(PostSend(c.a, c.qp_a, 6, 0, 8), 0);
    EXPECT_EQ(Await(c.cq_a).wr_id, 6u);
    EXPECT_EQ(Await(c.cq_b).wr_id, 5u);
    EXPECT_EQ(std::memcmp(c.b.at(1024 + 64), &key, sizeof key), 0);
    c.SeeWritesAtB();  // and what is read here comes before what arrives
  }
}

TEST(VerbsWindows, TheDeviceSaysSo) {
  const Device device;
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(device.context, &attr), 0);
  constexpr unsigned kSaid =
      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  EXPECT_EQ(attr.device_cap_flags & (kSaid | IBV_DEVICE_MEM_WINDOW_TYPE_2A), kSaid);
  EXPECT_GT(attr.max_mw, 1000);
}

// Where rdma_rxe is otherwise: it tells an invalidation by the kernel's flag, and checks a window's bounds as
// those of its region.
TEST(VerbsOwnWindows, AnInvalidationIsToldByItsFlag) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  uint32_t rkey = 0;
  EXPECT_EQ(InvalidateByASend(c, w, &rkey).wc_flags, unsigned{IBV_WC_WITH_INV});
}

TEST(VerbsOwnWindows, HaveBoundsWithinTheRegion) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  const uint32_t rkey = (w.mw->rkey & ~0xffu) | 1;
  ASSERT_EQ(BindType2(c, w.Info(c), w.mw, rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), rkey, 16), IBV_WC_SUCCESS);
  EXPECT_EQ(WriteByA(c, c.b.address(1024 + 64), rkey, 17), IBV_WC_REM_ACCESS_ERR);
}

TEST(VerbsOwnWindows, TakeNothingThatIsWrong) {
  Connection c;
  Window one(c, IBV_MW_TYPE_1), two(c, IBV_MW_TYPE_2);
  EXPECT_EQ(BindType2(c, one.Info(c), one.mw, one.mw->rkey), EINVAL) << "it is of type 1";
  EXPECT_EQ(BindType2(c, two.Info(c, 16, IBV_ACCESS_ON_DEMAND), two.mw, two.mw->rkey), EINVAL);
  EXPECT_EQ(BindType2(c, two.Info(c), nullptr, 1), EINVAL);
  ibv_mw* of_a = ibv_alloc_mw(c.a.pd, IBV_MW_TYPE_2);
  ASSERT_NE(of_a, nullptr);
  EXPECT_EQ(BindType2(c, two.Info(c), of_a, 1), EINVAL) << "another device's";
  EXPECT_EQ(ibv_dealloc_mw(of_a), 0);
  ASSERT_EQ(BindType2(c, two.Info(c), two.mw, two.mw->rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS) << "nothing has happened to the queue pair";
}

TEST(VerbsOwnWindows, OfAQueuePairThatIsDestroyedAreNobodys) {
  Connection c;
  Window w(c, IBV_MW_TYPE_2);
  ASSERT_EQ(BindType2(c, w.Info(c), w.mw, w.mw->rkey), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(w.mr), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(c.qp_b), 0);
  c.qp_b = CreateRc(c.b, c.cq_b);
  EXPECT_EQ(ibv_dereg_mr(w.mr), 0) << "nothing is bound to it";
  w.mr = ibv_reg_mr(c.b.pd, c.b.at(1024), 256, kBindable);
}

TEST(VerbsOwnWindows, ZeroBasedRegionsCountFromTheirBegin) {
  Connection c;
  ibv_mr* mr = ibv_reg_mr(
      c.b.pd, c.b.at(512), 64,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr);
  std::memcpy(c.a.at(0), "zero", 4);
  EXPECT_EQ(WriteByA(c, 60, mr->rkey), IBV_WC_SUCCESS);
  c.SeeWritesAtB();
  EXPECT_EQ(std::memcmp(c.b.at(512 + 60), "zero", 4), 0);
  EXPECT_EQ(WriteByA(c, 61, mr->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
