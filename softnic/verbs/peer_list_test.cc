#include "softnic/verbs/peer_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::softnic {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PeerListTest, AddressesAndPrefixes) {
  std::vector<std::string> wrong;
  const PeerList list = PeerList::Parse("10.0.0.7,,10.1.2.3/16,192.168.0.128/25,", &wrong);
  EXPECT_THAT(wrong, IsEmpty());
  for (const uint32_t ip : {0x0a000007u, 0x0a010000u, 0x0a01ffffu, 0xc0a80080u, 0xc0a800ffu})
    EXPECT_TRUE(list.Contains(Ipv4{ip})) << std::hex << ip;
  for (const uint32_t ip : {0x0a000006u, 0x0a000008u, 0x0a020000u, 0xc0a8007fu, 0xc0a80100u, 0u})
    EXPECT_FALSE(list.Contains(Ipv4{ip})) << std::hex << ip;
}

TEST(PeerListTest, AnEmptyOneHasNobodyAndALengthOfZeroEverybody) {
  std::vector<std::string> wrong;
  EXPECT_FALSE(PeerList::Parse("", &wrong).Contains(Ipv4{0x0a000001}));
  EXPECT_TRUE(PeerList::Parse("0.0.0.0/0", &wrong).Contains(Ipv4{0xffffffff}));
  EXPECT_THAT(wrong, IsEmpty());
}

TEST(PeerListTest, WhatIsNoneIsLeftOutAndTold) {
  std::vector<std::string> wrong;
  const PeerList list = PeerList::Parse(
      "10.0.0.1, 10.0.0.2,eth0,10.0.0/24,10.0.0.4/33,10.0.0.5/,10.0.0.6/8x,10.0.0.7/-1", &wrong);
  EXPECT_THAT(wrong, ElementsAre(" 10.0.0.2", "eth0", "10.0.0/24", "10.0.0.4/33", "10.0.0.5/", "10.0.0.6/8x",
                                 "10.0.0.7/-1"));
  EXPECT_TRUE(list.Contains(Ipv4{0x0a000001}));
  EXPECT_FALSE(list.Contains(Ipv4{0x0a000004}));
}

}  // namespace
}  // namespace epic::softnic
