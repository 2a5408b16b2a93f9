#include "roce/lldp.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "roce/view.h"

namespace epic::roce {
namespace {

using namespace std::string_view_literals;

constexpr MacAddress kSwitch = {0x02, 0xe1, 0x0a, 0, 0xff, 1};
constexpr std::string_view kSwitchBytes = "\x02\xe1\x0a\x00\xff\x01"sv;

Lldp Hello() {
  return {.dst = kLldpMac,
          .src = kSwitch,
          .chassis_kind = ChassisKind::kMac,
          .chassis = kSwitchBytes,
          .port_kind = PortKind::kInterface,
          .port = "swp1"sv,
          .ttl_s = 3,
          .port_description = {},
          .system_name = "leaf1"sv,
          .system_description = "EPIC incengine 0.1"sv,
          .capabilities = LldpCapabilities{kCapabilityBridge, kCapabilityBridge},
          .management = Ipv4{0x0a00ff01},
          .role = EpicRole::kSwitch,
          .version = "0.1"sv};
}

std::vector<uint8_t> Written(const Lldp& lldp) {
  std::vector<uint8_t> bytes(kMaxLldpFrameBytes);
  bytes.resize(WriteLldp(lldp, bytes));
  return bytes;
}

LldpResult Parse(const std::vector<uint8_t>& frame) {
  Lldp lldp;
  return ParseLldp(frame, &lldp);
}

// A frame of the three TLVs that must be there, and of these more.
std::vector<uint8_t> With(std::string_view tlvs) {
  std::vector<uint8_t> frame = Written({.dst = kLldpMac,
                                        .src = kSwitch,
                                        .chassis_kind = ChassisKind::kLocal,
                                        .chassis = "c"sv,
                                        .port_kind = PortKind::kLocal,
                                        .port = "p"sv,
                                        .ttl_s = 120});
  frame.resize(frame.size() - 2);  // without the end
  frame.insert(frame.end(), tlvs.begin(), tlvs.end());
  return frame;
}

// IEEE 802.1AB, 8.4 to 8.6.
TEST(LldpTest, WritesTheBytesOfTheStandard) {
  const std::string_view expected =
      "\x01\x80\xc2\x00\x00\x0e\x02\xe1\x0a\x00\xff\x01\x88\xcc"  // Ethernet
      "\x02\x07\x04\x02\xe1\x0a\x00\xff\x01"                      // chassis, a MAC address
      "\x04\x05\x05swp1"                                          // port, an interface's name
      "\x06\x02\x00\x03"                                          // time to live
      "\x0a\x05leaf1"
      "\x0c\x12"
      "EPIC incengine 0.1"
      "\x0e\x04\x00\x04\x00\x04"                                  // a bridge, and is one
      "\x10\x0c\x05\x01\x0a\x00\xff\x01\x01\x00\x00\x00\x00\x00"  // management address
      "\xfe\x08\x02\x45\x50\x01\x01"
      "0.1"  // EPIC's, a switch
      "\x00\x00"sv;
  const std::vector<uint8_t> written = Written(Hello());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(written.data()), written.size()), expected);
}

TEST(LldpTest, ReadsBackWhatItWrote) {
  Lldp hello = Hello();
  for (int step = 0; step < 7; ++step) {
    const std::vector<uint8_t> frame = Written(hello);
    Lldp read;
    ASSERT_EQ(ParseLldp(frame, &read), LldpResult::kOk) << step;
    EXPECT_EQ(read, hello) << step;
    if (step == 0) hello.port_description = ""sv;
    if (step == 1) hello.system_name.reset();
    if (step == 2) hello.capabilities.reset();
    if (step == 3) hello.management.reset();
    if (step == 4) hello.role.reset(), hello.version = {};
    if (step == 5) hello.ttl_s = 0;
  }
}

TEST(LldpTest, TheLongestFits) {
  const std::string longest(255, 'x');
  Lldp hello = Hello();
  hello.chassis_kind = ChassisKind::kLocal;
  hello.chassis = hello.port = hello.version = longest;
  hello.port_description = hello.system_name = hello.system_description = longest;
  const std::vector<uint8_t> frame = Written(hello);
  Lldp read;
  ASSERT_EQ(ParseLldp(frame, &read), LldpResult::kOk);
  EXPECT_EQ(read, hello);
}

TEST(LldpTest, PaddingAndTheFramesEndAreAnEnd) {
  std::vector<uint8_t> frame = Written(Hello());
  frame.resize(frame.size() + 20);
  EXPECT_EQ(Parse(frame), LldpResult::kOk);
  frame = With("");
  EXPECT_EQ(Parse(frame), LldpResult::kOk);
  EXPECT_EQ(Parse(With("\x00\x00\x0b\xff"sv)), LldpResult::kOk);  // nobody looks behind the end
}

TEST(LldpTest, PassesOverWhatItDoesNotKnow) {
  const std::vector<uint8_t> frame = With(
      "\x20\x03new"                                   // type 16
      "\xfe\x06\x00\x12\x0f\x01xy"                    // IEEE 802.3's
      "\x10\x18\x11\x02................\x02....\x00"  // an IPv6 address
      "\x10\x0c\x05\x01\x0a\x00\x00\x07\x02\x00\x00\x00\x01\x00"
      "\x10\x0c\x05\x01\x0a\x00\x00\x08\x02\x00\x00\x00\x01\x00"sv);
  Lldp read;
  ASSERT_EQ(ParseLldp(frame, &read), LldpResult::kOk);
  EXPECT_EQ(read.management, Ipv4{0x0a000007});
  EXPECT_FALSE(read.role);
}

TEST(LldpTest, ACutFrameIsTruncatedOrLacksWhatMustBeThere) {
  const std::vector<uint8_t> good = Written(Hello());
  Lldp read;
  size_t ok = 0;
  for (size_t size = 0; size < good.size(); ++size) {
    const LldpResult result = ParseLldp(std::span(good).first(size), &read);
    if (size < 14) {
      EXPECT_EQ(result, LldpResult::kNotLldp) << size;
    } else if (result == LldpResult::kOk) {
      ++ok;  // cut between two TLVs
    } else {
      EXPECT_EQ(result, LldpResult::kTruncated) << size;
    }
  }
  EXPECT_EQ(ok,
            6U);  // behind the time to live and each of the five that follow, of which the end is the last
}

TEST(LldpTest, SaysWhatIsWrong) {
  std::vector<uint8_t> frame = Written(Hello());
  frame[13] ^= 1;
  EXPECT_EQ(Parse(frame), LldpResult::kNotLldp);
  frame = Written(Hello());
  frame.insert(frame.begin() + 12, {0x81, 0x00, 0x00, 0x05});
  EXPECT_EQ(Parse(frame), LldpResult::kNotLldp);
  frame = Written(Hello());
  frame[14] = 0x04;  // a port first
  EXPECT_EQ(Parse(frame), LldpResult::kWrongOrder);
  EXPECT_EQ(Parse(With("\x06\x02\x00\x03"sv)), LldpResult::kRepeated);
  EXPECT_EQ(Parse(With("\x0a\x01x\x0a\x01y"sv)), LldpResult::kRepeated);
  EXPECT_EQ(Parse(With("\x0e\x04....\x0e\x04...."sv)), LldpResult::kRepeated);
  EXPECT_EQ(Parse(With("\xfe\x05\x02\x45\x50\x01\x01\xfe\x05\x02\x45\x50\x01\x01"sv)), LldpResult::kRepeated);
  EXPECT_EQ(Parse(With("\x0e\x03..."sv)), LldpResult::kBadLength);
  EXPECT_EQ(Parse(With("\x10\x00"sv)), LldpResult::kBadLength);
  EXPECT_EQ(Parse(With("\x10\x0b\x05\x01\x0a\x00\x00\x07\x02\x00\x00\x00\x01"sv)), LldpResult::kBadLength);
  EXPECT_EQ(Parse(With("\xfe\x03\x02\x45\x50"sv)), LldpResult::kBadLength);
  EXPECT_EQ(Parse(With("\xfe\x04\x02\x45\x50\x01"sv)), LldpResult::kBadLength);
  std::string long_name(2 + 256, 'x');  // a system name of 256 bytes
  long_name[0] = '\x0b';
  long_name[1] = '\0';
  EXPECT_EQ(Parse(With(long_name)), LldpResult::kBadLength);
  EXPECT_STREQ(Name(LldpResult::kWrongOrder), "wrong_order");
}

TEST(LldpTest, AChassisMayBeNamedByItsMacAddress) {
  EXPECT_EQ(ChassisMac(Hello()), kSwitch);
  Lldp hello = Hello();
  hello.chassis = "short"sv;
  EXPECT_FALSE(ChassisMac(hello));
}

TEST(LldpTest, FourAddressesEndAtTheSwitch) {
  for (int last = 0; last < 256; ++last) {
    const MacAddress dst = {0x01, 0x80, 0xc2, 0, 0, static_cast<uint8_t>(last)};
    EXPECT_EQ(IsLldpAddress(dst), last == 0 || last == 3 || last == 14) << last;
  }
  EXPECT_TRUE(IsLldpAddress(kHelloMac));
  EXPECT_EQ(kHelloMac[0] & 3, 3);  // a group address, locally administered
  EXPECT_FALSE(IsLldpAddress(kSwitch));
}

}  // namespace
}  // namespace epic::roce
