#include "incmanager/groups/lending.h"

#include <algorithm>

#include "base/check.h"

namespace epic::manager {

std::vector<LendingHost> Lending::Left() const {
  std::vector<LendingHost> out;
  if (hosts_ != nullptr) out = hosts_->List();
  for (LendingHost& host : out) host.left_bytes = LeftOf(host.host, host.all_bytes);
  return out;
}

uint64_t Lending::LeftOf(NodeId host, uint64_t all_bytes) const {
  const auto taken = taken_.find(host);
  return all_bytes - (taken == taken_.end() ? 0 : std::min(taken->second, all_bytes));
}

void Lending::GiveBack(NodeId host, uint64_t bytes) {
  const auto taken = taken_.find(host);
  EPIC_CHECK(taken != taken_.end() && taken->second >= bytes);
  taken->second -= bytes;
  if (taken->second == 0) taken_.erase(taken);
}

}  // namespace epic::manager
