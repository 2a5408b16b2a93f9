// Batches of extended queue pairs in which atomics and what is local stand beside data, inline or not: each
// in its turn, with what it was given.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/softnic/verbs_extended_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint64_t kAtomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr uint64_t kWindows =
    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr QpOptions kOpen{.access =
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};

// Its side a binds windows to a part of its memory, for the peer.
struct BatchConnection : ExtendedConnection {
  explicit BatchConnection(uint64_t operations, const QpOptions& options = kOpen)
      : ExtendedConnection(operations, options),
        region(ibv_reg_mr(a.pd, a.at(4096), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)),
        mw(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2)) {
    if (region == nullptr || mw == nullptr) Die("ibv_reg_mr, ibv_alloc_mw");
  }
  ~BatchConnection() {
    if (ibv_dealloc_mw(mw) != 0 || ibv_dereg_mr(region) != 0) Die("ibv_dealloc_mw, ibv_dereg_mr");
  }
  uint32_t key(uint8_t low) const { return (mw->rkey & ~0xffu) | low; }
  void Bind(uint32_t rkey) {
    const ibv_mw_bind_info info{.mr = region,
                                .addr = a.address(4096),
                                .length = 64,
                                .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    ibv_wr_bind_mw(ex, mw, rkey, &info);
    mw->rkey = rkey;  // rdma_rxe takes a window to be bound by the key that it has
  }
  // By the window.
  ibv_wc_status WriteByB(uint32_t rkey) {
    EXPECT_EQ(PostRdma(b, qp_b, IBV_WR_RDMA_WRITE, 50, 0, 8, {a.address(4096), rkey}), 0);
    return Await(cq_b).status;
  }
  void ExpectDone(uint64_t id, ibv_wc_opcode opcode) {
    const ibv_wc wc = Await(cq_a);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << id;
    EXPECT_EQ(wc.opcode, opcode) << id;
  }

  ibv_mr* region;
  ibv_mw* mw;
};

uint64_t WordAt(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

TEST(VerbsBatches, AtomicsFindAndLeaveWhatTheySay) {
  BatchConnection c(kAtomics | kWindows);
  const uint64_t first = 40;
  std::memcpy(c.b.at(800), &first, sizeof first);
  c.SeeWritesAtB();  // and what is written here comes before what arrives
  ibv_wr_start(c.ex);
  c.ex->wr_id = 1;
  ibv_wr_atomic_fetch_add(c.ex, c.b.mr->rkey, c.b.address(800), 2);
  c.SetPiece(0, 8);
  c.ex->wr_id = 2;
  ibv_wr_atomic_cmp_swp(c.ex, c.b.mr->rkey, c.b.address(800), 42, 7);
  c.SetPiece(8, 8);
  c.ex->wr_id = 3;
  ibv_wr_atomic_cmp_swp(c.ex, c.b.mr->rkey, c.b.address(800), 42, 8);
  c.SetPiece(16, 8);
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  c.ExpectDone(1, IBV_WC_FETCH_ADD);
  c.ExpectDone(2, IBV_WC_COMP_SWAP);
  c.ExpectDone(3, IBV_WC_COMP_SWAP);
  EXPECT_EQ(WordAt(c.a.at(0)), 40u);
  EXPECT_EQ(WordAt(c.a.at(8)), 42u);
  EXPECT_EQ(WordAt(c.a.at(16)), 7u);
  c.SeeWritesAtB();
  EXPECT_EQ(WordAt(c.b.at(800)), 7u);
}

TEST(VerbsBatches, AWindowIsBoundUsedAndGivenBack) {
  BatchConnection c(kWindows | IBV_QP_EX_WITH_SEND);
  ibv_wr_start(c.ex);
  c.ex->wr_id = 1;
  c.Bind(c.key(5));
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  c.ExpectDone(1, IBV_WC_BIND_MW);
  EXPECT_EQ(c.WriteByB(c.key(5)), IBV_WC_SUCCESS);
  // Given back, bound by another key, and told of, all at once.
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 9, 512, 8), 0);
  ibv_wr_start(c.ex);
  c.ex->wr_id = 2;
  ibv_wr_local_inv(c.ex, c.key(5));
  c.ex->wr_id = 3;
  c.Bind(c.key(6));
  c.ex->wr_id = 4;
  ibv_wr_send(c.ex);
  c.SetPiece(0, 8);
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  c.ExpectDone(2, IBV_WC_LOCAL_INV);
  c.ExpectDone(3, IBV_WC_BIND_MW);
  c.ExpectDone(4, IBV_WC_SEND);
  EXPECT_EQ(Await(c.cq_b).wr_id, 9u);
  EXPECT_EQ(c.WriteByB(c.key(6)), IBV_WC_SUCCESS);
  EXPECT_EQ(c.WriteByB(c.key(5)), IBV_WC_REM_ACCESS_ERR);
}

// A key may come again when its window was given back: whoever kept it may use the window again.
TEST(VerbsBatches, AWindowIsBoundAgainByTheSameKey) {
  BatchConnection c(kWindows);
  for (uint64_t i = 0; i < 2; ++i) {
    ibv_wr_start(c.ex);
    c.ex->wr_id = 2 * i;
    c.Bind(c.key(5));
    c.ex->wr_id = 2 * i + 1;
    ibv_wr_local_inv(c.ex, c.key(5));
    ASSERT_EQ(ibv_wr_complete(c.ex), 0);
    c.ExpectDone(2 * i, IBV_WC_BIND_MW);
    c.ExpectDone(2 * i + 1, IBV_WC_LOCAL_INV);
  }
  ibv_wr_start(c.ex);
  c.Bind(c.key(5));
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(c.WriteByB(c.key(5)), IBV_WC_SUCCESS);
}

TEST(VerbsBatches, ASendInvalidatesThePeersWindow) {
  BatchConnection c(kWindows);
  ibv_mr* mr = ibv_reg_mr(c.b.pd, c.b.at(8192), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = ibv_alloc_mw(c.b.pd, IBV_MW_TYPE_2);
  ASSERT_TRUE(mr != nullptr && mw != nullptr);
  const uint32_t rkey = (mw->rkey & ~0xffu) | 9;
  ibv_send_wr wr{.wr_id = 1, .opcode = IBV_WR_BIND_MW}, *bad = nullptr;
  wr.bind_mw = {mw, rkey, {mr, c.b.address(8192), 64, IBV_ACCESS_REMOTE_WRITE}};
  ASSERT_EQ(ibv_post_send(c.qp_b, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_b).status, IBV_WC_SUCCESS);
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 2, 0, 64), 0);
  ibv_wr_start(c.ex);
  c.ex->wr_id = 3;
  ibv_wr_send_inv(c.ex, rkey);
  std::array<char, 6> words{"bytes"};
  ibv_wr_set_inline_data(c.ex, words.data(), 5);
  words.fill('x');
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  c.ExpectDone(3, IBV_WC_SEND);
  const ibv_wc wc = Await(c.cq_b);
  EXPECT_EQ(wc.byte_len, 5u);
  EXPECT_EQ(wc.invalidated_rkey, rkey);
  EXPECT_EQ(std::memcmp(c.b.at(0), "bytes", 5), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0) << "nothing is bound to it";
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// Inline data has slots by the request: what is local, and atomics, have none to spoil.
TEST(VerbsBatches, InlineDataKeepsItsPlaceBesideAtomicsAndWhatIsLocal) {
  BatchConnection c(kAtomics | kWindows | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
  const auto send = [&](uint64_t id, uint8_t filling) {
    std::array<uint8_t, 40> own;
    own.fill(filling);
    c.ex->wr_id = id;
    ibv_wr_send(c.ex);
    ibv_wr_set_inline_data(c.ex, own.data(), own.size());
    own.fill(0xee);
  };
  for (uint8_t round = 0; round < 5; ++round) {  // over the end of the eight slots
    for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(PostRecv(c.b, c.qp_b, i, 1000 + 100 * i, 64), 0);
    ibv_wr_start(c.ex);
    send(0, static_cast<uint8_t>(round + 1));
    c.ex->wr_id = 1;
    c.Bind(c.key(round));
    send(2, static_cast<uint8_t>(round + 2));
    c.ex->wr_id = 3;
    ibv_wr_atomic_fetch_add(c.ex, c.b.mr->rkey, c.b.address(800), 1);
    c.SetPiece(0, 8);
    c.ex->wr_id = 4;
    ibv_wr_local_inv(c.ex, c.key(round));
    send(5, static_cast<uint8_t>(round + 3));
    ASSERT_EQ(ibv_wr_complete(c.ex), 0);
    c.ExpectDone(0, IBV_WC_SEND);
    c.ExpectDone(1, IBV_WC_BIND_MW);
    c.ExpectDone(2, IBV_WC_SEND);
    c.ExpectDone(3, IBV_WC_FETCH_ADD);
    c.ExpectDone(4, IBV_WC_LOCAL_INV);
    c.ExpectDone(5, IBV_WC_SEND);
    EXPECT_EQ(WordAt(c.a.at(0)), round);
    for (uint64_t i = 0; i < 3; ++i) {
      const ibv_wc wc = Await(c.cq_b);
      EXPECT_EQ(wc.wr_id, i);
      EXPECT_EQ(wc.byte_len, 40u);
      EXPECT_EQ(c.b.at(1000 + 100 * i)[0], round + 1 + i);
      EXPECT_EQ(c.b.at(1000 + 100 * i)[39], round + 1 + i);
    }
  }
}

// rdma_rxe finds some of this when it is done.
TEST(VerbsBatches, WhatIsWrongWithAnAtomicOrABindTakesTheBatchWithIt) {
  BatchConnection c(kAtomics | kWindows | IBV_QP_EX_WITH_SEND);
  const auto batch = [&](const auto& wrong) {
    ibv_wr_start(c.ex);
    c.Bind(c.key(1));
    wrong();
    ibv_wr_local_inv(c.ex, c.key(1));
    return ibv_wr_complete(c.ex);
  };
  const auto add = [&](uint64_t offset, uint32_t bytes) {
    return batch([&] {
      ibv_wr_atomic_fetch_add(c.ex, c.b.mr->rkey, c.b.address(offset), 1);
      c.SetPiece(0, bytes);
    });
  };
  EXPECT_EQ(add(800, 7), EINVAL) << "no room for the result";
  EXPECT_EQ(add(801, 8), EINVAL) << "not a multiple of 8";
  EXPECT_EQ(batch([&] {
              uint64_t own = 0;
              ibv_wr_atomic_cmp_swp(c.ex, c.b.mr->rkey, c.b.address(800), 1, 2);
              ibv_wr_set_inline_data(c.ex, &own, sizeof own);
            }),
            EINVAL)
      << "its result comes back";
  EXPECT_EQ(batch([&] {
              ibv_wr_local_inv(c.ex, c.key(1));
              c.SetPiece(0, 8);
            }),
            EINVAL)
      << "it has no data";
  EXPECT_EQ(batch([&] {
              const ibv_mw_bind_info info{};
              ibv_wr_bind_mw(c.ex, nullptr, c.key(1), &info);
            }),
            EINVAL);
  ibv_mw* type_1 = ibv_alloc_mw(c.a.pd, IBV_MW_TYPE_1);
  ASSERT_NE(type_1, nullptr);
  EXPECT_EQ(batch([&] {
              const ibv_mw_bind_info info{c.region, c.a.address(4096), 8, IBV_ACCESS_REMOTE_READ};
              ibv_wr_bind_mw(c.ex, type_1, c.key(1), &info);
            }),
            EINVAL)
      << "ibv_bind_mw is for these";
  EXPECT_EQ(ibv_dealloc_mw(type_1), 0);
  c.ExpectNothingPosted();
}

// rdma_rxe binds windows on unreliable connections, and cannot invalidate them there.
TEST(VerbsBatches, AnUnreliableConnectionBindsAndInvalidatesToo) {
  BatchConnection c(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND,
                    {.type = IBV_QPT_UC});
  std::memcpy(c.b.at(0), "one", 4);
  ibv_wr_start(c.ex);
  c.ex->wr_id = 1;
  c.Bind(c.key(5));
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  c.ExpectDone(1, IBV_WC_BIND_MW);
  EXPECT_EQ(c.WriteByB(c.key(5)), IBV_WC_SUCCESS);
  // What comes behind a Write tells when it is there.
  const auto await_b = [&] {
    ASSERT_EQ(PostRecv(c.a, c.qp, 7, 0, 8), 0);
    ASSERT_EQ(PostSend(c.b, c.qp_b, 8, 0, 8), 0);
    EXPECT_EQ(Await(c.cq_b).wr_id, 8u);
    EXPECT_EQ(Await(c.cq_a).wr_id, 7u);
  };
  await_b();
  EXPECT_EQ(std::memcmp(c.a.at(4096), "one", 4), 0);
  ibv_wr_start(c.ex);
  c.ex->wr_id = 2;
  ibv_wr_local_inv(c.ex, c.key(5));
  ASSERT_EQ(ibv_wr_complete(c.ex), 0);
  c.ExpectDone(2, IBV_WC_LOCAL_INV);
  std::memcpy(c.b.at(0), "two", 4);
  EXPECT_EQ(c.WriteByB(c.key(5)), IBV_WC_SUCCESS) << "nobody says otherwise";
  await_b();
  EXPECT_EQ(std::memcmp(c.a.at(4096), "one", 4), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
