// Reading and writing integers in network byte order at any alignment.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace epic::roce {

static_assert(std::endian::native == std::endian::little,
              "the byte swaps below assume a little-endian machine");

inline uint16_t LoadBe16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap16(value);
}

inline uint32_t LoadBe24(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 8 | p[2];
}

inline uint32_t LoadBe32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap32(value);
}

inline uint64_t LoadBe64(const uint8_t* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap64(value);
}

// The ICRC is the one field that is not in network byte order.
inline uint32_t LoadLe32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

inline void StoreBe16(uint16_t value, uint8_t* p) {
  value = __builtin_bswap16(value);
  std::memcpy(p, &value, sizeof value);
}

// Stores the low 24 bits of value.
inline void StoreBe24(uint32_t value, uint8_t* p) {
  p[0] = static_cast<uint8_t>(value >> 16);
  p[1] = static_cast<uint8_t>(value >> 8);
  p[2] = static_cast<uint8_t>(value);
}

inline void StoreBe32(uint32_t value, uint8_t* p) {
  value = __builtin_bswap32(value);
  std::memcpy(p, &value, sizeof value);
}

inline void StoreBe64(uint64_t value, uint8_t* p) {
  value = __builtin_bswap64(value);
  std::memcpy(p, &value, sizeof value);
}

inline void StoreLe32(uint32_t value, uint8_t* p) { std::memcpy(p, &value, sizeof value); }

}  // namespace epic::roce
