#include "incmanager/policies/blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {
namespace {

using Phases = std::map<std::string, uint64_t>;

uint64_t Fullest(const Phases& phases) {
  uint64_t most = 0;
  for (const auto& [phase, duty] : phases) most = std::max(most, duty);
  return most;
}

bool IsOpenTo(const BlockLoad& block, const BlockWish& wish) {
  return block.tenant == wish.tenant && wish.low_byte.value_or(block.low_byte) == block.low_byte;
}

bool IsLargeEnough(const BlockLoad& block, const BlockWish& wish) {
  return IsOpenTo(block, wish) && block.bytes >= wish.bytes;
}

uint32_t LowestFree(const BlockLoads& blocks) {
  uint32_t number = 1;
  for (const auto& [taken, block] : blocks) number += taken == number ? 1 : 0;
  return number;
}

}  // namespace

void BlockLoad::Add(const TimeShare& share) {
  ++owners;
  (share.phase.empty() ? contending : scheduled[share.job][share.phase]) += share.duty;
}

void BlockLoad::Remove(const TimeShare& share) {
  EPIC_CHECK(owners > 0);
  --owners;
  if (share.phase.empty()) {
    EPIC_CHECK(contending >= share.duty);
    contending -= share.duty;
    return;
  }
  Phases& phases = scheduled[share.job];
  uint64_t& duty = phases[share.phase];
  EPIC_CHECK(duty >= share.duty);
  duty -= share.duty;
  if (duty == 0) phases.erase(share.phase);
  if (phases.empty()) scheduled.erase(share.job);
}

uint64_t BlockLoad::Taken() const {
  uint64_t taken = contending;
  for (const auto& [job, phases] : scheduled) taken += Fullest(phases);
  return taken;
}

uint64_t BlockLoad::LeftFor(const TimeShare& share) const {
  uint64_t taken = Taken();
  const auto job = share.phase.empty() ? scheduled.end() : scheduled.find(share.job);
  if (job != scheduled.end()) {
    const auto own = job->second.find(share.phase);
    taken -= Fullest(job->second) - (own == job->second.end() ? 0 : own->second);
  }
  return kWholeTime - std::min<uint64_t>(taken, kWholeTime);
}

uint64_t BlockLoad::Usable(uint64_t left) const { return bytes * left / kWholeTime; }

std::variant<BlockChoice, NoBlock> ChooseBlock(const BlockLoads& blocks, const BlockWish& wish) {
  NoBlock none;
  const auto sustains = [&](uint64_t usable_bytes) {
    if (wish.sustains(usable_bytes)) return true;
    none = {NoBlock::Why::kSustain, std::max(none.usable_bytes, usable_bytes)};
    return false;
  };
  if (wish.bytes <= wish.room && sustains(wish.room))
    return BlockChoice{LowestFree(blocks), false, wish.bytes, wish.room};
  const BlockLoads::value_type* best = nullptr;
  uint64_t most_left = 0;
  for (const auto& block : blocks) {
    if (!IsLargeEnough(block.second, wish)) continue;
    if (none.why == NoBlock::Why::kMemory) none.why = NoBlock::Why::kDuty;
    const uint64_t left = block.second.LeftFor(wish.share);
    if (left < wish.share.duty || !sustains(block.second.Usable(left)) || left <= most_left) continue;
    best = &block;
    most_left = left;
  }
  if (best == nullptr) return none;
  return BlockChoice{best->first, true, best->second.bytes, best->second.Usable(most_left)};
}

uint64_t MostUsable(const BlockLoads& blocks, const BlockWish& wish) {
  uint64_t most = wish.room;
  for (const auto& [number, block] : blocks) {
    if (!IsOpenTo(block, wish)) continue;
    const uint64_t left = block.LeftFor(wish.share);
    if (left >= wish.share.duty) most = std::max(most, block.Usable(left));
  }
  return most;
}

std::string NoBlockWords(const BlockLoads& blocks, const BlockWish& wish) {
  uint32_t all = 0, large = 0;
  for (const auto& [number, block] : blocks) {
    all += IsOpenTo(block, wish) ? 1 : 0;
    large += IsLargeEnough(block, wish) ? 1 : 0;
  }
  if (all == 0) return {};
  if (large == 0)
    return all == 1 ? ", and its block is smaller" : fmt::format(", and its {} blocks are smaller", all);
  const std::string duty = DutyWords(wish.share.duty);
  const char* const size = large == all ? "" : " of that size";
  if (large == 1)
    return fmt::format(", and its {}block{} has less than {} of its time left", size[0] == '\0' ? "" : "one ",
                       size, duty);
  return fmt::format(", and none of its {} blocks{} has {} of its time left", large, size, duty);
}

std::string DutyWords(uint64_t duty) { return fmt::format("{:.7g}", static_cast<double>(duty) / kWholeTime); }

std::string BlockWords(uint32_t number, uint64_t bytes, uint64_t duty, uint64_t taken) {
  return fmt::format("block {} of {}, duty {} of {}", number, BytesWords(bytes), DutyWords(duty),
                     DutyWords(taken));
}

}  // namespace epic::manager
