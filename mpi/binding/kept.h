// Groups of communicators that have been freed, for later ones of the same ranks in the same order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi/group/group.h"

namespace epic::mpi {

// A group with nothing under way, and this rank's place in it.
struct KeptGroup {
  std::string name;
  uint64_t members = 0;  // as EpicMpiPlace has it
  int rank = 0;
  int ranks = 0;
  std::unique_ptr<Group> group;
};

// Few, since each takes its switches' memory. Does not leave groups; times are those that it is given.
class KeptGroups {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kMost = 2;

  // Takes one in until a time that is no earlier than the last one's. Returns the oldest one, to be left, if
  // that is one too many.
  std::unique_ptr<Group> Put(KeptGroup kept, Time until);
  // The name of the newest whole one of these members; empty: there is none.
  std::string Offer(uint64_t members) const;
  // Gives the one of this name away if it is whole, and this rank has this place in it; else null.
  std::unique_ptr<Group> Take(const std::string& name, int rank, int ranks);
  // One that has been kept for long enough, to be left; null: there is none.
  std::unique_ptr<Group> TakeExpired(Time now);
  // When there will be one; nothing: no group is kept.
  std::optional<Time> NextExpiry() const;
  // The oldest one, to be left; null: there is none.
  std::unique_ptr<Group> TakeOldest();

 private:
  struct Entry {
    KeptGroup kept;
    Time until;
  };
  std::vector<Entry> entries_;  // from the oldest on
};

}  // namespace epic::mpi
