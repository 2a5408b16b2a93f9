#include "io/dpdk/device.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace epic::io::dpdk {
namespace {

std::string WhyNot(const std::string& device) {
  const auto parsed = ParseDevice({.name = "swp1", .device = device}, 4200);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(DpdkDeviceTest, AMemifIsAServerAtAFileUnlessItIsSaidOtherwise) {
  const auto device = ParseDevice({.name = "swp1", .device = "net_memif0,socket=/run/s"}, 4200);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->name, "net_memif0");
  EXPECT_EQ(device->arguments, ",bsize=4256,role=server,socket=/run/s,socket-abstract=no");
  EXPECT_TRUE(device->memif && device->server && !device->abstract && !device->pci);

  const auto client = ParseDevice(
      {.name = "swp1", .device = "net_memif7,role=client,id=3,socket=x,socket-abstract=yes"}, 4200);
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(!client->server && client->abstract);
  EXPECT_EQ(client->socket, "x");
  EXPECT_NE(client->arguments.find(",id=3"), std::string::npos);
}

// The driver looks at the room of what it copies into only where bsize is between the two.
TEST(DpdkDeviceTest, MemifsBuffersAreLargerThanWhatIsReceivedIntoAndSmallerThanWhatIsSent) {
  for (uint32_t mtu = 256; mtu <= 9600; ++mtu) {
    EXPECT_GE(ReceiveRoom(mtu), MaxFrameBytes(mtu));
    EXPECT_LT(ReceiveRoom(mtu), MemifRoom(mtu));
    EXPECT_LT(MemifRoom(mtu), SendRoom(mtu));
  }
}

TEST(DpdkDeviceTest, WhatIsWrongNamesThePortAndTheDevice) {
  EXPECT_EQ(WhyNot("net_memif0"),
            "port swp1: device net_memif0: it needs socket=PATH, where the two ends meet");
  EXPECT_NE(WhyNot("net_memif0,socket").find("NAME=VALUE"), std::string::npos);
  EXPECT_NE(WhyNot("net_memif0,socket=/s,bsize=9000").find("--dpdk-mtu"), std::string::npos);
  EXPECT_NE(WhyNot("net_memif0,socket=/s,zero-copy=yes").find("zero-copy"), std::string::npos);
  EXPECT_NE(WhyNot("net_memif0,socket=/s,role=master").find("server or client"), std::string::npos);
  EXPECT_NE(WhyNot("net_memif0,socket=/s,colour=red").find("colour is no argument"), std::string::npos);
  EXPECT_NE(WhyNot("eth0").find("no PCI address"), std::string::npos);
  EXPECT_NE(WhyNot("0000:3b:00").find("no PCI address"), std::string::npos);
  EXPECT_EQ(WhyNot("0000:3b:00.0"), "");
  EXPECT_EQ(WhyNot("net_null0"), "");
}

TEST(DpdkDeviceTest, APciDeviceThatTheKernelDrivesIsNamedWithTheCure) {
  const auto sysfs = std::filesystem::temp_directory_path() /
                     ("epic-sysfs-" + std::to_string(std::hash<std::string>{}(testing::TempDir())));
  const auto folder = sysfs / "0000:3b:00.0";
  Device device{.port = "swp1", .name = "0000:3b:00.0", .pci = true};
  EXPECT_EQ(WrongPciDevice(device, sysfs), "swp1: there is no PCI device 0000:3b:00.0; lspci -D lists them");
  std::filesystem::create_directories(folder);
  EXPECT_NE(WrongPciDevice(device, sysfs).find("driven by nobody"), std::string::npos);
  for (const auto& [driver, fits] : {std::pair("ixgbe", false), {"vfio-pci", true}, {"mlx5_core", true}}) {
    std::filesystem::create_symlink(std::filesystem::path("/drivers") / driver, folder / "driver");
    EXPECT_EQ(WrongPciDevice(device, sysfs).empty(), fits) << driver;
    std::filesystem::remove(folder / "driver");
  }
  device.pci = false;
  EXPECT_EQ(WrongPciDevice(device, sysfs), "");
  std::filesystem::remove_all(sysfs);
}

}  // namespace
}  // namespace epic::io::dpdk
