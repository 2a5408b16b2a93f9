// Any bytes: ParseLldp neither crashes nor reads outside, and what it takes survives being written and read
// again.
#include <array>
#include <cstdint>

#include "base/check.h"
#include "roce/lldp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace epic::roce;
  Lldp lldp;
  if (ParseLldp({data, size}, &lldp) != LldpResult::kOk) return 0;
  std::array<uint8_t, kMaxLldpFrameBytes> written;
  Lldp again;
  EPIC_CHECK(ParseLldp({written.data(), WriteLldp(lldp, written)}, &again) == LldpResult::kOk);
  EPIC_CHECK(again == lldp);
  return 0;
}
