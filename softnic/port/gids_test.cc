#include "softnic/port/gids.h"

#include <gtest/gtest.h>

namespace epic::softnic {
namespace {

Ip Global(uint8_t last) {
  const std::array<uint8_t, Ip::kBytes> bytes = {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return Ip::Of(bytes.data());
}

constexpr roce::MacAddress kMac = {0x52, 0x54, 0, 0x12, 0x34, 0x56};

TEST(GidsTest, LinkLocalIsTheModifiedEui64) {
  const std::array<uint8_t, Ip::kBytes> expected = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                                                    0x50, 0x54, 0x00, 0xff, 0xfe, 0x12, 0x34, 0x56};
  EXPECT_EQ(LinkLocalOf(kMac).bytes(), expected);
}

TEST(GidsTest, EachHasAnIndexFromTheOldestOn) {
  const Ipv4 first{0x0a000001}, second{0x0a000002};
  io::AddressedInterface interface { .name = "eth0", .ip = first, .mac = kMac };
  EXPECT_EQ(GidsOf(interface), (std::vector<Ip>{LinkLocalOf(kMac), kNoGid})) << "it has always these places";
  interface.addresses = {first, second, Global(2), Global(1), LinkLocalOf(kMac)};
  EXPECT_EQ(GidsOf(interface), (std::vector<Ip>{LinkLocalOf(kMac), first, second, Global(1), Global(2)}));
  interface.addresses = {second};
  EXPECT_EQ(GidsOf(interface), (std::vector<Ip>{LinkLocalOf(kMac), kNoGid, second}))
      << "others do not move up";
}

TEST(GidsTest, AnAddressThatHasGoneLeavesTheTableThatGidsOfMakes) {
  const Ipv4 first{0x0a000001}, second{0x0a000002};
  io::AddressedInterface interface { .name = "eth0", .ip = first, .mac = kMac };
  interface.addresses = {first, second, Global(1), LinkLocalOf(kMac)};
  const std::vector<Ip> all = interface.addresses;
  for (const Ip gone : {all[0], all[1], all[2], all[3], Global(9), kNoGid}) {
    interface.addresses = all;
    std::vector<Ip> gids = GidsOf(interface);
    const std::vector<Ip> before = gids;
    std::erase(interface.addresses, gone);
    const bool changes = RemoveGid(gone, &gids);
    EXPECT_EQ(gids, GidsOf(interface));
    EXPECT_EQ(changes, gids != before);
  }
}

}  // namespace
}  // namespace epic::softnic
