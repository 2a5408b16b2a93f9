// Files by which the kernel shows RDMA devices beside verbs.
#pragma once

#include <cstdint>
#include <string_view>

namespace epic::softnic {

struct KernelFile {
  enum class Kind : uint8_t {
    kNone,          // another one
    kDevice,        // the character device, /dev/infiniband/NAME
    kGidType,       // /sys/class/infiniband/NAME/ports/1/gid_attrs/types/INDEX: "RoCE v2"
    kGidInterface,  // .../ndevs/INDEX: "eth0"
  } kind = Kind::kNone;
  std::string_view device;  // NAME, a part of the path
  uint32_t gid = 0;         // INDEX
};

KernelFile KernelFileOf(std::string_view path);

}  // namespace epic::softnic
