// The one source of every nondeterministic choice in a simulated world: seeded here; a failure is replayed
// from its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace epic::sim {

class Choices {
 public:
  explicit Choices(uint64_t seed) : state_(seed + 0x9e3779b97f4a7c15) {}

  // Uniform in [0, n); n > 0. SplitMix64: the same numbers on every machine and library.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // True with probability per_million / 1,000,000.
  bool Chance(uint64_t per_million) { return Below(1'000'000) < per_million; }
  // Each as likely as the others; there is one.
  int64_t OneOf(std::initializer_list<int64_t> values) {
    return *(values.begin() + static_cast<ptrdiff_t>(Below(values.size())));
  }

 private:
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace epic::sim
