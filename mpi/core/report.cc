#include "mpi/core/report.h"

#include <algorithm>

#include "base/counted.h"

namespace epic::mpi {

int Report::WayOf(const std::string& text) {
  const auto at = std::find(texts_.begin(), texts_.end(), text);
  const auto number = static_cast<int>(Reason::kCount) + static_cast<int>(at - texts_.begin());
  if (at == texts_.end()) {
    texts_.push_back(text);
    counts_.emplace_back();
  }
  return number;
}

void Report::Add(EpicMpiCollective collective, int way, int64_t bytes) {
  Count& count = counts_[static_cast<size_t>(way)][collective];
  ++count.calls;
  count.bytes += static_cast<uint64_t>(bytes);
}

std::vector<std::string> Report::Lines() const {
  std::vector<std::string> lines;
  for (int collective = 0; collective < kEpicMpiCollectives; ++collective) {
    for (size_t way = 0; way < counts_.size(); ++way) {
      const Count& count = counts_[way][static_cast<size_t>(collective)];
      if (count.calls == 0) continue;
      const auto reasons = static_cast<size_t>(Reason::kCount);
      const std::string how = way < reasons
                                  ? "the MPI's own, " + std::string(TextOf(static_cast<Reason>(way)))
                                  : texts_[way - reasons];
      lines.push_back(std::string(NameOf(static_cast<EpicMpiCollective>(collective))) + ": " +
                      Counted(count.calls, "call") + ", " + Counted(count.bytes, "byte") + ": " + how);
    }
  }
  return lines;
}

}  // namespace epic::mpi
