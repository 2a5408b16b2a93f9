#include "softnic/verbs/asked_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace epic::softnic {
namespace {

using ::testing::HasSubstr;

AskedDevice One(std::string_view text) {
  const auto all = ParseAskedDevices(text);
  EXPECT_EQ(all.size(), 1u) << text;
  EXPECT_TRUE(all[0].ok()) << all[0].status();
  return *all[0];
}

std::string Refused(std::string_view text) {
  const auto all = ParseAskedDevices(text);
  EXPECT_EQ(all.size(), 1u) << text;
  EXPECT_EQ(all[0].status().code(), StatusCode::kInvalidArgument);
  return std::string(all[0].status().message());
}

TEST(AskedDevicesTest, InterfacesAreAsEver) {
  const auto all = ParseAskedDevices("eth0,,rdma1=eth1,ip=lo");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]->name, "");
  EXPECT_EQ(all[0]->interface, "eth0");
  EXPECT_EQ(all[1]->name, "rdma1");
  EXPECT_EQ(all[1]->interface, "eth1");
  // It is a word only behind a device that takes it.
  EXPECT_EQ(all[2]->name, "ip");
  EXPECT_EQ(all[2]->interface, "lo");
}

TEST(AskedDevicesTest, AMemifHasWordsBehindIt) {
  const AskedDevice one =
      One("rdma0=memif:/run/epic/h0.sock,ip=10.10.0.1/16,mac=02:00:00:00:00:07,gateway=10.10.255.1,id=3");
  EXPECT_EQ(one.name, "rdma0");
  EXPECT_EQ(one.interface, "");
  EXPECT_EQ(one.device, "net_memif0,socket=/run/epic/h0.sock,role=client,id=3");
  EXPECT_EQ(one.address.ip, Ipv4{0x0a0a0001});
  EXPECT_EQ(one.address.prefix_bits, 16u);
  EXPECT_EQ(one.address.mac, (roce::MacAddress{2, 0, 0, 0, 0, 7}));
  EXPECT_EQ(one.address.gateway, Ipv4{0x0a0aff01});
}

TEST(AskedDevicesTest, WhatIsNotSaidFollows) {
  const AskedDevice one = One("memif:/s,ip=10.10.0.1,role=server");
  EXPECT_EQ(one.device, "net_memif0,socket=/s,role=server");
  EXPECT_EQ(one.address.prefix_bits, 32u);
  EXPECT_EQ(one.address.mac, (roce::MacAddress{2, 0xe1, 10, 10, 0, 1}));
  EXPECT_FALSE(one.address.gateway.has_value());
}

TEST(AskedDevicesTest, WhatTakesNoWordBeginsTheNextDevice) {
  const auto all = ParseAskedDevices(
      "memif:/a,ip=10.0.0.1/8,rdma1=eth1,b=virtio-user:/v,ip=10.0.0.2/8,c=pci:0000:3b:00.0,ip=10.0.0.3/8");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1]->interface, "eth1");
  EXPECT_EQ(all[2]->device, "net_virtio_user2,path=/v");
  EXPECT_EQ(all[3]->device, "0000:3b:00.0");
  EXPECT_EQ(all[3]->name, "c");
}

TEST(AskedDevicesTest, WhatIsWrongIsQuoted) {
  EXPECT_EQ(Refused("rdma0=memif:/s"), "memif:/s: it needs ip=ADDRESS/BITS behind it");
  EXPECT_EQ(Refused("memif:"), "memif:: nothing stands behind the colon");
  EXPECT_THAT(Refused("memif:/s,ip=10.0.0"), HasSubstr("ip is ADDRESS/BITS"));
  EXPECT_THAT(Refused("memif:/s,ip=10.0.0.1/33"), HasSubstr("ip is ADDRESS/BITS"));
  EXPECT_THAT(Refused("memif:/s,ip=10.0.0.1/"), HasSubstr("ip is ADDRESS/BITS"));
  EXPECT_THAT(Refused("memif:/s,ip=239.0.0.1/8"), HasSubstr("ip is ADDRESS/BITS"));
  EXPECT_THAT(Refused("memif:/s,ip=10.0.0.1/8,mac=01:00:5e:00:00:01"), HasSubstr("mac is six bytes"));
  EXPECT_THAT(Refused("memif:/s,ip=10.0.0.1/8,mac=02:00:00:00:00:07:08"), HasSubstr("mac is six bytes"));
  EXPECT_THAT(Refused("memif:/s,ip=10.0.0.1/8,gateway=x"), HasSubstr("gateway is an IPv4 address"));
}

}  // namespace
}  // namespace epic::softnic
