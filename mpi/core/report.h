// How many calls of each collective went which way: what EPIC_MPI_REPORT prints.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/call.h"
#include "mpi/core/decide.h"

namespace epic::mpi {

class Report {
 public:
  // A way that calls go, by its text; the same text has the same number. Those of Reason have theirs.
  int WayOf(const std::string& text);
  int WayOf(Reason reason) const { return static_cast<int>(reason); }

  void Add(EpicMpiCollective collective, int way, int64_t bytes);

  // A line for each collective and way, in the order of these: "MPI_Bcast: 12 calls, 4096 bytes: the MPI's
  // own, no elements".
  std::vector<std::string> Lines() const;

 private:
  struct Count {
    uint64_t calls = 0;
    uint64_t bytes = 0;
  };
  using Counts = std::array<Count, kEpicMpiCollectives>;

  std::vector<std::string> texts_;  // of the ways after those of Reason
  std::vector<Counts> counts_ = std::vector<Counts>(static_cast<size_t>(Reason::kCount));
};

}  // namespace epic::mpi
