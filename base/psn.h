// Packet sequence numbers: 24 bits, compared only by signed distance modulo 2^24 (InfiniBand Architecture
// Specification 1.4, 9.7.2). There is no operator<: "before" has a meaning only within half the number space.
#pragma once

#include <cstdint>

namespace epic {

class Psn {
 public:
  static constexpr uint32_t kMask = 0xffffff;

  constexpr Psn() = default;
  // Takes the low 24 bits of raw.
  constexpr explicit Psn(uint32_t raw) : raw_(raw & kMask) {}

  constexpr uint32_t raw() const { return raw_; }

  // The signed distance from other to this, in [-2^23, 2^23).
  constexpr int32_t DistanceFrom(Psn other) const {
    const auto shifted = static_cast<int32_t>((raw_ - other.raw_) << 8);
    return shifted / 256;
  }

  friend constexpr Psn operator+(Psn psn, int64_t n) {
    return Psn(static_cast<uint32_t>(static_cast<uint64_t>(psn.raw_) + static_cast<uint64_t>(n)));
  }
  friend constexpr Psn operator-(Psn psn, int64_t n) { return psn + (-n); }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t raw_ = 0;
};

}  // namespace epic
