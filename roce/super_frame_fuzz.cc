// Any bytes with any segment length: SuperFrameView neither crashes nor reads outside, and says of each
// packet what ParseFrame says of it as a frame of its own. The first two bytes are the segment length. Each
// input is tried a second time with its checksum and lengths made right, since hardly any would get past
// them.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "roce/packet_testing.h"
#include "roce/super_frame.h"
#include "roce/view.h"

namespace epic::roce {
namespace {

void CheckSuperFrame(std::span<const uint8_t> frame, size_t segment_bytes) {
  SuperFrameView view;
  if (SuperFrameView::Of(frame, segment_bytes, &view) != ParseResult::kOk) return;
  std::vector<uint8_t> alone(frame.size());
  for (size_t k = 0; k <= view.packets(); ++k) {
    FrameAddress address, address_alone;
    Packet packet, packet_alone;
    const ParseResult result = view.Parse(k, &address, &packet);
    const size_t bytes = view.Write(k, alone);
    if (bytes == 0) {
      EPIC_CHECK(result == ParseResult::kTruncated);
      continue;
    }
    EPIC_CHECK(ParseFrame(std::span(alone).first(bytes), &address_alone, &packet_alone) == result);
    if (result != ParseResult::kOk) continue;
    EPIC_CHECK(address == address_alone && testing::SamePacket(packet, packet_alone));
    EPIC_CHECK(packet.payload.data() >= frame.data());
    EPIC_CHECK(packet.payload.data() + packet.payload.size() <= frame.data() + frame.size());
  }
}

// Makes headers right, and the ICRC of each packet.
void Mend(size_t segment_bytes, std::vector<uint8_t>* frame) {
  constexpr size_t kIp = 14;
  if (frame->size() < kSuperFrameHeadBytes || frame->size() > 0xffff) return;
  uint8_t* const ip = frame->data() + kIp;
  std::copy_n(std::array<uint8_t, 3>{0x08, 0x00, 0x45}.begin(), 3, ip - 2);
  ip[6] &= 0x40;
  ip[7] = 0;
  ip[9] = kIpProtocolUdp;
  StoreBe16(kUdpPort, ip + 22);
  MakeSuperFrameHead(frame->size() - kSuperFrameHeadBytes, *frame);
  SuperFrameView view;
  if (SuperFrameView::Of(*frame, segment_bytes, &view) != ParseResult::kOk) return;
  std::vector<uint8_t> alone(frame->size());
  for (size_t k = 0; k < view.packets(); ++k) {
    const size_t bytes = view.Write(k, alone);
    if (bytes == 0) continue;
    const uint32_t icrc = Icrc(std::span(alone).first(bytes).subspan(kIp));
    StoreLe32(icrc, frame->data() + kSuperFrameHeadBytes + k * segment_bytes +
                        (bytes - kSuperFrameHeadBytes) - kIcrcBytes);
  }
}

}  // namespace
}  // namespace epic::roce

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t segment_bytes = static_cast<size_t>(data[0]) << 8 | data[1];
  epic::roce::CheckSuperFrame({data + 2, size - 2}, segment_bytes);
  std::vector<uint8_t> mended(data + 2, data + size);
  epic::roce::Mend(segment_bytes, &mended);
  epic::roce::CheckSuperFrame(mended, segment_bytes);
  return 0;
}
