// Any bytes: ParseFrame neither crashes nor reads outside, and what it takes for a packet survives being
// written and read again. The ICRC is not asked for, or nothing would get past it; for the same reason each
// input is tried a second time with its IP checksum and lengths made right.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"
#include "roce/packet_testing.h"
#include "roce/view.h"

namespace epic::roce {
namespace {

void CheckFrame(std::span<const uint8_t> frame) {
  FrameAddress address;
  Packet packet;
  const ParseResult lenient = ParseFrame(frame, &address, &packet, /*check_icrc=*/false);
  FrameAddress strict_address;
  Packet strict_packet;
  const ParseResult strict = ParseFrame(frame, &strict_address, &strict_packet);
  EPIC_CHECK(strict == lenient || (strict == ParseResult::kBadIcrc && lenient == ParseResult::kOk));
  if (lenient != ParseResult::kOk) return;
  EPIC_CHECK(packet.payload.data() >= frame.data());
  EPIC_CHECK(packet.payload.data() + packet.payload.size() <= frame.data() + frame.size());
  std::vector<uint8_t> written(FrameBytes(packet, address.vlan.has_value()));
  EPIC_CHECK(written.size() <= frame.size() && written.size() <= MaxFrameBytes(packet.payload.size()));
  EPIC_CHECK(WriteFrame(address, packet, written) == written.size());
  FrameAddress again_address;
  Packet again;
  EPIC_CHECK(ParseFrame(written, &again_address, &again) == ParseResult::kOk);
  EPIC_CHECK(again_address == address && testing::SamePacket(again, packet));
}

// Makes what can be an IPv4 packet with UDP a consistent one.
void Mend(std::vector<uint8_t>* frame) {
  const auto ethernet = EthernetView::Of(*frame);
  if (!ethernet || ethernet->payload().size() < Ipv4View::kBytes + UdpView::kBytes) return;
  uint8_t* const ip = frame->data() + ethernet->header_bytes();
  const size_t ip_bytes = std::min<size_t>(ethernet->payload().size(), 0xffff);
  StoreBe16(static_cast<uint16_t>(ip_bytes), ip + 2);
  StoreBe16(static_cast<uint16_t>(ip_bytes - Ipv4View::kBytes), ip + Ipv4View::kBytes + 4);
  StoreBe16(0, ip + 10);
  StoreBe16(InternetChecksum({ip, Ipv4View::kBytes}), ip + 10);
}

}  // namespace
}  // namespace epic::roce

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::roce::CheckFrame({data, size});
  std::vector<uint8_t> mended(data, data + size);
  epic::roce::Mend(&mended);
  epic::roce::CheckFrame(mended);
  return 0;
}
