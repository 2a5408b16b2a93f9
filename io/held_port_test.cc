// UDP ports that are held so that the kernel does not answer for them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "io/packet_socket.h"

namespace epic::io {
namespace {

constexpr Ipv4 kGroup{0xefff0707};  // 239.255.7.7

// Datagrams that the socket's filter has dropped.
uint32_t DroppedBy(const Descriptor& held) {
  std::array<uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t length = sizeof memory;
  EXPECT_EQ(getsockopt(held.get(), SOL_SOCKET, SO_MEMINFO, memory.data(), &length), 0);
  return memory[SK_MEMINFO_DROPS];
}

// Of a super-frame each socket to which it is delivered has a copy, cut into packets.
TEST(HeldPortTest, WhatComesToAGroupIsNotDelivered) {
  const uint32_t lo = if_nametoindex("lo");
  // Another program's socket at the port, in the group.
  const Descriptor other(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(other.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  setsockopt(other.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  ASSERT_EQ(JoinGroup(other.get(), lo, kGroup), 0);

  const Descriptor held = HoldUdpPort(ntohs(address.sin_port)), members = OpenMembership();
  ASSERT_TRUE(held && members);
  ASSERT_EQ(JoinGroup(members.get(), lo, kGroup), 0);
  const Descriptor sender(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const ip_mreqn by = {.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = static_cast<int>(lo)};
  ASSERT_EQ(setsockopt(sender.get(), IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by), 0);
  address.sin_addr.s_addr = htonl(Raw(kGroup));
  // When the second has come, the first has been to every socket.
  for (char byte : {'a', 'b'}) {
    ASSERT_EQ(sendto(sender.get(), &byte, 1, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address),
              1);
    ASSERT_EQ(recv(other.get(), &byte, 1, 0), 1);
  }
  EXPECT_EQ(DroppedBy(held), 0u);
  LeaveGroup(members.get(), lo, kGroup);
}

}  // namespace
}  // namespace epic::io
