// Writes the fields of a state to bytes and reads them back. Both sides offer the same operations, so that a
// state names its fields once (check/snapshot.h).
//
// Times are kept relative to the node's now, and what lies too far back to matter is all the same: states
// that differ by when they were reached only are one state.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/psn.h"
#include "base/types.h"
#include "check/blobs.h"

namespace epic::check {

// The memory that work requests point into: an address is kept as a place in it.
class Regions {
 public:
  void Add(std::span<const uint8_t> region) { regions_.push_back(region); }
  int64_t PlaceOf(uint64_t address) const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      const uint64_t offset = address - std::bit_cast<uint64_t>(regions_[i].data());
      if (offset < regions_[i].size()) return static_cast<int64_t>(i << 32 | offset);
    }
    EPIC_CHECK(false);
  }
  uint64_t AddressOf(int64_t place) const {
    return std::bit_cast<uint64_t>(regions_[static_cast<size_t>(place >> 32)].data()) +
           static_cast<uint32_t>(place);
  }

 private:
  std::vector<std::span<const uint8_t>> regions_;
};

template <typename T>
concept Scalar = std::is_integral_v<T> || std::is_enum_v<T>;

class Writer {
 public:
  static constexpr bool kReads = false;
  // Appends to `out`; long byte strings go to `blobs`.
  Writer(std::string& out, Blobs& blobs, Nanos now) : out_(out), blobs_(blobs), now_(now) {}

  template <Scalar... T>
  void Numbers(const T&... values) {
    (Put(static_cast<int64_t>(values)), ...);
  }
  void Number(const Psn& psn) { Put(psn.raw()); }
  void Address(const uint64_t& address, const Regions& regions) { Put(regions.PlaceOf(address)); }
  // A count that has no effect beyond `most`.
  void Capped(const uint32_t& count, uint32_t most) { Put(std::min(count, most)); }
  // When something is due; from now on it is due.
  void Deadline(const Nanos& t) { Put(t == kNever ? 0 : 1 + std::max<Nanos>(t - now_, 0)); }
  // When something happened last; longer ago than `window` is all the same.
  void Past(const Nanos& t, Nanos window) { Put(std::min(now_ - t, window)); }
  // A time on either side of now.
  void Time(const Nanos& t) { Put(t - now_); }
  void Blob(std::span<const uint8_t> bytes) { Put(blobs_.Intern(AsChars(bytes))); }
  size_t Size(size_t size) {
    Put(static_cast<int64_t>(size));
    return size;
  }

 private:
  // Zigzag and base 128: most fields are small.
  void Put(int64_t value) {
    auto bits = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
    for (; bits >= 0x80; bits >>= 7) out_.push_back(static_cast<char>(bits | 0x80));
    out_.push_back(static_cast<char>(bits));
  }

  std::string& out_;
  Blobs& blobs_;
  Nanos now_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  Reader(std::string_view in, const Blobs& blobs, Nanos now) : in_(in), blobs_(blobs), now_(now) {}

  template <Scalar... T>
  void Numbers(T&... values) {
    ((values = static_cast<T>(Get())), ...);
  }
  void Number(Psn& psn) { psn = Psn(static_cast<uint32_t>(Get())); }
  void Address(uint64_t& address, const Regions& regions) { address = regions.AddressOf(Get()); }
  void Capped(uint32_t& count, uint32_t) { count = static_cast<uint32_t>(Get()); }
  void Deadline(Nanos& t) {
    const int64_t value = Get();
    t = value == 0 ? kNever : now_ + value - 1;
  }
  void Past(Nanos& t, Nanos) { t = now_ - Get(); }
  void Time(Nanos& t) { t = now_ + Get(); }
  void Blob(std::span<uint8_t> bytes) {
    const std::string_view blob = blobs_[static_cast<uint32_t>(Get())];
    EPIC_CHECK(blob.size() == bytes.size());
    std::ranges::copy(AsBytes(blob), bytes.begin());
  }
  size_t Size(size_t) { return static_cast<size_t>(Get()); }
  bool at_end() const { return at_ == in_.size(); }

 private:
  int64_t Get() {
    uint64_t bits = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(in_[at_++]);
      bits |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
  }

  std::string_view in_;
  const Blobs& blobs_;
  Nanos now_;
  size_t at_ = 0;
};

}  // namespace epic::check
