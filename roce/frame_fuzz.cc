// Any bytes: ParseFrame and ParseIpv6Frame neither crash nor read outside, and what they take for a packet
// survives being written and read again. The ICRC is not asked for, or nothing would get past it; for the
// same reason each input is tried a second time with its IP checksum and lengths made right.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"
#include "roce/frame_testing.h"
#include "roce/packet_testing.h"
#include "roce/view.h"
#include "roce/view_ipv6.h"

namespace epic::roce {
namespace {

using Parser = ParseResult (*)(std::span<const uint8_t>, FrameAddress*, Packet*, bool);

void CheckFrame(std::span<const uint8_t> frame, Parser parse, size_t more_bytes) {
  FrameAddress address;
  Packet packet;
  const ParseResult lenient = parse(frame, &address, &packet, /*check_icrc=*/false);
  FrameAddress strict_address;
  Packet strict_packet;
  const ParseResult strict = parse(frame, &strict_address, &strict_packet, /*check_icrc=*/true);
  EPIC_CHECK(strict == lenient || (strict == ParseResult::kBadIcrc && lenient == ParseResult::kOk));
  if (lenient != ParseResult::kOk) return;
  EPIC_CHECK(packet.payload.data() >= frame.data());
  EPIC_CHECK(packet.payload.data() + packet.payload.size() <= frame.data() + frame.size());
  std::vector<uint8_t> written(FrameBytes(packet, address.vlan.has_value()));
  EPIC_CHECK(written.size() <= frame.size() &&
             written.size() <= MaxFrameBytes(packet.payload.size()) + more_bytes);
  EPIC_CHECK(WriteFrame(address, packet, written) == written.size());
  FrameAddress again_address;
  Packet again;
  EPIC_CHECK(parse(written, &again_address, &again, true) == ParseResult::kOk);
  EPIC_CHECK(again_address == address && testing::SamePacket(again, packet));
}

void CheckFrame(std::span<const uint8_t> frame) {
  CheckFrame(frame, ParseFrame, 0);
  CheckFrame(frame, ParseIpv6Frame, kIpv6MoreBytes);
}

// Makes what can be an IPv6 packet with UDP a consistent one.
void MendIpv6(std::span<uint8_t> ip) {
  if (ip.size() < Ipv6View::kBytes + UdpView::kBytes) return;
  const auto bytes = static_cast<uint16_t>(std::min<size_t>(ip.size() - Ipv6View::kBytes, 0xffff));
  StoreBe16(bytes, &ip[4]);
  StoreBe16(bytes, &ip[Ipv6View::kBytes + 4]);
}

// Makes what can be an IPv4 packet with UDP a consistent one, or an IPv6 one.
void Mend(std::vector<uint8_t>* frame) {
  const auto ethernet = EthernetView::Of(*frame);
  if (!ethernet || ethernet->payload().size() < Ipv4View::kBytes + UdpView::kBytes) return;
  if (ethernet->ether_type() == kEtherTypeIpv6)
    return MendIpv6(std::span(*frame).subspan(ethernet->header_bytes()));
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
