// Any bytes: ParseArp neither crashes nor reads outside, and what it takes survives being written and read
// again.
#include <array>
#include <cstdint>

#include "base/check.h"
#include "roce/arp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace epic::roce;
  const auto arp = ParseArp({data, size});
  if (!arp) return 0;
  std::array<uint8_t, kMaxArpFrameBytes> written;
  EPIC_CHECK(ParseArp({written.data(), WriteArp(*arp, written)}) == arp);
  return 0;
}
