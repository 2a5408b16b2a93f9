// Compare and swap, fetch and add: what they find and leave, what is atomic, and what is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr QpOptions kAtomics = {.access = IBV_ACCESS_REMOTE_ATOMIC};
constexpr uint64_t kBig = 0x0102030405060708;

uint64_t* Number(Device& device, size_t offset) { return reinterpret_cast<uint64_t*>(device.at(offset)); }

// As the program itself reads what a peer's atomics may change next.
uint64_t Load(Device& device, size_t offset) { return std::atomic_ref(*Number(device, offset)).load(); }

TEST(VerbsAtomics, FindWhatWasThereAndLeaveWhatWasAsked) {
  Connection c(kAtomics);
  *Number(c.b, 64) = kBig;
  c.SeeWritesAtB();
  const Remote there{c.b.address(64), c.b.mr->rkey};
  ASSERT_EQ(PostAtomic(c.a, c.qp_a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, there, 5), 0);
  ibv_wc wc = Await(c.cq_a);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(wc.byte_len, 8u);
  EXPECT_EQ(*Number(c.a, 0), kBig) << "in this machine's byte order";
  ASSERT_EQ(PostAtomic(c.a, c.qp_a, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, there, kBig, 9), 0);
  EXPECT_EQ(Await(c.cq_a).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(*Number(c.a, 8), kBig + 5) << "it was not what it was compared with";
  c.SeeWritesAtB();
  EXPECT_EQ(Load(c.b, 64), kBig + 5);
  ASSERT_EQ(PostAtomic(c.a, c.qp_a, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 16, there, kBig + 5, 9), 0);
  EXPECT_EQ(Await(c.cq_a).wr_id, 3u);
  EXPECT_EQ(*Number(c.a, 16), kBig + 5);
  c.SeeWritesAtB();
  EXPECT_EQ(Load(c.b, 64), 9u);
  EXPECT_EQ(Load(c.b, 56), 0u);
  EXPECT_EQ(Load(c.b, 72), 0u);
}

// Four queue pairs and the program itself count; nothing is lost, and no two find the same.
TEST(VerbsAtomics, AreAtomicForOtherQueuePairsAndTheProgram) {
  constexpr uint64_t kQps = 4, kAll = 8000, kOutstanding = 16;
  Connection c(kAtomics);
  std::vector<ibv_qp*> from{c.qp_a}, to{c.qp_b};
  for (uint64_t i = 1; i < kQps; ++i) {
    from.push_back(CreateRc(c.a, c.cq_a, kAtomics));
    to.push_back(CreateRc(c.b, c.cq_b, kAtomics));
    Connect(from.back(), c.b.gid(), to.back()->qp_num, kAtomics);
    Connect(to.back(), c.a.gid(), from.back()->qp_num, kAtomics);
  }
  std::atomic_ref<uint64_t> counter(*Number(c.b, 0));
  std::atomic<bool> stop = false;
  uint64_t own = 0;
  std::thread program([&] {
    for (; !stop; ++own) counter.fetch_add(1);
  });
  std::vector<bool> found(kAll);
  const auto post = [&](uint64_t k) {
    ASSERT_EQ(PostAtomic(c.a, from[k % kQps], IBV_WR_ATOMIC_FETCH_AND_ADD, k, k % kOutstanding * 8,
                         {c.b.address(0), c.b.mr->rkey}, uint64_t{1} << 32),
              0);
  };
  for (uint64_t k = 0; k < kOutstanding; ++k) post(k);
  for (uint64_t done = 0; done < kAll; ++done) {
    const ibv_wc wc = Await(c.cq_a);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    // Theirs is the upper half, the program's own count the lower.
    const uint64_t before = *Number(c.a, wc.wr_id % kOutstanding * 8) >> 32;
    ASSERT_LT(before, kAll);
    EXPECT_FALSE(found[before]) << "two have found " << before;
    found[before] = true;
    if (wc.wr_id + kOutstanding < kAll) post(wc.wr_id + kOutstanding);
  }
  stop = true;
  program.join();
  EXPECT_EQ(counter.load(), (kAll << 32) + own);
  for (size_t i = 1; i < from.size(); ++i) {
    EXPECT_EQ(ibv_destroy_qp(from[i]), 0);
    EXPECT_EQ(ibv_destroy_qp(to[i]), 0);
  }
}

TEST(VerbsAtomics, WhatCannotBeIsRefusedWhenItIsPosted) {
  Connection c(kAtomics);
  const Remote unaligned{c.b.address(4), c.b.mr->rkey};
  EXPECT_EQ(PostAtomic(c.a, c.qp_a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, unaligned, 1), EINVAL);
  ibv_sge sge{c.a.address(0), 7, c.a.mr->lkey};
  ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP}, *bad = nullptr;
  wr.wr.atomic = {.remote_addr = c.b.address(0), .compare_add = 0, .swap = 1, .rkey = c.b.mr->rkey};
  EXPECT_EQ(ibv_post_send(c.qp_a, &wr, &bad), EINVAL) << "no room for the result";
  EXPECT_EQ(bad, &wr);
  sge.length = 8;
  wr.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(ibv_post_send(c.qp_a, &wr, &bad), EINVAL);
  EXPECT_EQ(ibv_reg_mr(c.a.pd, c.a.at(0), 8, IBV_ACCESS_REMOTE_ATOMIC), nullptr);
  EXPECT_EQ(errno, EINVAL) << "it changes memory";
  wr.send_flags = 0;
  EXPECT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS) << "nothing has changed";
}

TEST(VerbsAtomics, TheDeviceSaysSo) {
  const Device device;
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(device.context, &attr), 0);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attr.max_qp_rd_atom, 128);
}

}  // namespace
}  // namespace epic::softnic::testing
