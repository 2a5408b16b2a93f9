// Requests of many pieces (scatter/gather entries), and inline data.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint32_t kMost = 32, kBytes = 5000;

// kBytes from `at` on as 32 pieces of many lengths, in the order of the bytes, or of places from the last to
// the first. One more would be empty.
std::array<ibv_sge, kMost + 1> Pieces(Device& device, size_t at, bool backwards) {
  std::array<ibv_sge, kMost + 1> out{};
  uint32_t done = 0;
  for (uint32_t i = 0; i < kMost; ++i) {
    const uint32_t length = i == kMost - 1 ? kBytes - done : i * 9;
    const size_t place = backwards ? kBytes - done - length : done;
    out[i] = {device.address(at + place), length, device.mr->lkey};
    done += length;
  }
  out[kMost] = {device.address(at), 0, device.mr->lkey};
  return out;
}

// What comes into pieces that lie backwards reads so in order.
std::vector<uint8_t> Forwards(Device& device, const std::array<ibv_sge, kMost + 1>& pieces) {
  std::vector<uint8_t> out;
  for (const ibv_sge& sge : pieces) {
    const uint8_t* const from = device.memory.data() + (sge.addr - device.address(0));
    out.insert(out.end(), from, from + sge.length);
  }
  return out;
}

class VerbsPieces : public ::testing::TestWithParam<ibv_qp_type> {
 protected:
  VerbsPieces() : c({.type = GetParam()}) {
    std::iota(c.a.at(0), c.a.at(kBytes), uint8_t{1});
    for (size_t i = 0; i < kBytes; ++i) c.a.at(i)[0] ^= static_cast<uint8_t>(i >> 8);
  }
  bool IsAs(const std::vector<uint8_t>& bytes) {
    return bytes.size() == kBytes && std::memcmp(bytes.data(), c.a.at(0), kBytes) == 0;
  }
  Connection c;
};

TEST_P(VerbsPieces, AsManyAsTheDeviceSays) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(c.a.context, &device), 0);
  EXPECT_EQ(device.max_sge, int{kMost});
  EXPECT_EQ(device.max_srq_sge, int{kMost});
  ibv_qp_init_attr init{.send_cq = c.cq_a, .recv_cq = c.cq_a, .qp_type = GetParam()};
  init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = kMost + 1};
  EXPECT_EQ(ibv_create_qp(c.a.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cap.max_send_sge = init.cap.max_recv_sge = kMost;
  init.cap.max_inline_data = 512;
  ibv_qp* qp = ibv_create_qp(c.a.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);

  auto from = Pieces(c.a, 0, false), to = Pieces(c.b, 8192, true);
  ibv_recv_wr recv{.wr_id = 1, .sg_list = to.data(), .num_sge = kMost + 1}, *bad_recv = nullptr;
  EXPECT_EQ(ibv_post_recv(c.qp_b, &recv, &bad_recv), EINVAL);
  EXPECT_EQ(bad_recv, &recv);
  recv.num_sge = kMost;
  ASSERT_EQ(ibv_post_recv(c.qp_b, &recv, &bad_recv), 0);
  ibv_send_wr send{.wr_id = 2, .sg_list = from.data(), .num_sge = kMost + 1, .opcode = IBV_WR_SEND};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(c.qp_a, &send, &bad), EINVAL);
  EXPECT_EQ(bad, &send);
  send.num_sge = kMost;
  ASSERT_EQ(ibv_post_send(c.qp_a, &send, &bad), 0);
  from.fill({});  // the lists are the caller's again
  to.fill({});
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Await(c.cq_b).byte_len, kBytes);
  EXPECT_TRUE(IsAs(Forwards(c.b, Pieces(c.b, 8192, true))));
}

TEST_P(VerbsPieces, OfWritesAndReads) {
  auto from = Pieces(c.a, 0, false);
  ibv_send_wr wr{.wr_id = 2, .sg_list = from.data(), .num_sge = kMost, .opcode = IBV_WR_RDMA_WRITE},
      *bad = nullptr;
  wr.wr.rdma = {c.b.address(20000), c.b.mr->rkey};
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  // What is sent behind it tells that it is there.
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 3, 0, 8), 0);
  ASSERT_EQ(PostSend(c.a, c.qp_a, 4, 0, 8), 0);
  EXPECT_EQ(Await(c.cq_b).wr_id, 3u);
  EXPECT_TRUE(IsAs({c.b.at(20000), c.b.at(20000 + kBytes)}));
  if (GetParam() != IBV_QPT_RC) return;
  EXPECT_EQ(Await(c.cq_a).wr_id, 2u);
  EXPECT_EQ(Await(c.cq_a).wr_id, 4u);
  auto into = Pieces(c.a, 30000, true);
  wr.sg_list = into.data();
  wr.opcode = IBV_WR_RDMA_READ;
  ASSERT_EQ(ibv_post_send(c.qp_a, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_a).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(IsAs(Forwards(c.a, into)));
}

TEST_P(VerbsPieces, InlineDataOfManyPieces) {
  ibv_qp_init_attr init{.send_cq = c.cq_a, .recv_cq = c.cq_a, .qp_type = GetParam(), .sq_sig_all = 1};
  init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = kMost, .max_inline_data = 512};
  ibv_qp* qp = ibv_create_qp(c.a.pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(init.cap.max_inline_data, 512u);
  Connect(qp, c.b.gid(), c.qp_b->qp_num, {.type = GetParam()});
  Connect(c.qp_b, c.a.gid(), qp->qp_num, {.type = GetParam()});
  ASSERT_EQ(PostRecv(c.b, c.qp_b, 1, 100, 512), 0);
  std::array<ibv_sge, kMost> pieces;
  for (uint32_t i = 0; i < kMost; ++i) pieces[i] = {c.a.address(i * 16), 16, 0};  // no key is needed
  ibv_send_wr wr{.wr_id = 2, .sg_list = pieces.data(), .num_sge = kMost, .opcode = IBV_WR_SEND},
      *bad = nullptr;
  wr.send_flags = IBV_SEND_INLINE;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(Await(c.cq_b).byte_len, 512u);
  EXPECT_EQ(std::memcmp(c.a.at(0), c.b.at(100), 512), 0);
  pieces[0].length = 17;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

INSTANTIATE_TEST_SUITE_P(RcAndUc, VerbsPieces, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& type) { return type.param == IBV_QPT_RC ? "Rc" : "Uc"; });

}  // namespace
}  // namespace epic::softnic::testing
