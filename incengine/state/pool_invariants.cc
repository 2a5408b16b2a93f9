#include <algorithm>
#include <vector>

#include "base/check.h"
#include "incengine/state/pool.h"

namespace epic::engine {
namespace {

// Whether these are all numbers below `of` for which `is` holds, each once.
template <typename Is>
bool AreThose(std::vector<uint32_t> numbers, size_t of, const Is& is) {
  std::ranges::sort(numbers);
  size_t found = 0;
  for (uint32_t number = 0; number < of; ++number) {
    if (!is(number)) continue;
    if (found == numbers.size() || numbers[found] != number) return false;
    ++found;
  }
  return found == numbers.size();
}

}  // namespace

void Pool::CheckInvariants() const {
  EPIC_CHECK(AreThose(spare_, buffers_.size(), [&](uint32_t b) { return buffers_[b].use == Use::kSpare; }));
  if (config_.addressing == PoolAddressing::kAny)
    EPIC_CHECK(
        AreThose(free_, places_.size(), [&](uint32_t place) { return places_[place].buffer == kNoBuffer; }));
  std::map<uint64_t, uint32_t> leaving, results;
  size_t in_places = 0;
  for (uint32_t number = 0; number < buffers_.size(); ++number) {
    const Buffer& buffer = buffers_[number];
    EPIC_CHECK((buffer.place != kNoBuffer) == (buffer.use == Use::kSumming || buffer.use == Use::kWhole));
    if (buffer.use == Use::kSpare) continue;
    EPIC_CHECK(groups_.contains(buffer.group));
    if (buffer.use == Use::kLeaving) ++leaving[buffer.group];
    if (buffer.use == Use::kResult) ++results[buffer.group];
    if (buffer.place == kNoBuffer) continue;
    const Place& place = places_[buffer.place];
    EPIC_CHECK(place.buffer == number && place.group == buffer.group);
    ++in_places;
  }
  const auto taken = std::ranges::count_if(places_, [](const Place& p) { return p.buffer != kNoBuffer; });
  EPIC_CHECK(in_places == in_use_ && in_use_ == static_cast<size_t>(taken));
  std::map<Ipv4, Server> servers;
  size_t all_results = 0;
  for (const auto& [id, group] : groups_) {
    EPIC_CHECK(group.leaving == leaving[id] && group.results == results[id]);
    ++servers[group.server].groups;
    servers[group.server].leaving += group.leaving;
    all_results += group.results;
  }
  EPIC_CHECK(all_results == results_ && servers.size() == servers_.size());
  for (const auto& [address, server] : servers_) {
    EPIC_CHECK(server.groups == servers[address].groups && server.leaving == servers[address].leaving);
    for (const uint64_t waits : server.waiting) EPIC_CHECK(groups_.at(waits).server == address);
  }
}

}  // namespace epic::engine
