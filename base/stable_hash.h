// A hash that is the same in every run, program and version, unlike std::hash.
#pragma once

#include <cstdint>
#include <string_view>

namespace epic {

// FNV-1a of 64 bits. Against accidents, not against who wants two texts with one hash.
constexpr uint64_t StableHash(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

}  // namespace epic
