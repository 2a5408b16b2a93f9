// Datagrams to a group whose members are on the sending machine. Other processes are test_multicast.py's.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr uint32_t kBytes = 64, kPlace = 256;
constexpr int kDatagrams = 8;

// A queue pair with receives, and a queue of its own for them.
struct Member {
  explicit Member(Device& on) : device(on), cq(on.CreateCq(64)), qp(CreateUd(on, cq)) {}
  ~Member() {
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  void Post(size_t area) {
    for (size_t i = 0; i < kDatagrams + 1; ++i) {
      const size_t at = (area * 16 + i) * kPlace;
      ASSERT_EQ(PostRecv(device, qp, at, at, kGrh + kBytes), 0);
    }
  }
  // The first bytes of the next so many datagrams, in the order in which they came.
  std::vector<int> Take(int count) {
    std::vector<int> bytes;
    while (count-- > 0) bytes.push_back(*device.at(Await(cq).wr_id + kGrh));
    return bytes;
  }
  bool HasMore() const {
    ibv_wc wc;
    return ibv_poll_cq(cq, 1, &wc) != 0;
  }

  Device& device;
  ibv_cq* cq;
  ibv_qp* qp;
};

// The sending queue pair itself is one, if it is attached: verbs has a flag to ask for the contrary.
TEST(VerbsMulticast, EveryMemberInTheProcessHasEachDatagramOnce) {
  Device device, opened_again;
  {
    Member sender(device), same(device), other(opened_again), elsewhere(device);
    const ibv_gid group = GidOf("239.1.9.1"), other_group = GidOf("239.1.9.2");
    size_t area = 0;
    for (Member* member : {&sender, &same, &other, &elsewhere}) {
      member->Post(area++);
      ASSERT_EQ(ibv_attach_mcast(member->qp, member == &elsewhere ? &other_group : &group, 0), 0);
    }
    Member source(device);
    ibv_ah* ah = CreateAh(device, group);
    std::vector<int> expected;
    for (int i = 1; i <= kDatagrams; ++i) {
      *device.at(0xf000) = static_cast<uint8_t>(i);
      ASSERT_EQ(PostDatagram(device, source.qp, ah, kMulticastQpn, 1, 0xf000, kBytes), 0);
      EXPECT_EQ(Await(source.cq).status, IBV_WC_SUCCESS);
      expected.push_back(i);
    }
    for (Member* member : {&sender, &same, &other}) EXPECT_EQ(member->Take(kDatagrams), expected);
    // The sender's own copy; its Send has a completion in the same queue.
    *device.at(0xf000) = 99;
    ASSERT_EQ(PostDatagram(device, sender.qp, ah, kMulticastQpn, 1, 0xf000, kBytes), 0);
    EXPECT_EQ(Await(sender.cq).opcode, IBV_WC_SEND);
    for (Member* member : {&sender, &same, &other}) EXPECT_EQ(member->Take(1), std::vector{99});
    for (Member* member : {&sender, &same, &other, &elsewhere}) {
      EXPECT_FALSE(member->HasMore());
      EXPECT_EQ(ibv_detach_mcast(member->qp, member == &elsewhere ? &other_group : &group, 0), 0);
    }
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
}

// As the network is told: a group is left when the queue pair is detached from it, and not before.
TEST(VerbsMulticast, AMembershipOutlivesAReset) {
  Device device;
  {
    Member member(device), source(device);
    const ibv_gid group = GidOf("239.1.9.3");
    ASSERT_EQ(ibv_attach_mcast(member.qp, &group, 0), 0);
    ibv_qp_attr attr{.qp_state = IBV_QPS_RESET};
    ASSERT_EQ(ibv_modify_qp(member.qp, &attr, IBV_QP_STATE), 0);
    EXPECT_EQ(ibv_destroy_qp(member.qp), EBUSY);
    MakeReady(member.qp);
    member.Post(0);
    ibv_ah* ah = CreateAh(device, group);
    *device.at(0xf000) = 7;
    ASSERT_EQ(PostDatagram(device, source.qp, ah, kMulticastQpn, 1, 0xf000, kBytes), 0);
    EXPECT_EQ(member.Take(1), std::vector{7});
    ASSERT_EQ(ibv_modify_qp(member.qp, &attr, IBV_QP_STATE), 0);
    EXPECT_EQ(ibv_detach_mcast(member.qp, &group, 0), 0);
    EXPECT_EQ(ibv_detach_mcast(member.qp, &group, 0), EINVAL);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
}

}  // namespace
}  // namespace epic::softnic::testing
