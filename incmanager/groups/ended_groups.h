// How groups have ended, for operators who ask when there is nothing left of them. Bounded. Not thread-safe;
// no clock, the time comes in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/types.h"
#include "incmanager/failure.h"
#include "incmanager/text.h"
#include "protocol/modes.h"

namespace epic::manager {

// The end of one life of a group.
struct GroupEnd {
  std::string name;
  uint64_t id = 0;  // 0: no rank had joined
  uint32_t generation = 0;
  uint32_t world_size = 0;
  uint32_t joined = 0;  // ranks that were in it
  Mode mode = Mode::kUnspecified;
  Nanos at = 0;
  std::string how;  // in words: "failed: rank 1 on h1 (pid 7) is gone", "all 4 ranks have left"
  Failure failure;  // ok: it has not failed
  // The nonces of ranks that have perhaps been told neither that it ran nor this, and join once more: those that were
  // away, and all if it had not run for long.
  std::set<uint64_t> untold;
};

class EndedGroups {
 public:
  // More than 16 a second for ten minutes, each of another name.
  static constexpr size_t kKept = 10'000;
  static constexpr size_t kMaxTextBytes = kMaxEventBytes;

  // Of a name the newest end is kept, of names those that have ended last. Texts that are longer than
  // kMaxTextBytes are cut between characters.
  void Add(GroupEnd end);
  // Null if none is known. Valid until the next Add.
  const GroupEnd* Find(const std::string& name) const;
  size_t size() const { return ends_.size(); }
  // Aborts if something does not hold that always does: each end is
  // found by its name, and nothing else is.
  void CheckInvariants() const;

 private:
  uint64_t next_ = 1;
  std::map<uint64_t, GroupEnd> ends_;        // in the order in which they were added
  std::map<std::string, uint64_t> by_name_;  // the key in ends_
};

}  // namespace epic::manager
