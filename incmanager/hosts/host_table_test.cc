#include "incmanager/hosts/host_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace epic::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

HostInfo Info(const std::string& name, uint32_t last) {
  HostInfo info{.name = name, .ports = {}, .version = "1"};
  info.ports.push_back({.ifname = "vec0", .device = "rxe0", .port = 1, .ip = Ipv4{0x0a000000 | last}});
  return info;
}

TEST(HostTable, HostsOfOneNameAreToldApartByTheirAddresses) {
  HostTable table;
  ASSERT_TRUE(table.Register(0, 1, Info("h0", 1)).ok());
  EXPECT_EQ(table.NameOf(1), "h0");
  ASSERT_TRUE(table.Register(0, 2, Info("h0", 2)).ok());
  EXPECT_EQ(table.NameOf(1), "h0 (10.0.0.1)");
  EXPECT_EQ(table.NameOf(2), "h0 (10.0.0.2)");
  table.AddSession(1, 1, 100);
  table.AddSession(2, 1, 101);
  EXPECT_THAT(table.Remove(2), ElementsAre(101));
  EXPECT_EQ(table.NameOf(1), "h0");
  EXPECT_TRUE(table.FindSession(1, 1).has_value()) << "the other one's";
  HostInfo without = Info("h0", 2);
  without.ports.clear();
  const Status refused = table.Register(0, 3, without);
  EXPECT_EQ(refused.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(
      refused.message(),
      "name: there is a host h0 already, at 10.0.0.1, and this one is without a RoCE port, so that they "
      "cannot be told apart: give it an address, or another name (inchost --name)");
}

TEST(HostTable, AnAddressBelongsToOneHost) {
  HostTable table;
  EXPECT_TRUE(table.Register(0, 1, Info("h0", 1)).ok());
  EXPECT_EQ(table.Register(0, 2, Info("h1", 1)).message(),
            "address: 10.0.0.1 of h1 is also that of host h0 (vec0)");
  EXPECT_FALSE(table.IsRegistered(2));
  EXPECT_TRUE(table.Register(0, 2, Info("h1", 2)).ok());
  for (const char* none : {"", "h 3", "h\x1b[2J"})
    EXPECT_EQ(table.Register(0, 3, Info(none, 3)).code(), StatusCode::kInvalidArgument) << none;
}

TEST(HostTable, AHostSaysAgainWhatHasChangedAndKeepsItsSessions) {
  HostTable table;
  ASSERT_TRUE(table.Register(0, 1, Info("h0", 1)).ok());
  table.AddSession(1, 7, 70);
  EXPECT_TRUE(table.Register(1, 1, Info("h0", 2)).ok());
  EXPECT_EQ(table.hosts().at(1).info.ports[0].ip, Ipv4{0x0a000002});
  EXPECT_EQ(table.FindSession(1, 7), 70u);
  EXPECT_EQ(table.Register(2, 1, Info("h9", 2)).message(), "name: h9, which was h0 before");
  EXPECT_EQ(table.hosts().at(1).info.name, "h0");
}

TEST(HostTable, SessionsAreFoundBothWaysAndGoWithTheirHost) {
  HostTable table;
  ASSERT_TRUE(table.Register(0, 1, Info("h0", 1)).ok());
  ASSERT_TRUE(table.Register(0, 2, Info("h1", 2)).ok());
  table.AddSession(1, 7, 70);
  table.AddSession(2, 7, 71);
  table.AddSession(1, 8, 72);
  EXPECT_EQ(table.FindSession(2, 7), 71u);
  EXPECT_EQ(table.HostOf(72)->host, 1u);
  EXPECT_EQ(table.HostOf(72)->number, 8u);
  table.RemoveSession(72);
  EXPECT_FALSE(table.HostOf(72) || table.FindSession(1, 8));
  EXPECT_THAT(table.Remove(1), ElementsAre(70));
  EXPECT_FALSE(table.HostOf(70) || table.FindSession(1, 7));
  EXPECT_EQ(table.FindSession(2, 7), 71u);
  EXPECT_THAT(table.Remove(1), IsEmpty());
}

TEST(HostTable, WhoIsSilentForMoreThanFourSecondsIsToldOnce) {
  HostTable table;
  ASSERT_TRUE(table.Register(0, 1, Info("h0", 1)).ok());
  ASSERT_TRUE(table.Register(0, 2, Info("h1", 2)).ok());
  table.OnHeard(kSecond, 2);
  EXPECT_THAT(table.Silent(4 * kSecond), IsEmpty());
  EXPECT_THAT(table.Silent(4 * kSecond + 1), ElementsAre(1));
  EXPECT_THAT(table.Silent(5 * kSecond + 1), ElementsAre(2));
  EXPECT_FALSE(table.MayReturn(5 * kSecond + 1, 1));
  EXPECT_TRUE(table.OnHeard(9 * kSecond, 1));
  EXPECT_FALSE(table.OnHeard(9 * kSecond + 1, 1)) << "it is not silent any more";
  EXPECT_TRUE(table.MayReturn(9 * kSecond + HostTable::kHeardToBreakIn, 1));
  EXPECT_FALSE(table.MayReturn(9 * kSecond + HostTable::kHeardToBreakIn + 1, 1));
  EXPECT_THAT(table.Silent(13 * kSecond + 2), ElementsAre(1));
}

}  // namespace
}  // namespace epic::manager
