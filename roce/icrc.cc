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

constexpr size_t kOnes = 8;  // in place of a local route header

// Behind the IP header, as both versions have it.
void MaskUdpAndBth(uint8_t* udp) {
  std::memset(udp + 6, 0xff, 2);  // checksum
  udp[8 + 4] = 0xff;              // BTH: FECN, BECN and reserved bits
}

uint32_t IcrcOfIpv6Headers(std::span<const uint8_t> headers) {
  EPIC_CHECK(headers.size() >= kIcrcIpv6HeaderBytes);
  std::array<uint8_t, kOnes + kIcrcIpv6HeaderBytes> masked;
  uint8_t* const ip = masked.data() + kOnes;
  std::memset(masked.data(), 0xff, kOnes);
  std::memcpy(ip, headers.data(), kIcrcIpv6HeaderBytes);
  // Traffic class and flow label, from behind the version on; hop limit.
  ip[0] |= 0x0f;
  std::memset(ip + 1, 0xff, 3);
  ip[7] = 0xff;
  MaskUdpAndBth(ip + 40);
  return Crc32(0, masked);
}

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
  if (headers[0] >> 4 == 6) return IcrcOfIpv6Headers(headers);
  std::array<uint8_t, kOnes + kIcrcHeaderBytes> masked;
  uint8_t* const ip = masked.data() + kOnes;
  std::memset(masked.data(), 0xff, kOnes);
  std::memcpy(ip, headers.data(), kIcrcHeaderBytes);
  ip[1] = 0xff;                   // type of service
  ip[8] = 0xff;                   // time to live
  std::memset(ip + 10, 0xff, 2);  // checksum
  MaskUdpAndBth(ip + 20);
  return Crc32(0, masked);
}

uint32_t Icrc(std::span<const uint8_t> ip_packet) {
  EPIC_CHECK(ip_packet.size() >= kIcrcHeaderBytes + kIcrcBytes);
  const auto covered = ip_packet.first(ip_packet.size() - kIcrcBytes);
  return Crc32(IcrcOfHeaders(covered), covered.subspan(IcrcHeaderBytes(covered)));
}

bool IcrcOk(std::span<const uint8_t> ip_packet) {
  if (ip_packet.size() < kIcrcHeaderBytes + kIcrcBytes) return false;
  if (ip_packet.size() < IcrcHeaderBytes(ip_packet) + kIcrcBytes) return false;
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
