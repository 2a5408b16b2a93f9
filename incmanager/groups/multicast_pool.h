// IPv4 addresses of multicast groups, one for each group of ranks that has multicast
// (docs/PROTOCOL-MULTICAST.md, section 6). Switches know them by their MAC addresses, which have 23 bits of
// them: no two of those that are given out, or rest, share one. Nor is one given out whose MAC belongs to an
// address of 224.0.0.0/24, which is spoken to by protocols of the link.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/status.h"
#include "base/types.h"

namespace epic::manager {

// So many addresses from `first` on.
struct MulticastRange {
  Ipv4 first{0xefc00000};  // 239.192.0.0, of the organisation's own (RFC 2365, 6.2)
  uint32_t prefix = 16;

  uint32_t size() const { return uint32_t{1} << (32 - prefix); }
  std::string ToString() const;
};

// "239.192.0.0/16", or "none" for no range. Errors: INVALID_ARGUMENT with the text and what is wrong with it:
// it is neither, it has bits behind the prefix, which is not from 8 to 28, or addresses that are no multicast
// or are of 224.0.0.0/24, or none but of which the MAC addresses are those of that.
StatusOr<std::optional<MulticastRange>> ParseMulticastRange(const std::string& text);

class MulticastPool {
 public:
  // After it was given back; longer than any frame of its former group lives in the network.
  static constexpr Nanos kQuarantine = 10 * kSecond;

  // start: of which address it is the turn first, counted from the range's first and round it, so that a
  // manager that starts anew does not begin with those of the one before.
  MulticastPool(std::optional<MulticastRange> range, uint64_t start);

  // Nothing if there is no range, or all of it are taken or rest.
  std::optional<Ipv4> Take(Nanos now);
  void GiveBack(Ipv4 address, Nanos now);
  // Takes this one, which a group of a former manager has. False if it, or one with its MAC address, is taken.
  bool Adopt(Ipv4 address) { return used_.insert(BitsOf(address)).second; }

  const std::optional<MulticastRange>& range() const { return range_; }
  // Taken and not given back.
  size_t InUse() const { return used_.size() - resting_.size(); }
  // Aborts if something does not hold that always does: what rests
  // is used, once; none has the MAC address of an address of the link.
  void CheckInvariants() const;
  // Whether it, or the other one with its MAC address, is.
  bool Uses(Ipv4 address) const;

 private:
  static uint32_t BitsOf(Ipv4 address);

  const std::optional<MulticastRange> range_;
  uint32_t next_ = 0;                  // counted from the first, round and round
  std::unordered_set<uint32_t> used_;  // by the bits in the MAC address, those that rest included
  std::deque<std::pair<Nanos, uint32_t>> resting_;  // the same, and until when; oldest first
};

}  // namespace epic::manager
