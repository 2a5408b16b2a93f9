// The states that have been seen, by 64-bit fingerprints, numbered in the order in which they were first
// seen. Two states with one fingerprint count as one ("hash compaction": Wolper and Leroy, "Reliable Hashing
// without Collision Detection", CAV 1993); OmissionBound says how unlikely it is that one was missed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "check/chunks.h"

namespace epic::check {

// How much more often than two random numbers the least of `hashes` random ones and the least of as many
// others are the same: small numbers are the least of several more often than large ones. In units of the
// whole range the density of the least of k is k(1-x)^(k-1), and the integral of its square k²/(2k-1). With
// fewer of one or the other it is less.
constexpr double CollisionFactor(size_t hashes) {
  const auto k = static_cast<double>(hashes);
  return k * k / (2 * k - 1);
}

// An upper bound of the probability that one of so many states was taken for another, where the fingerprint
// of a state is the least of `hashes` (1: is its hash): pairs of states times how likely two are the same.
constexpr double OmissionBound(size_t states, size_t hashes) {
  const auto n = static_cast<double>(states);
  return n * n / 2 * CollisionFactor(hashes) / 18446744073709551616.0;
}

class Seen {
 public:
  using Number = uint32_t;

  // The number of the state with that fingerprint; fresh if it had none, then it gets the next.
  Number Insert(uint64_t fingerprint, bool* fresh) {
    if (4 * (size() + 1) > 3 * places_.size()) Grow();
    size_t at = Home(fingerprint);
    for (; places_[at].number != kFree; at = Next(at)) {
      const Place place = places_[at];
      if (place.tag != Tag(fingerprint) || fingerprints_[place.number] != fingerprint) continue;
      *fresh = false;
      return place.number;
    }
    *fresh = true;
    EPIC_CHECK(size() < kFree);
    places_[at] = {static_cast<Number>(size()), Tag(fingerprint)};
    fingerprints_.push_back(fingerprint);
    return places_[at].number;
  }

  size_t size() const { return fingerprints_.size(); }
  size_t bytes() const { return fingerprints_.bytes() + places_.size() * sizeof(Place); }

 private:
  static constexpr Number kFree = UINT32_MAX;

  // An open-addressing table of numbers. The tag spares most looks at fingerprints of other states.
  struct [[gnu::packed]] Place {
    Number number = kFree;
    uint8_t tag = 0;
  };

  static uint8_t Tag(uint64_t fingerprint) { return static_cast<uint8_t>(fingerprint); }
  // The multiplication (by 2^64 over the golden ratio) spreads fingerprints that are near one another: where
  // the least of several stands for a state, the low half of all numbers has most of them.
  size_t Home(uint64_t fingerprint) const {
    return (fingerprint * 0x9e3779b97f4a7c15u >> 32) * places_.size() >> 32;
  }
  size_t Next(size_t at) const { return at + 1 == places_.size() ? 0 : at + 1; }

  // The old table is gone before the new one is there.
  void Grow() {
    const size_t places = std::max<size_t>(places_.size() + places_.size() / 2, 4096);
    EPIC_CHECK(places <= UINT32_MAX);
    places_ = {};
    places_.resize(places);
    for (size_t number = 0; number < size(); ++number) {
      const uint64_t fingerprint = fingerprints_[number];
      size_t at = Home(fingerprint);
      while (places_[at].number != kFree) at = Next(at);
      places_[at] = {static_cast<Number>(number), Tag(fingerprint)};
    }
  }

  Chunks<uint64_t> fingerprints_;  // by number
  std::vector<Place> places_;
};

}  // namespace epic::check
