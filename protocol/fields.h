// Numbers at their places in messages: little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace epic::fields {

template <typename T>
void Put(std::span<uint8_t> out, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out[at + i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
}

template <typename T>
T Get(std::span<const uint8_t> in, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(in[at + i]) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace epic::fields
