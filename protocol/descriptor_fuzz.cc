// Any bytes as a control message with a descriptor: what decodes encodes to the same bytes, and no byte of
// one that is sound lies beyond the parts that the rank has named.
#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "protocol/descriptor.h"

namespace {

void CheckWithin(const epic::RemoteParts& parts, uint64_t part_bytes, uint32_t count, uint64_t at) {
  const uint64_t stride = parts.stride == 0 ? part_bytes : parts.stride;
  EPIC_CHECK(at >= parts.address && at - parts.address <= (count - 1) * stride);
  EPIC_CHECK(at <= UINT64_MAX - part_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace epic;  // NOLINT: a program of its own
  const std::span<const uint8_t> bytes(data, size);
  if (size < kControlBytes) return 0;
  const auto header = DecodeControl(bytes.first(kControlBytes));
  const auto descriptor = DecodeDescriptor(bytes.subspan(kControlBytes));
  if (!header || !descriptor) return 0;
  std::array<uint8_t, kDescriptorBytes> out;
  Encode(*descriptor, out);
  EPIC_CHECK(std::memcmp(out.data(), data + kControlBytes, out.size()) == 0);
  constexpr uint32_t kRanks = 8;
  if (WrongField(*header, kRanks) != ControlField::kNone || !HasDescriptor(*header)) return 0;
  const uint64_t part_bytes = header->count * ElementBytes(header->type);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!IsSound(*descriptor, *header, rank)) continue;
    const std::array self = {rank};
    for (int64_t part = 0; part < int64_t{header->parts}; ++part) {
      if (Sends(*header, part, self))
        CheckWithin(descriptor->source, part_bytes, header->parts, SourceAt(*descriptor, *header, part, 0));
      if (Receives(*header, part, self)) {
        CheckWithin(descriptor->destination, part_bytes, header->parts,
                    DestinationAt(*descriptor, *header, part, 0));
      }
    }
  }
  return 0;
}
