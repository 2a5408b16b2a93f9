// The pool: buffers for the sums of single packets, which all groups of a switch share place by place
// (docs/PROTOCOL-MODE-V.md, sections 1 and 2; DSA, sections III-B and V). Who has which place and which
// buffer, and who has to give way. A value without the bytes, which lie in the arena.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/counter_table.h"
#include "base/snapshot.h"
#include "base/status.h"
#include "base/types.h"
#include "protocol/priority.h"

namespace epic::engine {

enum class PoolAddressing : uint8_t {
  kAny,   // a free place if there is one, else the next that another group is summing in
  kHash,  // the one that a hash of group and index names
};

// What becomes of an index that meets a place in which another group is summing.
enum class PoolPolicy : uint8_t {
  kPriority,  // it wins with more priority, or if the place is old; if it loses the place's is halved
  kFcfs,      // it loses
  kAlways,    // it wins
  kCoin,      // it wins by a bit of a hash
};

inline constexpr std::array kPoolPolicies = {PoolPolicy::kPriority, PoolPolicy::kFcfs, PoolPolicy::kAlways,
                                             PoolPolicy::kCoin};

// As users say and see them: "any", "hash"; "priority", "fcfs", "always", "coin".
const char* Name(PoolAddressing addressing);
const char* Name(PoolPolicy policy);

struct PoolConfig {
  size_t bytes = 0;              // of the arena, for all buffers together
  uint32_t buffer_bytes = 8192;  // of one: the accumulator of the longest packet
  PoolAddressing addressing = PoolAddressing::kAny;
  PoolPolicy policy = PoolPolicy::kPriority;
  // So many places at most, which are many more than any pool has: what is left of the buffers is spare.
  uint32_t most_places = UINT32_MAX;
  Nanos age = 0;  // a place that is older loses to any other group's index (kPriority); 0: none is
};

// With fewer there is nothing to share.
inline constexpr size_t kLeastPoolBuffers = 8;

// OK, or INVALID_ARGUMENT: less than kLeastPoolBuffers buffers, or more bytes than the arena has. The message
// has the bytes needed.
Status Validate(const PoolConfig& config, size_t arena_bytes);

// Of one group in a pool, since it joined.
struct PoolCounters {
  uint64_t claims = 0;      // of places, free or taken away
  uint64_t evictions = 0;   // sums of it that lost their place
  uint64_t downgrades = 0;  // halvings of its places' priorities
  uint64_t passes = 0;      // contributions without a place
};

inline constexpr auto kPoolCounters = std::to_array<CounterRow<PoolCounters>>({
    {"claims", &PoolCounters::claims},
    {"evictions", &PoolCounters::evictions},
    {"downgrades", &PoolCounters::downgrades},
    {"passes", &PoolCounters::passes},
});
static_assert(HasEach(kPoolCounters));

// Stands for no buffer, and for no place.
inline constexpr uint32_t kNoBuffer = UINT32_MAX;
// A group's own, which is not the pool's: for a sum from its server.
inline constexpr uint32_t kOwnBuffer = kNoBuffer - 1;

class Pool {
 public:
  // Buffers that one group may have in parts which its server has not acknowledged, and for sums from it;
  // less in a small pool. Of the spare buffers a quarter may be in parts to one server, whosever they are.
  static constexpr uint32_t kMostLeaving = 32;
  static constexpr uint32_t kMostResults = 16;
  // Places that one index looks at to find one that may be taken.
  static constexpr uint32_t kMostLooked = 32;

  // Of a config that is valid. `at` is where the buffers begin in the arena.
  Pool(const PoolConfig& config, size_t at);

  // A group comes, with the address of its server, and goes: all that it has is free at once. Whoever is not
  // there has nothing.
  void Join(uint64_t group, Ipv4 server);
  void Leave(uint64_t group);

  // What an index without a buffer meets.
  struct Meeting {
    enum class Kind : uint8_t {
      kClaim,  // its place is free
      kEvict,  // its place is to be taken from another group
      kPass,   // it has none: its contribution goes to the server by itself
      kWait,   // it has none, and that cannot be either
    };
    Kind kind = Kind::kWait;
    uint32_t place = kNoBuffer;  // of kPass: where it has lost, if it did
    uint32_t looked = 0;         // how far the hand goes
  };
  // Changes nothing. With `passes` no place is asked for.
  Meeting Meet(uint64_t group, Index index, Priority priority, Nanos now, bool passes) const;

  // Whose sum has to leave, in its buffer, which is leaving from now on.
  struct Evicted {
    uint64_t group = 0;
    Index index = 0;
    uint32_t buffer = kNoBuffer;
  };
  struct Taken {
    uint32_t buffer = kNoBuffer;  // for the index: in its place, or leaving (kPass)
    std::optional<Evicted> evicted;
  };
  // Does what Meet, asked just before for the same, has found; not kWait.
  Taken Take(const Meeting& meeting, uint64_t group, Index index, Priority priority, Nanos now);

  // All have contributed to what is summed in the buffer's place: nobody takes it away any more.
  void MarkWhole(uint32_t buffer);
  // May one more buffer of the group be leaving? Not if it, or all groups of its server together, have as
  // many as they may.
  bool MayLeave(uint64_t group) const;
  // What could be taken away from a group: every place in which one is summing that may send a part. By
  // place.
  std::vector<Evicted> Summing() const;
  // The buffer leaves its place, which is free. MayLeave must hold.
  void LeavePlace(uint32_t buffer);
  // A whole rest of the group waits in its place until MayLeave holds. Once for each.
  void Await(uint64_t group) { ServerOf(group).waiting.push_back(group); }
  // Of the groups that share this one's server: whose turn it is, and MayLeave holds. It waits once less.
  std::optional<uint64_t> NextToLeave(uint64_t group);
  // Nothing of the group waits any more.
  void StopWaiting(uint64_t group) { std::erase(ServerOf(group).waiting, group); }
  // The server has acknowledged what left in the buffer.
  void Acknowledged(uint32_t buffer);
  // For a sum from the group's server; nothing if it or all together have as many as they may.
  std::optional<uint32_t> TakeForResult(uint64_t group);
  // Nobody needs the buffer any more, in a place or with a result.
  void Free(uint32_t buffer);

  enum class Use : uint8_t { kSpare, kSumming, kWhole, kLeaving, kResult };
  Use UseOf(uint32_t buffer) const { return buffers_[buffer].use; }

  // Aborts if something does not hold that always does: a buffer is spare, in one place, or counted to the
  // group that has it; places that are free are known to be.
  void CheckInvariants() const;

  const PoolConfig& config() const { return config_; }
  size_t at() const { return at_; }
  size_t places() const { return places_.size(); }
  size_t buffers() const { return buffers_.size(); }
  size_t spare() const { return spare_.size(); }
  // Places that are not free.
  size_t in_use() const { return in_use_; }

  // Of a group that is there.
  const PoolCounters& counters(uint64_t group) const { return groups_.at(group).counters; }
  // Null of one that is not.
  const PoolCounters* FindCounters(uint64_t group) const {
    const auto it = groups_.find(group);
    return it == groups_.end() ? nullptr : &it->second.counters;
  }

 private:
  friend struct epic::Snapshot;
  struct Place {
    uint64_t group = 0;
    Index index = 0;
    Priority priority = 0;
    Nanos since = 0;
    uint32_t buffer = kNoBuffer;  // kNoBuffer: free
  };
  struct Buffer {
    Use use = Use::kSpare;
    uint64_t group = 0;
    uint32_t place = kNoBuffer;  // of kSumming and kWhole
  };
  struct Server {
    uint32_t groups = 0;
    uint32_t leaving = 0;          // of all of them
    std::deque<uint64_t> waiting;  // groups, each as often as it has a rest that may not leave yet
  };
  struct Group {
    Ipv4 server{};
    uint32_t leaving = 0;
    uint32_t results = 0;
    PoolCounters counters;
  };

  Meeting MeetAny(uint64_t group, Index index, Priority priority, Nanos now) const;
  Meeting MeetAt(uint32_t place, uint64_t group, Index index, Priority priority, Nanos now) const;
  // May the sum in the place go to its server to make room for another group?
  bool MayBeTaken(const Place& place, uint64_t by) const;
  bool Wins(const Place& place, uint64_t group, Index index, Priority priority, Nanos now) const;
  uint32_t TakeSpare(uint64_t group, Use use, uint32_t place);
  void MakeSpare(uint32_t buffer);
  void EmptyPlace(uint32_t place);
  Server& ServerOf(uint64_t group) { return servers_.at(groups_.at(group).server); }
  // One more buffer of the group is leaving, or one less.
  void CountLeaving(uint64_t group);
  void CountLeft(uint64_t group);
  uint32_t Quarter() const { return static_cast<uint32_t>(buffers_.size() - places_.size()) / 4; }

  PoolConfig config_;
  size_t at_;
  std::vector<Place> places_;
  std::vector<Buffer> buffers_;
  // Heaps, of which the lowest goes first: so what is taken follows from what is there.
  std::vector<uint32_t> spare_;  // buffers
  std::vector<uint32_t> free_;   // places, with kAny
  size_t in_use_ = 0;
  size_t results_ = 0;
  uint32_t hand_ = 0;
  uint64_t attempts_ = 0;  // to take a place away
  std::map<uint64_t, Group> groups_;
  std::map<Ipv4, Server> servers_;  // of the groups, by their addresses
};

}  // namespace epic::engine
