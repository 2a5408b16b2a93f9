// What the kernel would know of a device if it knew the device.
#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"
#include "roce/packet.h"

namespace epic::softnic {

struct DeviceAddress {
  Ipv4 ip{};
  uint32_t prefix_bits = 32;    // who has as many leading bits of it is on the same link
  std::optional<Ipv4> gateway;  // the others are behind it; none: there is no way to them
  roce::MacAddress mac{};
};

}  // namespace epic::softnic
