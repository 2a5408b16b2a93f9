// Any bytes: ParseFrame neither crashes nor reads outside, and what it takes for a packet survives being
// written and read again. The ICRC is not asked for, or nothing would get past it.
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"
#include "roce/packet_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace epic::roce;
  FrameAddress address;
  Packet packet;
  const ParseResult lenient = ParseFrame({data, size}, &address, &packet, /*check_icrc=*/false);
  FrameAddress strict_address;
  Packet strict_packet;
  const ParseResult strict = ParseFrame({data, size}, &strict_address, &strict_packet);
  EPIC_CHECK(strict == lenient || (strict == ParseResult::kBadIcrc && lenient == ParseResult::kOk));
  if (lenient != ParseResult::kOk) return 0;
  EPIC_CHECK(packet.payload.data() >= data && packet.payload.data() + packet.payload.size() <= data + size);
  std::vector<uint8_t> written(FrameBytes(packet, address.vlan.has_value()));
  EPIC_CHECK(written.size() <= size && written.size() <= MaxFrameBytes(packet.payload.size()));
  EPIC_CHECK(WriteFrame(address, packet, written) == written.size());
  FrameAddress again_address;
  Packet again;
  EPIC_CHECK(ParseFrame(written, &again_address, &again) == ParseResult::kOk);
  EPIC_CHECK(again_address == address && testing::SamePacket(again, packet));
  return 0;
}
