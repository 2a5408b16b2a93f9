#include "incengine/core/announcement.h"

#include <algorithm>

#include "roce/lldp.h"

namespace epic::engine {

std::array<uint8_t, kAnnouncementBytes> WriteAnnouncement(const roce::MacAddress& node) {
  std::array<uint8_t, kAnnouncementBytes> frame{};
  auto at = std::ranges::copy(roce::kHelloMac, frame.begin()).out;
  at = std::ranges::copy(node, at).out;
  *at++ = kEtherTypeAnnouncement >> 8;
  *at = kEtherTypeAnnouncement & 0xff;
  return frame;
}

bool IsAnnouncement(const roce::EthernetView& frame) {
  return frame.ether_type() == kEtherTypeAnnouncement && !frame.vlan() && frame.dst() == roce::kHelloMac;
}

}  // namespace epic::engine
