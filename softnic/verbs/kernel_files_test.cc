#include "softnic/verbs/kernel_files.h"

#include <gtest/gtest.h>

namespace epic::softnic {
namespace {

using FileKind = KernelFile::Kind;

TEST(KernelFilesTest, ThoseOfADevice) {
  const KernelFile device = KernelFileOf("/dev/infiniband/softnic_eth0");
  EXPECT_EQ(device.kind, FileKind::kDevice);
  EXPECT_EQ(device.device, "softnic_eth0");
  const KernelFile type = KernelFileOf("/sys/class/infiniband/rdma1/ports/1/gid_attrs/types/15");
  EXPECT_EQ(type.kind, FileKind::kGidType);
  EXPECT_EQ(type.device, "rdma1");
  EXPECT_EQ(type.gid, 15u);
  const KernelFile interface = KernelFileOf("/sys/class/infiniband/rdma1/ports/1/gid_attrs/ndevs/0");
  EXPECT_EQ(interface.kind, FileKind::kGidInterface);
  EXPECT_EQ(interface.gid, 0u);
}

TEST(KernelFilesTest, Others) {
  for (const char* path : {"", "/dev/infiniband/", "/dev/infiniband", "/dev/infiniband/a/b", "/dev/null",
                           "dev/infiniband/a", "/sys/class/infiniband", "/sys/class/infiniband/a",
                           "/sys/class/infiniband/a/ports/1/gid_attrs/types/",
                           "/sys/class/infiniband/a/ports/2/gid_attrs/types/0",
                           "/sys/class/infiniband/a/ports/1/gid_attrs/types/x",
                           "/sys/class/infiniband/a/ports/1/gid_attrs/types/0x",
                           "/sys/class/infiniband/a/ports/1/gid_attrs/types/-1",
                           "/sys/class/infiniband/a/ports/1/gid_attrs/types/4294967296",
                           "/sys/class/infiniband/a/device/numa_node"})
    EXPECT_EQ(KernelFileOf(path).kind, FileKind::kNone) << path;
}

}  // namespace
}  // namespace epic::softnic
