#include "protocol/fallback.h"

namespace epic {

std::array<uint8_t, kOpenBytes> EncodeOpen(const LegOpen& open) {
  std::array<uint8_t, kOpenBytes> bytes{};
  Encode(open.header, std::span(bytes).first<kControlBytes>());
  for (size_t i = 0; i < 8; ++i)
    bytes[kControlBytes + i] = static_cast<uint8_t>(static_cast<uint64_t>(open.control_index) >> (8 * i));
  return bytes;
}

std::optional<LegOpen> DecodeOpen(std::span<const uint8_t> bytes) {
  if (bytes.size() != kOpenBytes) return std::nullopt;
  const auto header = DecodeControl(bytes.first(kControlBytes));
  if (!header) return std::nullopt;
  uint64_t index = 0;
  for (size_t i = 0; i < 8; ++i) index |= static_cast<uint64_t>(bytes[kControlBytes + i]) << (8 * i);
  if (index > INT64_MAX) return std::nullopt;
  return LegOpen{.header = *header, .control_index = static_cast<int64_t>(index)};
}

}  // namespace epic
