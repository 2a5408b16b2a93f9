// A bridge between two switches learns from the source of each frame where a node is, and drops what comes
// from that side for it. But frames of a node pass a link also towards a switch that knows a better way back:
// what is flooded goes by another tree than what is for the node, and after a change old frames have come by
// old ways. So such a switch says, by an announcement, on which side of the bridge the node is
// (docs/PROTOCOL-CONTROL.md, section 12).
//
// It is a frame from the node's address to roce::kHelloMac, with nothing in it: bridges flood it and learn,
// and switches of EPIC's take it and forward it no further.
#pragma once

#include <array>
#include <cstdint>

#include "roce/packet.h"
#include "roce/view.h"

namespace epic::engine {

// For local experiments (IEEE 802, 9.2.4).
inline constexpr uint16_t kEtherTypeAnnouncement = 0x88b5;

inline constexpr size_t kAnnouncementBytes = 60;

std::array<uint8_t, kAnnouncementBytes> WriteAnnouncement(const roce::MacAddress& node);

bool IsAnnouncement(const roce::EthernetView& frame);

}  // namespace epic::engine
