#include "base/ip.h"

#include <gtest/gtest.h>

#include <array>

namespace epic {
namespace {

using Bytes = std::array<uint8_t, Ip::kBytes>;

constexpr Bytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7};
constexpr Bytes kGlobal = {0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};

TEST(IpTest, AnIpv4AddressIsTheMappedOne) {
  const Ip ip = Ipv4{0x0a000007};
  EXPECT_TRUE(ip.is_v4());
  EXPECT_EQ(ip.v4(), Ipv4{0x0a000007});
  EXPECT_EQ(ip.bytes(), kMapped);
  EXPECT_EQ(Ip::Of(kMapped.data()), ip);
  EXPECT_EQ(Ip(), Ip(Ipv4{0}));
}

TEST(IpTest, AnIpv6AddressKeepsEachByte) {
  for (size_t at = 0; at < Ip::kBytes; ++at) {
    Bytes bytes = kGlobal;
    bytes[at] ^= 0x81;
    const Ip ip = Ip::Of(bytes.data());
    EXPECT_FALSE(ip.is_v4());
    EXPECT_EQ(ip.bytes(), bytes);
    EXPECT_NE(ip, Ip::Of(kGlobal.data()));
  }
}

// ::, ::1 and the deprecated ::10.0.0.7 are no IPv4 addresses.
TEST(IpTest, NorIsEveryAddressThatBeginsWithZerosAnIpv4One) {
  Bytes bytes{};
  EXPECT_FALSE(Ip::Of(bytes.data()).is_v4());
  bytes[15] = 1;
  EXPECT_FALSE(Ip::Of(bytes.data()).is_v4());
  bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 7};
  EXPECT_NE(Ip::Of(bytes.data()), Ip(Ipv4{0x0a000007}));
  EXPECT_EQ(Ip::Of(bytes.data()).bytes(), bytes);
}

TEST(IpTest, Kinds) {
  const auto of = [](uint8_t first, uint8_t second) {
    Bytes bytes = kGlobal;
    bytes[0] = first;
    bytes[1] = second;
    return Ip::Of(bytes.data());
  };
  EXPECT_TRUE(of(0xff, 0x0e).is_multicast());
  EXPECT_FALSE(of(0xfe, 0x80).is_multicast());
  EXPECT_TRUE(of(0xfe, 0x80).is_link_local());
  EXPECT_TRUE(of(0xfe, 0xbf).is_link_local());
  EXPECT_FALSE(of(0xfe, 0xc0).is_link_local());
  EXPECT_FALSE(of(0x20, 0x01).is_link_local());
  EXPECT_TRUE(Ip(Ipv4{0xe0000001}).is_multicast());
  EXPECT_TRUE(Ip(Ipv4{0xefffffff}).is_multicast());
  EXPECT_FALSE(Ip(Ipv4{0xf0000000}).is_multicast());
  EXPECT_FALSE(Ip(Ipv4{0xdfffffff}).is_multicast());
}

}  // namespace
}  // namespace epic
