#include "inchost/hello.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "roce/lldp.h"

namespace epic::host {
namespace {

TEST(HelloTest, SaysWhoseThePortIs) {
  proto::HostInfo info;
  info.set_name("h0");
  info.set_version("0.1.0");
  proto::HostPort& port = *info.add_ports();
  port.set_ifname("vec0");
  port.set_ip(0x0a000001);
  port.set_mac("\x02\x01\x02\x03\x04\x05");
  for (const bool second : {false, true}) {
    const std::vector<uint8_t> frame = HelloOf(info, port, second);
    EXPECT_GE(frame.size(), 60u);
    roce::Lldp hello;
    ASSERT_EQ(roce::ParseLldp(frame, &hello), roce::LldpResult::kOk);
    EXPECT_EQ(hello.dst, second ? roce::kHelloMac : roce::kLldpMac);
    EXPECT_EQ(hello.src, (roce::MacAddress{2, 1, 2, 3, 4, 5}));
    EXPECT_EQ(roce::ChassisMac(hello), hello.src);
    EXPECT_EQ(hello.port, "vec0");
    EXPECT_EQ(hello.system_name, "h0");
    EXPECT_EQ(hello.management, Ipv4{0x0a000001});
    EXPECT_EQ(hello.role, roce::EpicRole::kHost);
    EXPECT_EQ(hello.version, "0.1.0");
    EXPECT_EQ(hello.ttl_s, 3u);
  }
}

TEST(HelloTest, NamesTheDeviceByWhichItCannotBeSaid) {
  proto::HostInfo info;
  info.set_name("h0");
  proto::HostPort& port = *info.add_ports();
  port.set_ifname("no-such-device");
  port.set_mac(std::string(6, '\2'));
  Hellos hellos;
  EXPECT_TRUE(hellos.Say(info).starts_with("no-such-device: ")) << hellos.Say(info);
}

}  // namespace
}  // namespace epic::host
