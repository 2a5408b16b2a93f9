#include "incmanager/groups/multicast_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/number.h"
#include "incmanager/topology.h"

namespace epic::manager {
namespace {

constexpr uint32_t kMacBits = 0x7fffff;
constexpr uint32_t kOfTheLink = 0xe0000000;  // 224.0.0.0, and 255 more
constexpr uint32_t kOfTheLinkSize = 256;
constexpr uint32_t kLeastPrefix = 8, kLargestPrefix = 28;

// As 239.0.0.251 has that of 224.0.0.251: switches must flood it.
bool HasMacOfTheLink(uint32_t address) { return (address & kMacBits) < kOfTheLinkSize; }

std::string WrongRange(const MulticastRange& range) {
  const uint32_t first = Raw(range.first);
  if (range.prefix < kLeastPrefix || range.prefix > kLargestPrefix)
    return fmt::format("the prefix {} is not from {} to {}", range.prefix, kLeastPrefix, kLargestPrefix);
  if (first >> 28 != 0xe)
    return fmt::format("{} is no multicast address, which are 224.0.0.0 to 239.255.255.255",
                       ToString(range.first));
  if ((first & (range.size() - 1)) != 0)
    return fmt::format("of that prefix {} is",
                       MulticastRange{Ipv4{first & ~(range.size() - 1)}, range.prefix}.ToString());
  if (first < kOfTheLink + kOfTheLinkSize)
    return "it has addresses of 224.0.0.0/24, which is for protocols of the link";
  if (range.size() <= kOfTheLinkSize && HasMacOfTheLink(first))
    return "its MAC addresses are those of 224.0.0.0/24, which switches flood";
  return {};
}

}  // namespace

std::string MulticastRange::ToString() const {
  return fmt::format("{}/{}", manager::ToString(first), prefix);
}

StatusOr<std::optional<MulticastRange>> ParseMulticastRange(const std::string& text) {
  if (text == "none") return std::optional<MulticastRange>();
  const auto wrong = [&text](const std::string& what) {
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: {}", text, what));
  };
  const size_t slash = text.find('/');
  const auto first = ParseIpv4(text.substr(0, slash));
  uint32_t prefix = 0;
  if (slash == std::string::npos || !first || !ReadNumber(text.substr(slash + 1), &prefix))
    return wrong("it is neither ADDRESS/PREFIX, as 239.192.0.0/16, nor none");
  const MulticastRange range{*first, prefix};
  if (const std::string what = WrongRange(range); !what.empty()) return wrong(what);
  return std::optional(range);
}

MulticastPool::MulticastPool(std::optional<MulticastRange> range, uint64_t start) : range_(range) {
  if (range_) next_ = static_cast<uint32_t>(start % range_->size());
}

std::optional<Ipv4> MulticastPool::Take(Nanos now) {
  for (; !resting_.empty() && resting_.front().first <= now; resting_.pop_front())
    used_.erase(resting_.front().second);
  if (!range_) return std::nullopt;
  for (uint32_t looked_at = 0; looked_at < range_->size(); ++looked_at) {
    const uint32_t address = Raw(range_->first) + next_;
    next_ = (next_ + 1) % range_->size();
    if (!HasMacOfTheLink(address) && used_.insert(address & kMacBits).second) return Ipv4{address};
  }
  return std::nullopt;
}

uint32_t MulticastPool::BitsOf(Ipv4 address) { return Raw(address) & kMacBits; }

void MulticastPool::CheckInvariants() const {
  for (const uint32_t bits : used_) EPIC_CHECK(!HasMacOfTheLink(bits));
  EPIC_CHECK(std::ranges::is_sorted(resting_, {}, &std::pair<Nanos, uint32_t>::first));
  std::set<uint32_t> resting;
  for (const auto& [until, bits] : resting_) EPIC_CHECK(used_.contains(bits) && resting.insert(bits).second);
}

void MulticastPool::GiveBack(Ipv4 address, Nanos now) {
  EPIC_CHECK(used_.contains(BitsOf(address)));
  resting_.emplace_back(now + kQuarantine, Raw(address) & kMacBits);
}

bool MulticastPool::Uses(Ipv4 address) const {
  const uint32_t bits = Raw(address) & kMacBits;
  return used_.contains(bits) &&
         std::ranges::find(resting_, bits, &std::pair<Nanos, uint32_t>::second) == resting_.end();
}

}  // namespace epic::manager
