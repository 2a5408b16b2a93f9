#include "base/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace epic {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ManagerAddressTest, APortThatIsNotSaidIs7400) {
  const std::map<std::string, std::string> read = {{"192.0.2.1", "192.0.2.1:7400"},
                                                   {"192.0.2.1:1", "192.0.2.1:1"},
                                                   {"m", "m:7400"},
                                                   {"m-1.example.org:65535", "m-1.example.org:65535"},
                                                   {"my_host", "my_host:7400"},
                                                   {"10gig.example", "10gig.example:7400"},
                                                   {"[2001:db8::1]", "[2001:db8::1]:7400"},
                                                   {"[::ffff:192.0.2.1]:9", "[::ffff:192.0.2.1]:9"},
                                                   {"[fe80::1%eth0]:9", "[fe80::1%eth0]:9"},
                                                   {"unix:/run/epic/host.sock", "unix:/run/epic/host.sock"},
                                                   {"unix:host.sock", "unix:host.sock"}};
  for (const auto& [text, address] : read) {
    const auto result = ManagerAddress(text);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, address);
  }
}

TEST(ManagerAddressTest, MayBeAListOfManagers) {
  const auto list = ManagerAddress("a,b:1,[2001:db8::1],192.0.2.1");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(*list, "a:7400,b:1,[2001:db8::1]:7400,192.0.2.1:7400");
  EXPECT_EQ(AddressesOf(*list),
            (std::vector<std::string>{"a:7400", "b:1", "[2001:db8::1]:7400", "192.0.2.1:7400"}));
  EXPECT_EQ(AddressesOf("unix:/a,b"), (std::vector<std::string>{"unix:/a,b"}));
}

TEST(ManagerAddressTest, WhatIsNoneIsQuotedWithWhatWouldBeRight) {
  const std::map<std::string, std::string> wrong = {
      {"", "no host"},
      {":7400", "no host"},
      {"http://m:7400", "no scheme"},
      {"https://m", "no scheme"},
      {"dns:///m:7400", "no scheme"},
      {"unix:", "no path"},
      {"unix:" + std::string(108, 'x'), "longer than a socket's"},
      {"m:7400/", "has a path"},
      {"m:", "'' is not a port from 1 to 65535"},
      {"m:0", "'0' is not a port"},
      {"m:65536", "'65536' is not a port"},
      {"m:99999999999", "'99999999999' is not a port"},
      {"m:+7400", "'+7400' is not a port"},
      {"m:7400 ", "'7400 ' is not a port"},
      {"m:http", "'http' is not a port"},
      {"ipv4:m:7400", "brackets"},
      {"2001:db8::1", "brackets"},
      {"[2001:db8::1", "not closed"},
      {"[m]:7400", "not an IPv6 address"},
      {"[]:7400", "not an IPv6 address"},
      {"[fe80::1%]:7400", "not an IPv6 address"},
      {"[2001:db8::1]7400", "is not a port"},
      {"10.0.0", "10.0.0 is not an IPv4 address"},
      {"10.0.0.256:1", "10.0.0.256 is not an IPv4 address"},
      {"1.2.3.4.5", "is not an IPv4 address"},
      {"1.2.3.4.", "is not an IPv4 address"},
      {".1.2.3.4", "is not an IPv4 address"},
      {"1.2..4", "is not an IPv4 address"},
      {"7400", "7400 is not an IPv4 address"},
      {"m,", "it has no host"},
      {"m,,n", "it has no host"},
      {"m,n:0", "'0' is not a port"},
      {"m,unix:/run/x", "has a path"},
      {"m,n,m:7400", "m:7400 is in it twice"},
      {"1.0.0.1,1.0.0.2,1.0.0.3,1.0.0.4,1.0.0.5,1.0.0.6,1.0.0.7,1.0.0.8,1.0.0.9", "more than 8"},
      {"two words", "no host has such a name"},
      {"m\n:1", "no host has such a name"},
      {std::string("m\0:1", 4), "no host has such a name"},
      {std::string(254, 'm'), "no host has such a name"}};
  for (const auto& [text, what] : wrong) {
    const auto result = ManagerAddress(text);
    ASSERT_FALSE(result.ok()) << *result;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()),
                AllOf(HasSubstr("'" + text + "'"), HasSubstr(what), HasSubstr("HOST:PORT would be right")));
  }
}

TEST(ListenAddressTest, SaysHostAndPort) {
  const std::map<std::string, std::string> read = {{"192.0.2.1:7400", "192.0.2.1:7400"},
                                                   {"127.0.0.1:0", "127.0.0.1:0"},
                                                   {"localhost:65535", "localhost:65535"},
                                                   {"[::]:1", "[::]:1"},
                                                   {"[fe80::1%eth0]:9", "[fe80::1%eth0]:9"},
                                                   {"0.0.0.0:7401", "0.0.0.0:7401"},
                                                   {"*:7401", "*:7401"}};
  for (const auto& [text, address] : read) {
    const auto result = ListenAddress(text);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->ToString(), address);
  }
}

TEST(ListenAddressTest, WhatIsNoneIsQuotedWithWhatWouldBeRight) {
  const std::map<std::string, std::string> wrong = {{"127.0.0.1:99999", "'99999' is not a port from 0 to 65535"},
                                                    {"127.0.0.1", "it has no port"},
                                                    {"127.0.0.1:", "'' is not a port"},
                                                    {"*", "no host has such a name"},
                                                    {"*:99999", "'99999' is not a port"},
                                                    {"**:1", "no host has such a name"},
                                                    {"[::]", "it has no port"},
                                                    {"::", "brackets"},
                                                    {":7401", "no host"},
                                                    {"unix:/run/x", "has a path"}};
  for (const auto& [text, what] : wrong) {
    const auto result = ListenAddress(text);
    ASSERT_FALSE(result.ok()) << result->ToString();
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()),
                AllOf(HasSubstr("'" + text + "'"), HasSubstr(what), HasSubstr("HOST:PORT would be right")));
  }
}

TEST(CallableAddressTest, IsNotForAllAddressesOfAMachine) {
  for (const char* good : {"192.0.2.1:7401", "leaf1:7401", "[2001:db8::1]:1", "127.0.0.1:65535"}) {
    const auto result = CallableAddress(good);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->ToString(), good);
  }
  const std::map<std::string, std::string> wrong = {{"0.0.0.0:1", "0.0.0.0 stands for all"},
                                                    {"[::]:1", ":: stands for all"},
                                                    {"[0:0::0]:1", "stands for all"},
                                                    {"[::ffff:0.0.0.0]:1", "stands for all"},
                                                    {"*:1", "* stands for all"},
                                                    {"192.0.2.1:0", "'0' is not a port"},
                                                    {"192.0.2.1", "it has no port"},
                                                    {"a1\nswitch s1: up", "no host has such a name"}};
  for (const auto& [text, what] : wrong) {
    const auto result = CallableAddress(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_THAT(std::string(result.status().message()), AllOf(HasSubstr("'" + text + "'"), HasSubstr(what)));
  }
}

TEST(AddressTest, KnowsThisMachine) {
  for (const char* own : {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1"})
    EXPECT_TRUE(ListenAddress(own)->IsLoopback()) << own;
  for (const char* other : {"128.0.0.1:1", "127.example.org:1", "[::]:1", "0.0.0.0:1", "*:1", "local:1"})
    EXPECT_FALSE(ListenAddress(other)->IsLoopback()) << other;
}

}  // namespace
}  // namespace epic
