// Any bytes as a control packet: what decodes encodes to the same bytes.
#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "protocol/control.h"
#include "protocol/flow.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header = epic::DecodeControl({data, size});
  if (!header) return 0;
  std::array<uint8_t, epic::kControlBytes> bytes;
  epic::Encode(*header, bytes);
  EPIC_CHECK(size == bytes.size() && std::memcmp(bytes.data(), data, size) == 0);
  if (epic::WrongField(*header, 64) != epic::ControlField::kNone) return 0;
  EPIC_CHECK(epic::LayoutOf(*header, 256, 4).packets() <= (int64_t{1} << 22) + 64);
  return 0;
}
