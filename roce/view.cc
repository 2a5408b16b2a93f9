#include "roce/view.h"

namespace epic::roce {

uint16_t InternetChecksum(Bytes header) {
  // Two words at a time: carries into the upper one are added below, as all are.
  uint64_t sum = 0;
  size_t i = 0;
  for (; i + 4 <= header.size(); i += 4) sum += LoadBe32(&header[i]);
  if (i + 2 <= header.size()) sum += LoadBe16(&header[i]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void Ipv4Header::Write(uint8_t* out) const {
  constexpr uint16_t kDontFragment = 0x4000;
  out[0] = 0x45;  // version 4, five words
  out[1] = tos;
  StoreBe16(total_length, out + 2);
  StoreBe16(id, out + 4);
  StoreBe16(kDontFragment, out + 6);
  out[8] = ttl;
  out[9] = protocol;
  StoreBe16(0, out + 10);
  StoreBe32(Raw(src), out + 12);
  StoreBe32(Raw(dst), out + 16);
  StoreBe16(InternetChecksum(Bytes(out, Ipv4View::kBytes)), out + 10);
}

}  // namespace epic::roce
