// For tests of this and other folders: a frame in one piece.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"
#include "roce/icrc.h"
#include "roce/view.h"
#include "roce/wire.h"

namespace epic::roce {

// Writes the frame of WritePieces, its ICRC computed over the whole packet. Returns the bytes written,
// FrameBytes(packet, address.vlan). The rules are those of WritePieces, and `out` is large enough.
inline size_t WriteFrame(const FrameAddress& address, const Packet& packet, std::span<uint8_t> out) {
  FramePieces pieces;
  WritePieces(address, packet, nullptr, &pieces);
  std::vector<uint8_t> frame = Join(pieces);
  const size_t before = EthernetView::kBytes + (address.vlan ? EthernetView::kTagBytes : 0);
  StoreLe32(Icrc(std::span(frame).subspan(before)), &frame[frame.size() - kIcrcBytes]);
  EPIC_CHECK(out.size() >= frame.size());
  std::ranges::copy(frame, out.begin());
  return frame.size();
}

}  // namespace epic::roce
