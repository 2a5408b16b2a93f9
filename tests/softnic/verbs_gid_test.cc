// The GID table, and what addresses may be put together. Traffic over IPv6 is test_ipv6.py's, but for that of
// a link-local address with itself, which needs nothing of the kernel.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/softnic/verbs_testing.h"

namespace epic::softnic::testing {
namespace {

constexpr int kCaptureTimeoutMs = 10000;

ibv_gid GidAt(Device& device, int index) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(device.context, 1, index, &gid), 0);
  return gid;
}

ibv_ah_attr AttrOf(uint8_t index, const ibv_gid& to) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = index;
  attr.grh.dgid = to;
  return attr;
}

TEST(VerbsGid, EveryWayToAskSaysTheSame) {
  Device device;
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
  ASSERT_GE(port.gid_tbl_len, 2);
  std::vector<ibv_gid_entry> table(static_cast<size_t>(port.gid_tbl_len));
  const ssize_t count = ibv_query_gid_table(device.context, table.data(), table.size(), 0);
  ASSERT_GE(count, 2);
  ASSERT_LT(count, port.gid_tbl_len) << "none is left that is empty";
  table.resize(static_cast<size_t>(count));
  EXPECT_EQ(ibv_query_gid_table(device.context, table.data(), table.size() - 1, 0), -EINVAL) << "no room";
  for (uint32_t i = 0; i < table.size(); ++i) {
    ibv_gid_entry entry;
    ASSERT_EQ(ibv_query_gid_ex(device.context, 1, i, &entry, 0), 0);
    EXPECT_EQ(std::memcmp(&entry, &table[i], sizeof entry), 0);
    EXPECT_EQ(entry.gid_index, i);
    EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
    const ibv_gid gid = GidAt(device, static_cast<int>(i));
    EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0);
  }
  EXPECT_EQ(table[0].gid.raw[0], 0xfe);
  const ibv_gid none{}, empty = GidAt(device, static_cast<int>(count));
  EXPECT_EQ(std::memcmp(&empty, &none, sizeof none), 0);
  ibv_gid gid;
  ibv_gid_entry entry;
  EXPECT_EQ(ibv_query_gid_ex(device.context, 1, static_cast<uint32_t>(count), &entry, 0), ENODATA);
  for (const int index : {-1, port.gid_tbl_len}) {
    errno = 0;
    EXPECT_EQ(ibv_query_gid(device.context, 1, index, &gid), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, static_cast<uint32_t>(index), &entry, 0), EINVAL);
  }
}

TEST(VerbsGid, AWrongIndexOrTwoVersionsAreRefusedAndChangeNothing) {
  Connection c;
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(c.a.context, 1, &port), 0);
  const ibv_gid v6 = GidAt(c.a, 0), v4 = GidAt(c.a, 1);
  ibv_qp* qp = CreateRc(c.a, c.cq_a);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  const auto beyond = static_cast<uint8_t>(port.gid_tbl_len);
  for (const ibv_ah_attr& ah : {AttrOf(0, v4), AttrOf(1, v6), AttrOf(beyond, v6), AttrOf(255, v4)}) {
    ibv_ah_attr copy = ah;
    errno = 0;
    EXPECT_EQ(ibv_create_ah(c.a.pd, &copy), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.ah_attr = ah;
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              EINVAL);
    ibv_qp_init_attr init;
    ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// Not among the others: while it lasts nobody reaches the host (test_port_events.py).
TEST(VerbsPort, AnAddressThatHasGoneLeavesAnEmptyPlace) {
  Device device;
  const ibv_gid first = GidAt(device, 1), none{};
  const auto expect = [&](const ibv_gid& gid) {
    const std::optional<ibv_async_event> event = device.NextEvent();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->event_type, IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(event->element.port_num, 1);
    const ibv_gid now = GidAt(device, 1);
    EXPECT_EQ(std::memcmp(&now, &gid, sizeof gid), 0);
    ibv_gid_entry entry;
    const bool is_there = std::memcmp(&gid, &none, sizeof gid) != 0;
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 1, &entry, 0), is_there ? 0 : ENODATA);
    std::array<ibv_gid_entry, 64> table;
    EXPECT_EQ(ibv_query_gid_table(device.context, table.data(), table.size(), 0), is_there ? 2 : 1);
  };
  ASSERT_EQ(std::system("ip address del 10.8.0.1/24 dev eth0"), 0);
  expect(none);
  ASSERT_EQ(std::system("ip address add 10.8.0.1/24 dev eth0"), 0);
  expect(first);
  EXPECT_FALSE(device.HasEvent());
}

// From one opened device to another, and back to where it came from.
TEST(VerbsGid, TheHeaderOfADatagramSaysHowToAnswer) {
  for (const int index : {0, 1}) {
    Device a, b;
    ibv_cq *cq_a = a.CreateCq(8), *cq_b = b.CreateCq(8);
    ibv_qp *qp_a = CreateUd(a, cq_a), *qp_b = CreateUd(b, cq_b);
    ibv_ah_attr attr = AttrOf(static_cast<uint8_t>(index), GidAt(b, index));
    attr.grh.traffic_class = 0x68;
    ibv_ah* there = ibv_create_ah(a.pd, &attr);
    ASSERT_NE(there, nullptr);
    ASSERT_EQ(PostRecv(a, qp_a, 1, 512, kGrh + 64), 0);
    ASSERT_EQ(PostRecv(b, qp_b, 2, 512, kGrh + 64), 0);
    ASSERT_EQ(PostDatagram(a, qp_a, there, qp_b->qp_num, 3, 0, 64), 0);
    EXPECT_EQ(Await(cq_a).wr_id, 3u);
    ibv_wc wc = Await(cq_b);
    EXPECT_EQ(wc.wr_id, 2u);
    EXPECT_EQ(wc.sl & 7, index == 0 ? 1 : 2) << "which of the two, as mlx5 tells it: UCX goes by it";
    EXPECT_EQ(*b.at(512) >> 4, index == 0 ? 6 : 0) << "40 bytes of IPv6, or 20 of IPv4 behind as many zeros";
    auto* grh = reinterpret_cast<ibv_grh*>(b.at(512));
    ASSERT_EQ(ibv_init_ah_from_wc(b.context, 1, &wc, grh, &attr), 0);
    EXPECT_EQ(attr.grh.sgid_index, index);
    EXPECT_EQ(attr.grh.traffic_class, 0x68);
    EXPECT_EQ(attr.grh.hop_limit, 64) << "the kernel's, whatever the address says";
    const ibv_gid from = GidAt(a, index);
    EXPECT_EQ(std::memcmp(&attr.grh.dgid, &from, sizeof from), 0);
    ibv_ah* back = ibv_create_ah_from_wc(b.pd, &wc, grh, 1);
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(PostDatagram(b, qp_b, back, wc.src_qp, 4, 0, 64), 0);
    EXPECT_EQ(Await(cq_a).wr_id, 1u);
    EXPECT_EQ(ibv_destroy_ah(there), 0);
    EXPECT_EQ(ibv_destroy_ah(back), 0);
    for (ibv_qp* qp : {qp_a, qp_b}) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    for (ibv_cq* cq : {cq_a, cq_b}) EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
}

// The types of service of the RoCEv2 packets that pass the loopback interface, until so many have.
std::vector<int> TypesOfService(int sniffer, size_t packets) {
  std::vector<int> found;
  pollfd readable{sniffer, POLLIN, 0};
  std::array<uint8_t, 2048> ip;
  while (found.size() < packets && poll(&readable, 1, kCaptureTimeoutMs) == 1) {
    sockaddr_ll from{};
    socklen_t size = sizeof from;
    const ssize_t bytes =
        recvfrom(sniffer, ip.data(), ip.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    const bool roce = bytes > 28 && ip[9] == IPPROTO_UDP && ip[22] == 4791 >> 8 && ip[23] == (4791 & 0xff);
    if (roce && from.sll_pkttype == PACKET_OUTGOING) found.push_back(ip[1]);
  }
  return found;
}

TEST(VerbsGid, EachSideOfAConnectionSendsWithItsClass) {
  Device a, b;
  ibv_cq *cq_a = a.CreateCq(8), *cq_b = b.CreateCq(8);
  ibv_qp *qp_a = CreateRc(a, cq_a), *qp_b = CreateRc(b, cq_b);
  Connect(qp_a, GidAt(b, 1), qp_b->qp_num, {}, {.traffic_class = 0x68});
  Connect(qp_b, GidAt(a, 1), qp_a->qp_num, {}, {.traffic_class = 0xb8});
  const int sniffer = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
  ASSERT_GE(sniffer, 0);
  sockaddr_ll loopback{};
  loopback.sll_family = AF_PACKET;
  loopback.sll_protocol = htons(ETH_P_ALL);
  loopback.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
  ASSERT_EQ(bind(sniffer, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback), 0);
  ASSERT_EQ(PostRecv(b, qp_b, 2, 512, 64), 0);
  ASSERT_EQ(PostSend(a, qp_a, 3, 0, 64), 0);
  EXPECT_EQ(Await(cq_b).wr_id, 2u);
  EXPECT_EQ(Await(cq_a).wr_id, 3u);
  EXPECT_THAT(TypesOfService(sniffer, 2), ::testing::ElementsAre(0x68, 0xb8))
      << "the message, its acknowledgement";
  close(sniffer);
  for (ibv_qp* qp : {qp_a, qp_b}) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  for (ibv_cq* cq : {cq_a, cq_b}) EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// A receiver that is told of no addresses hears of one that the interface got when something comes to it.
TEST(VerbsGid, AnAddressThatCameLaterReceives) {
  Device a, b;
  ibv_cq *cq_a = a.CreateCq(8), *cq_b = b.CreateCq(8);
  ibv_qp *qp_a = CreateUd(a, cq_a), *qp_b = CreateUd(b, cq_b);
  ASSERT_EQ(std::system("ip address add 10.8.0.77/32 dev eth0"), 0);
  ibv_ah_attr attr = AttrOf(1, GidOf("10.8.0.77"));
  ibv_ah* there = ibv_create_ah(a.pd, &attr);
  ASSERT_NE(there, nullptr);
  ASSERT_EQ(PostRecv(b, qp_b, 2, 512, kGrh + 64), 0);
  ASSERT_EQ(PostDatagram(a, qp_a, there, qp_b->qp_num, 3, 0, 64), 0);
  EXPECT_EQ(Await(cq_b).wr_id, 2u);
  EXPECT_EQ(Await(cq_a).wr_id, 3u);
  EXPECT_EQ(std::system("ip address del 10.8.0.77/32 dev eth0"), 0);
  EXPECT_EQ(ibv_destroy_ah(there), 0);
  for (ibv_qp* qp : {qp_a, qp_b}) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  for (ibv_cq* cq : {cq_a, cq_b}) EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// There is no connection manager, so nobody is told of one.
TEST(VerbsGid, ThePortSaysWhatItHas) {
  Device device;
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
  EXPECT_EQ(port.port_cap_flags, uint32_t{IBV_PORT_IP_BASED_GIDS});
}

}  // namespace
}  // namespace epic::softnic::testing
