// Two devices of one process, on two interfaces whose networks know nothing of each other (test_many.py).
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

struct End {
  explicit End(int number) : device(1 << 16, number), cq(device.CreateCq(64)), rc(CreateRc(device, cq)) {}
  ~End() {
    EXPECT_EQ(ibv_destroy_qp(rc), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  std::string name() const { return ibv_get_device_name(device.context->device); }

  Device device;
  ibv_cq* cq;
  ibv_qp* rc;
};

void PostReceive(End& end) { ASSERT_EQ(PostRecv(end.device, end.rc, 1, 0x8000, 9000), 0); }

// Both have a receive: that of the sender stays.
void ExpectMessage(End& from, End& to, uint8_t byte) {
  std::memset(from.device.at(0), byte, 9000);
  ASSERT_EQ(PostSend(from.device, from.rc, 2, 0, 9000), 0);
  const ibv_wc sent = Await(from.cq), received = Await(to.cq);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.wr_id, 2u);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.wr_id, 1u);
  EXPECT_EQ(std::memcmp(from.device.at(0), to.device.at(0x8000), 9000), 0);
}

// They choose numbers independently, and begin with the same: an address is part of a queue pair's name.
TEST(VerbsDevices, AreConnectedWithEachOther) {
  End one(0), other(1);
  EXPECT_NE(one.name(), other.name());
  EXPECT_EQ(one.rc->qp_num, other.rc->qp_num);
  Connect(one.rc, other.device.gid(), other.rc->qp_num);
  Connect(other.rc, one.device.gid(), one.rc->qp_num);
  PostReceive(one);
  PostReceive(other);
  ExpectMessage(one, other, 0x11);
  PostReceive(other);
  ExpectMessage(other, one, 0x22);
}

TEST(VerbsDevices, OneGoesOnWhenTheOtherIsClosed) {
  std::optional<End> gone(std::in_place, 0);
  End one(1), other(1);
  gone.reset();
  Connect(one.rc, other.device.gid(), other.rc->qp_num);
  Connect(other.rc, one.device.gid(), one.rc->qp_num);
  PostReceive(one);
  PostReceive(other);
  ExpectMessage(one, other, 0x33);
}

TEST(VerbsDevices, AGroupOfOneNetworkIsNoneOfTheOther) {
  End one(0), other(1);
  const ibv_gid group = GidOf("239.1.9.3");
  ibv_qp* members[] = {CreateUd(one.device, one.cq), CreateUd(other.device, other.cq)};
  for (End* end : {&one, &other}) {
    ibv_qp* member = members[end == &other];
    for (uint64_t id = 1; id <= 3; ++id)
      ASSERT_EQ(PostRecv(end->device, member, id, static_cast<size_t>(id) * 256, kGrh + 64), 0);
    ASSERT_EQ(ibv_attach_mcast(member, &group, 0), 0);
  }
  ibv_ah* ah = CreateAh(one.device, group);
  ASSERT_EQ(PostDatagram(one.device, members[0], ah, kMulticastQpn, 9, 0, 64), 0);
  EXPECT_EQ(Await(one.cq).opcode, IBV_WC_SEND);
  EXPECT_EQ(Await(one.cq).wr_id, 1u);
  // What comes later has come behind it.
  ibv_ah* direct = CreateAh(one.device, other.device.gid());
  ASSERT_EQ(PostDatagram(one.device, members[0], direct, members[1]->qp_num, 9, 0, 32), 0);
  EXPECT_EQ(Await(other.cq).byte_len, kGrh + 32);
  EXPECT_EQ(Await(one.cq).opcode, IBV_WC_SEND);
  for (ibv_qp* member : members) {
    EXPECT_EQ(ibv_detach_mcast(member, &group, 0), 0);
    EXPECT_EQ(ibv_destroy_qp(member), 0);
  }
  EXPECT_EQ(ibv_destroy_ah(direct), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

}  // namespace
}  // namespace epic::softnic::testing
