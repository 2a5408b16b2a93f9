#include "roce/arp.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace epic::roce {
namespace {

constexpr MacAddress kHost = {0x52, 0x54, 0, 0, 0, 1};
constexpr MacAddress kSwitch = {0x02, 0xe9, 0x1c, 0, 0, 7};

Arp WhoHas() {
  return {.dst = kBroadcastMac,
          .src = kHost,
          .vlan = {},
          .op = ArpOp::kRequest,
          .sender_mac = kHost,
          .sender_ip = Ipv4{0x0a090001},
          .target_mac = {},
          .target_ip = Ipv4{0x0a0900fe}};
}

std::vector<uint8_t> Written(const Arp& arp) {
  std::vector<uint8_t> bytes(kMaxArpFrameBytes);
  bytes.resize(WriteArp(arp, bytes));
  return bytes;
}

TEST(ArpTest, WritesTheBytesOfRfc826) {
  const std::vector<uint8_t> expected = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x52, 0x54, 0, 0,
                                         0,    1,    0x08, 0x06,                       // Ethernet
                                         0,    1,    0x08, 0,    6,    4,    0,    1,  // kind, request
                                         0x52, 0x54, 0,    0,    0,    1,    10,   9,    0, 1,      // sender
                                         0,    0,    0,    0,    0,    0,    10,   9,    0, 0xfe};  // target
  EXPECT_EQ(Written(WhoHas()), expected);
}

TEST(ArpTest, ReadsBackWhatItWrote) {
  Arp arp = WhoHas();
  EXPECT_EQ(ParseArp(Written(arp)), arp);
  arp.vlan = 0x6123;
  arp.op = ArpOp::kReply;
  EXPECT_EQ(Written(arp).size(), kMaxArpFrameBytes);
  EXPECT_EQ(ParseArp(Written(arp)), arp);
}

TEST(ArpTest, ReadsPaddedFrames) {
  std::vector<uint8_t> bytes = Written(WhoHas());
  bytes.resize(60, 0xee);
  EXPECT_EQ(ParseArp(bytes), WhoHas());
}

TEST(ArpTest, RefusesEverythingElse) {
  const std::vector<uint8_t> good = Written(WhoHas());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(ParseArp(std::span(good).first(size))) << size;
  // EtherType, hardware type, protocol type, the two lengths, operation.
  for (const size_t byte : {12u, 13u, 14u, 15u, 16u, 17u, 18u, 19u, 20u, 21u}) {
    std::vector<uint8_t> bad = good;
    bad[byte] ^= 0x40;
    EXPECT_FALSE(ParseArp(bad)) << byte;
  }
}

TEST(ArpTest, ReplyGoesBackToTheAsker) {
  Arp request = WhoHas();
  request.vlan = 5;
  const Arp reply = ArpReplyTo(request, kSwitch);
  EXPECT_EQ(reply.dst, kHost);
  EXPECT_EQ(reply.src, kSwitch);
  EXPECT_EQ(reply.vlan, 5);
  EXPECT_EQ(reply.op, ArpOp::kReply);
  EXPECT_EQ(reply.sender_mac, kSwitch);
  EXPECT_EQ(reply.sender_ip, Ipv4{0x0a0900fe});
  EXPECT_EQ(reply.target_mac, kHost);
  EXPECT_EQ(reply.target_ip, Ipv4{0x0a090001});
}

}  // namespace
}  // namespace epic::roce
