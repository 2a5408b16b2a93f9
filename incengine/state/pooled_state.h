// What a group's context holds if its payloads lie in the switch's pool: where that is, the queue pair to its
// fallback server, and how far each split index has come there (docs/PROTOCOL-MODE-V.md). Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/counter_table.h"
#include "base/types.h"
#include "incengine/state/config.h"
#include "incengine/state/pool.h"
#include "roce/transport/queue_pair.h"

namespace epic::engine {

// For the leg's queue pair buffers lie at addresses: those of the pool at their places in it, and behind them
// the group's own, whose region may move.
inline constexpr uint64_t kOwnAddress = uint64_t{1} << 40;

// A sum that has been asked for, and the buffer that it is to come to.
struct Fetch {
  Index index = 0;
  uint32_t buffer = kNoBuffer;
};

// Why a leg has ended, and the group with it.
enum class LegFailure : uint8_t {
  kNone,     // it has not
  kMessage,  // the server sent what may not be there: of another kind, index or length, or not asked for
  kRefused,  // the server refused a message, or the connection
  kOverrun,  // more was posted here than a leg may have under way
};

struct LegCounters {
  uint64_t splits = 0;             // indices of which a part has been sent
  uint64_t server_bytes_sent = 0;  // in parts
  uint64_t server_bytes_back = 0;  // in sums
};

inline constexpr auto kLegCounters = std::to_array<CounterRow<LegCounters>>({
    {"splits", &LegCounters::splits},
    {"server_bytes_sent", &LegCounters::server_bytes_sent},
    {"server_bytes_back", &LegCounters::server_bytes_back},
});
static_assert(HasEach(kLegCounters));

struct PooledState {
  roce::QueuePair qp;
  size_t pool_at = 0;         // where the pool's buffers begin in the arena: they never move
  uint32_t buffer_bytes = 0;  // of one of them
  size_t own_at = 0;          // the group's own buffer, of one MTU, from its region's beginning
  bool own_taken = false;
  int64_t opened_end = 0;                // the server knows of the invocations below it that have data
  Index freed_end = 0;                   // nothing below it has a buffer as a result
  // Split indices to which all have contributed, each in one of these. Whole in a place, as no part may leave
  // now; at the server, in order; asked for, in the order of asking.
  std::deque<Index> held;
  std::deque<Index> whole;
  std::deque<Fetch> fetching;
  bool poll = false;  // something has been posted since the queue pair was last polled
  LegFailure end = LegFailure::kNone;
  bool let_go = false;  // the group has failed, and has given up what it was summing
  LegCounters counters;
};

// Everything as it is before the first packet, the queue pair connected. address is this switch's.
PooledState MakePooledState(const GroupConfig& config, Ipv4 address, const Pool& pool);

}  // namespace epic::engine
