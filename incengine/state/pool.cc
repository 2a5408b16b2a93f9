#include "incengine/state/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "protocol/context_memory.h"

namespace epic::engine {
namespace {

// splitmix64's last steps: every bit of the result depends on every bit of the number.
uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t HashOf(uint64_t group, Index index) { return Mixed(Mixed(group) + static_cast<uint64_t>(index)); }

// Of so many buffers those that are not in places when all places are in use, at least: S = max(4, K / 16).
size_t SparesOf(size_t buffers) { return std::max<size_t>(4, buffers / 17); }

void Push(std::vector<uint32_t>& heap, uint32_t number) {
  heap.push_back(number);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

uint32_t PopLowest(std::vector<uint32_t>& heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  const uint32_t lowest = heap.back();
  heap.pop_back();
  return lowest;
}

}  // namespace

const char* Name(PoolAddressing addressing) { return addressing == PoolAddressing::kAny ? "any" : "hash"; }

const char* Name(PoolPolicy policy) {
  switch (policy) {
    case PoolPolicy::kPriority:
      return "priority";
    case PoolPolicy::kFcfs:
      return "fcfs";
    case PoolPolicy::kAlways:
      return "always";
    case PoolPolicy::kCoin:
      return "coin";
  }
  return "unknown";
}

Status Validate(const PoolConfig& config, size_t arena_bytes) {
  const size_t least = kLeastPoolBuffers * config.buffer_bytes;
  if (config.buffer_bytes == 0 || config.bytes < least) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("pool: {} bytes are less than {} buffers of {} bytes, which need {}",
                                  config.bytes, kLeastPoolBuffers, config.buffer_bytes, least));
  }
  if (RoundUpToArena(config.bytes) > arena_bytes) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("pool: {} bytes are more than the {} that the switch has for all groups",
                                  RoundUpToArena(config.bytes), arena_bytes));
  }
  return absl::OkStatus();
}

Pool::Pool(const PoolConfig& config, size_t at)
    : config_(config), at_(at), buffers_(config.bytes / config.buffer_bytes) {
  EPIC_CHECK(buffers_.size() >= kLeastPoolBuffers && config.most_places > 0);
  const auto places =
      std::min(static_cast<uint32_t>(buffers_.size() - SparesOf(buffers_.size())), config.most_places);
  places_.resize(places);
  for (uint32_t buffer = 0; buffer < buffers_.size(); ++buffer) spare_.push_back(buffer);
  if (config.addressing != PoolAddressing::kAny) return;
  for (uint32_t place = 0; place < places; ++place) free_.push_back(place);
}

void Pool::Join(uint64_t group, Ipv4 server) {
  if (groups_.try_emplace(group, Group{.server = server, .counters = {}}).second) ++servers_[server].groups;
}

void Pool::Leave(uint64_t group) {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return;
  const auto server = servers_.find(it->second.server);
  server->second.leaving -= it->second.leaving;
  std::erase(server->second.waiting, group);
  if (--server->second.groups == 0) servers_.erase(server);
  groups_.erase(it);
  for (uint32_t buffer = 0; buffer < buffers_.size(); ++buffer) {
    const Buffer& had = buffers_[buffer];
    if (had.use == Use::kSpare || had.group != group) continue;
    if (had.use == Use::kResult) --results_;
    if (had.place != kNoBuffer) EmptyPlace(had.place);
    MakeSpare(buffer);
  }
}

bool Pool::MayLeave(uint64_t group) const {
  const Group& of = groups_.at(group);
  return of.leaving < kMostLeaving && servers_.at(of.server).leaving < Quarter();
}

void Pool::CountLeaving(uint64_t group) {
  Group& of = groups_.at(group);
  ++of.leaving;
  ++servers_.at(of.server).leaving;
}

void Pool::CountLeft(uint64_t group) {
  Group& of = groups_.at(group);
  --of.leaving;
  --servers_.at(of.server).leaving;
}

bool Pool::MayBeTaken(const Place& place, uint64_t by) const {
  return place.buffer != kNoBuffer && place.group != by && buffers_[place.buffer].use == Use::kSumming &&
         MayLeave(place.group);
}

bool Pool::Wins(const Place& place, uint64_t group, Index index, Priority priority, Nanos now) const {
  switch (config_.policy) {
    case PoolPolicy::kPriority:
      return priority > place.priority || (config_.age > 0 && now - place.since > config_.age);
    case PoolPolicy::kFcfs:
      return false;
    case PoolPolicy::kAlways:
      return true;
    case PoolPolicy::kCoin:
      return (Mixed(HashOf(group, index) + attempts_) & 1) != 0;
  }
  return false;
}

Pool::Meeting Pool::MeetAt(uint32_t place, uint64_t group, Index index, Priority priority, Nanos now) const {
  using enum Meeting::Kind;
  const Place& there = places_[place];
  if (there.buffer == kNoBuffer) return {.kind = kClaim, .place = place};
  if (!MayBeTaken(there, group)) return {.kind = kPass};
  return {.kind = Wins(there, group, index, priority, now) ? kEvict : kPass, .place = place};
}

Pool::Meeting Pool::MeetAny(uint64_t group, Index index, Priority priority, Nanos now) const {
  if (!free_.empty()) return {.kind = Meeting::Kind::kClaim, .place = free_.front()};
  const auto all = static_cast<uint32_t>(places_.size());
  const uint32_t most = std::min(all, kMostLooked);
  for (uint32_t looked = 0; looked < most; ++looked) {
    const uint32_t place = (hand_ + looked) % all;
    if (!MayBeTaken(places_[place], group)) continue;
    Meeting meeting = MeetAt(place, group, index, priority, now);
    meeting.looked = looked + 1;
    return meeting;
  }
  return {.kind = Meeting::Kind::kPass, .looked = most};
}

Pool::Meeting Pool::Meet(uint64_t group, Index index, Priority priority, Nanos now, bool passes) const {
  if (spare_.empty()) return {};
  Meeting meeting{.kind = Meeting::Kind::kPass};
  if (!passes) {
    meeting = config_.addressing == PoolAddressing::kAny
                  ? MeetAny(group, index, priority, now)
                  : MeetAt(static_cast<uint32_t>(HashOf(group, index) % places_.size()), group, index,
                           priority, now);
  }
  if (meeting.kind == Meeting::Kind::kPass && !MayLeave(group)) return {};
  return meeting;
}

Pool::Taken Pool::Take(const Meeting& meeting, uint64_t group, Index index, Priority priority, Nanos now) {
  EPIC_CHECK(meeting.kind != Meeting::Kind::kWait);
  PoolCounters& own = groups_.at(group).counters;
  hand_ = static_cast<uint32_t>((hand_ + meeting.looked) % places_.size());
  if (meeting.kind == Meeting::Kind::kPass) {
    ++own.passes;
    if (meeting.place != kNoBuffer) {
      Place& there = places_[meeting.place];
      ++attempts_;
      if (config_.policy == PoolPolicy::kPriority) {
        there.priority /= 2;
        ++groups_.at(there.group).counters.downgrades;
      }
    }
    CountLeaving(group);
    return {.buffer = TakeSpare(group, Use::kLeaving, kNoBuffer), .evicted = {}};
  }
  Taken taken;
  Place& place = places_[meeting.place];
  if (meeting.kind == Meeting::Kind::kEvict) {
    ++attempts_;
    taken.evicted = Evicted{.group = place.group, .index = place.index, .buffer = place.buffer};
    ++groups_.at(place.group).counters.evictions;
    CountLeaving(place.group);
    buffers_[place.buffer].use = Use::kLeaving;
    buffers_[place.buffer].place = kNoBuffer;
  } else {
    if (config_.addressing == PoolAddressing::kAny) {
      EPIC_CHECK(PopLowest(free_) == meeting.place);
    }
    ++in_use_;
  }
  ++own.claims;
  taken.buffer = TakeSpare(group, Use::kSumming, meeting.place);
  place = {.group = group, .index = index, .priority = priority, .since = now, .buffer = taken.buffer};
  return taken;
}

std::vector<Pool::Evicted> Pool::Summing() const {
  std::vector<Evicted> found;
  for (const Place& place : places_) {
    if (place.buffer == kNoBuffer || buffers_[place.buffer].use != Use::kSumming || !MayLeave(place.group))
      continue;
    found.push_back({.group = place.group, .index = place.index, .buffer = place.buffer});
  }
  return found;
}

void Pool::MarkWhole(uint32_t buffer) {
  EPIC_CHECK(buffers_[buffer].use == Use::kSumming);
  buffers_[buffer].use = Use::kWhole;
}

void Pool::LeavePlace(uint32_t buffer) {
  Buffer& in = buffers_[buffer];
  EPIC_CHECK(in.place != kNoBuffer && MayLeave(in.group));
  EmptyPlace(in.place);
  in.place = kNoBuffer;
  in.use = Use::kLeaving;
  CountLeaving(in.group);
}

std::optional<uint64_t> Pool::NextToLeave(uint64_t group) {
  if (ServerOf(group).leaving >= Quarter()) return std::nullopt;
  auto& waiting = ServerOf(group).waiting;
  const auto next = std::ranges::find_if(waiting, [this](uint64_t waits) { return MayLeave(waits); });
  if (next == waiting.end()) return std::nullopt;
  const uint64_t turn = *next;
  waiting.erase(next);
  return turn;
}

void Pool::Acknowledged(uint32_t buffer) {
  EPIC_CHECK(buffers_[buffer].use == Use::kLeaving);
  CountLeft(buffers_[buffer].group);
  MakeSpare(buffer);
}

std::optional<uint32_t> Pool::TakeForResult(uint64_t group) {
  Group& own = groups_.at(group);
  if (spare_.empty() || own.results >= std::min(Quarter(), kMostResults) || results_ >= 2 * size_t{Quarter()})
    return std::nullopt;
  ++own.results;
  ++results_;
  return TakeSpare(group, Use::kResult, kNoBuffer);
}

void Pool::Free(uint32_t buffer) {
  const Buffer& had = buffers_[buffer];
  if (had.use == Use::kResult) {
    --groups_.at(had.group).results;
    --results_;
  } else {
    EPIC_CHECK(had.place != kNoBuffer);
    EmptyPlace(had.place);
  }
  MakeSpare(buffer);
}

uint32_t Pool::TakeSpare(uint64_t group, Use use, uint32_t place) {
  const uint32_t buffer = PopLowest(spare_);
  buffers_[buffer] = {.use = use, .group = group, .place = place};
  return buffer;
}

void Pool::MakeSpare(uint32_t buffer) {
  buffers_[buffer] = {};
  Push(spare_, buffer);
}

void Pool::EmptyPlace(uint32_t place) {
  places_[place] = {};
  if (config_.addressing == PoolAddressing::kAny) Push(free_, place);
  --in_use_;
}

}  // namespace epic::engine
