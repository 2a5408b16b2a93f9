// The states that have been seen, by 64-bit fingerprints: an open-addressing table from fingerprint to the
// state's number. Two states with one fingerprint count as one ("hash compaction": Wolper and Leroy,
// "Reliable Hashing without Collision Detection", CAV 1993); OmissionBound says how unlikely it is that one
// was missed.
#pragma once

#include <cstdint>
#include <vector>

namespace epic::check {

class Seen {
 public:
  using Number = uint32_t;

  // The number of the state with that fingerprint; fresh if it had none, then it gets the next.
  Number Insert(uint64_t fingerprint, bool* fresh) {
    if (size_ + size_ / 2 >= fingerprints_.size()) Grow();
    if (fingerprint == 0) fingerprint = 1;
    size_t at = Home(fingerprint);
    for (; fingerprints_[at] != 0; at = (at + 1) & (fingerprints_.size() - 1)) {
      if (fingerprints_[at] != fingerprint) continue;
      *fresh = false;
      return numbers_[at];
    }
    *fresh = true;
    fingerprints_[at] = fingerprint;
    numbers_[at] = static_cast<Number>(size_);
    return static_cast<Number>(size_++);
  }

  size_t size() const { return size_; }
  size_t bytes() const { return fingerprints_.size() * (sizeof(uint64_t) + sizeof(Number)); }
  // An upper bound of the probability that a state was taken for another: pairs of states times 2^-64.
  double OmissionBound() const {
    return static_cast<double>(size_) * static_cast<double>(size_) / 2 / 18446744073709551616.0;
  }

 private:
  size_t Home(uint64_t fingerprint) const {
    return (fingerprint * 0x9e3779b97f4a7c15u >> 20) & (fingerprints_.size() - 1);
  }
  void Grow() {
    std::vector<uint64_t> old_fingerprints = std::move(fingerprints_);
    std::vector<Number> old_numbers = std::move(numbers_);
    const size_t places = old_fingerprints.empty() ? size_t{1} << 12 : 2 * old_fingerprints.size();
    fingerprints_.assign(places, 0);
    numbers_.assign(places, 0);
    for (size_t i = 0; i < old_fingerprints.size(); ++i) {
      if (old_fingerprints[i] == 0) continue;
      size_t at = Home(old_fingerprints[i]);
      while (fingerprints_[at] != 0) at = (at + 1) & (places - 1);
      fingerprints_[at] = old_fingerprints[i];
      numbers_[at] = old_numbers[i];
    }
  }

  std::vector<uint64_t> fingerprints_;  // 0: free
  std::vector<Number> numbers_;
  size_t size_ = 0;
};

}  // namespace epic::check
