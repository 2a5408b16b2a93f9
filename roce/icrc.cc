#include "roce/icrc.h"

#include <isa-l/crc.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstring>

#include "base/check.h"
#include "roce/wire.h"

namespace epic::roce {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320;

// a times b modulo the polynomial; bit 31 is the coefficient of x^0, as CRC-32 keeps them.
uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

#ifdef __x86_64__
__attribute__((target("avx"))) void ClearUpperHalves() { _mm256_zeroupper(); }

bool HasAvx() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx") != 0;
}
const bool kHasAvx = HasAvx();
#endif

}  // namespace

uint32_t Crc32(uint32_t before, std::span<const uint8_t> bytes) {
  const uint32_t crc = crc32_gzip_refl(before, bytes.data(), bytes.size());
#ifdef __x86_64__
  // ISA-L's AVX-512 code returns with the upper halves of the vector registers in use, and each SSE
  // instruction after it waits for them: about 120 ns for the next CRC alone (BM_Icrc).
  if (kHasAvx) ClearUpperHalves();
#endif
  return crc;
}

uint32_t IcrcOfHeaders(std::span<const uint8_t> headers) {
  EPIC_CHECK(headers.size() >= kIcrcHeaderBytes);
  constexpr size_t kOnes = 8;
  std::array<uint8_t, kOnes + kIcrcHeaderBytes> masked;
  uint8_t* const ip = masked.data() + kOnes;
  uint8_t* const udp = ip + 20;
  uint8_t* const bth = udp + 8;
  std::memset(masked.data(), 0xff, kOnes);
  std::memcpy(ip, headers.data(), kIcrcHeaderBytes);
  ip[1] = 0xff;                   // type of service
  ip[8] = 0xff;                   // time to live
  std::memset(ip + 10, 0xff, 2);  // checksum
  std::memset(udp + 6, 0xff, 2);  // checksum
  bth[4] = 0xff;                  // FECN, BECN and reserved bits
  return Crc32(0, masked);
}

uint32_t Icrc(std::span<const uint8_t> ip_packet) {
  EPIC_CHECK(ip_packet.size() >= kIcrcHeaderBytes + kIcrcBytes);
  const auto covered = ip_packet.first(ip_packet.size() - kIcrcBytes);
  return Crc32(IcrcOfHeaders(covered), covered.subspan(kIcrcHeaderBytes));
}

bool IcrcOk(std::span<const uint8_t> ip_packet) {
  if (ip_packet.size() < kIcrcHeaderBytes + kIcrcBytes) return false;
  return LoadLe32(ip_packet.data() + ip_packet.size() - kIcrcBytes) == Icrc(ip_packet);
}

CrcShift::CrcShift(size_t bytes) : bytes_(bytes) {
  // x^(8 * bytes) by repeated squaring.
  uint32_t factor = 0x80000000;      // x^0
  uint32_t power = 0x80000000 >> 8;  // x^8
  for (size_t n = bytes; n != 0; n >>= 1) {
    if ((n & 1) != 0) factor = Multiply(factor, power);
    power = Multiply(power, power);
  }
  for (size_t byte = 0; byte < table_.size(); ++byte) {
    auto& row = table_[byte];
    row[0] = 0;
    for (uint32_t bit = 1; bit < 256; bit <<= 1) {
      const uint32_t product = Multiply(bit << (8 * byte), factor);
      for (uint32_t low = 0; low < bit; ++low) row[bit + low] = row[low] ^ product;
    }
  }
}

}  // namespace epic::roce
