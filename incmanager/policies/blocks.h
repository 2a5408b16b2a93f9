// Blocks: memory of a switch that several groups own and one at a time has (docs/PROTOCOL-BLOCKS.md; EPIC
// paper, section 6.2). How much of a block's time its owners take, and which block a new group gets. Pure
// functions; integers, so that leaving is the exact inverse of joining.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace epic::manager {

// Duties are in millionths of the time.
inline constexpr uint32_t kWholeTime = 1'000'000;

// How much of the time a group has its memory. Groups of one job that declare different phases never have it
// at the same time, as their user says: of such only the fullest phase counts. All others contend, and what
// they take adds up. The switch does not rely on that: who is wrong finds its block busy more often.
struct TimeShare {
  uint32_t duty = kWholeTime;  // at least 1
  std::string job;
  std::string phase;  // empty: none is declared, and the group contends with all others

  friend bool operator==(const TimeShare&, const TimeShare&) = default;
};

struct BlockLoad {
  uint64_t bytes = 0;    // as its first owner needed them; it keeps them as long as it has owners
  uint8_t low_byte = 0;  // of all its owners' QPNs there, since a block is of one core
  std::string tenant;    // whose all its owners are; empty: nobody's
  uint32_t owners = 0;
  uint64_t contending = 0;                                           // duties of those that declare no phase
  std::map<std::string, std::map<std::string, uint64_t>> scheduled;  // of the others, by job and phase

  void Add(const TimeShare& share);
  // Of one that has been added and not removed; aborts if that cannot be.
  void Remove(const TimeShare& share);

  // Of its owners, the jobs' phases as the fullest of them.
  uint64_t Taken() const;
  // What is left for one more: all that those do not take with whom it contends. It may join if that is no
  // less than its duty, and then what is taken stays within kWholeTime.
  uint64_t LeftFor(const TimeShare& share) const;
  // Its bytes times the part of the time that is left, as LeftFor has it.
  uint64_t Usable(uint64_t left) const;

  friend bool operator==(const BlockLoad&, const BlockLoad&) = default;
};

// The blocks of a switch, by number.
using BlockLoads = std::map<uint32_t, BlockLoad>;

// What a group wants of a switch.
struct BlockWish {
  uint64_t bytes = 0;  // that its context takes
  TimeShare share;
  std::string tenant;
  // Of its QPNs, where the group is not free to choose; then a block of another is none for it.
  std::optional<uint8_t> low_byte = std::nullopt;
  uint64_t room = 0;  // bytes that no group has and this one may
  // Whether so many bytes sustain the rate that is asked for.
  std::function<bool(uint64_t usable_bytes)> sustains;
};

struct BlockChoice {
  uint32_t number = 0;  // 0: it is no block, but memory of the group's own
  bool joins = false;   // it is there already
  uint64_t bytes = 0;
  uint64_t usable_bytes = 0;  // by which its width is counted: all that are free, or Usable
};

// Why there is none.
struct NoBlock {
  enum class Why : uint8_t {
    kMemory,   // too little is free, and no block is large enough
    kDuty,     // too little is free, and no block that is large enough has so much time left
    kSustain,  // of all that would do otherwise: none sustains the rate
  };
  Why why = Why::kMemory;
  uint64_t usable_bytes = 0;  // of kSustain: the most that one of them has
};

// A new block, if as many bytes are free, with the lowest number that is; else of those that are there the
// one that has most time left, then the first: of the group's own tenant, large enough, and with time for it.
// All of them only if they sustain the rate.
std::variant<BlockChoice, NoBlock> ChooseBlock(const BlockLoads& blocks, const BlockWish& wish);

// No choice has more usable bytes, however few bytes are wished.
uint64_t MostUsable(const BlockLoads& blocks, const BlockWish& wish);

// What there is to say of blocks where there is none: ", and none of its 3 blocks has 0.5 of its time left";
// empty where there are no blocks.
std::string NoBlockWords(const BlockLoads& blocks, const BlockWish& wish);

// "0.3".
std::string DutyWords(uint64_t duty);
// "block 2 of 1.0 MiB, duty 0.3 of 0.8": what a group has of a block, and all owners together.
std::string BlockWords(uint32_t number, uint64_t bytes, uint64_t duty, uint64_t taken);

}  // namespace epic::manager
