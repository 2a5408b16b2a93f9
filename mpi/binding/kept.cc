#include "mpi/binding/kept.h"

#include <algorithm>
#include <utility>

namespace epic::mpi {

std::unique_ptr<Group> KeptGroups::Put(KeptGroup kept, Time until) {
  entries_.push_back({std::move(kept), until});
  return entries_.size() > kMost ? TakeOldest() : nullptr;
}

std::string KeptGroups::Offer(uint64_t members) const {
  const auto at = std::find_if(entries_.rbegin(), entries_.rend(), [members](const Entry& entry) {
    return entry.kept.members == members && entry.kept.group->IsWhole();
  });
  return at == entries_.rend() ? "" : at->kept.name;
}

std::unique_ptr<Group> KeptGroups::Take(const std::string& name, int rank, int ranks) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.kept.name == name && entry.kept.rank == rank && entry.kept.ranks == ranks;
  });
  if (at == entries_.end() || !at->kept.group->IsWhole()) return nullptr;
  std::unique_ptr<Group> group = std::move(at->kept.group);
  entries_.erase(at);
  return group;
}

std::unique_ptr<Group> KeptGroups::TakeExpired(Time now) {
  return entries_.empty() || entries_.front().until > now ? nullptr : TakeOldest();
}

std::optional<KeptGroups::Time> KeptGroups::NextExpiry() const {
  return entries_.empty() ? std::nullopt : std::optional(entries_.front().until);
}

std::unique_ptr<Group> KeptGroups::TakeOldest() {
  if (entries_.empty()) return nullptr;
  std::unique_ptr<Group> group = std::move(entries_.front().kept.group);
  entries_.erase(entries_.begin());
  return group;
}

}  // namespace epic::mpi
