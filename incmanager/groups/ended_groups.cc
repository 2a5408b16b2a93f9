#include "incmanager/groups/ended_groups.h"

#include <utility>

#include "base/check.h"
#include "incmanager/text.h"

namespace epic::manager {

void EndedGroups::Add(GroupEnd end) {
  end.how = Shortened(end.how, kMaxTextBytes);
  end.failure.message = Shortened(end.failure.message, kMaxTextBytes);
  const auto [of_name, is_new] = by_name_.try_emplace(end.name, next_);
  if (!is_new) {
    ends_.erase(of_name->second);
    of_name->second = next_;
  }
  ends_.emplace(next_++, std::move(end));
  EPIC_CHECK(ends_.size() == by_name_.size());
  if (ends_.size() <= kKept) return;
  by_name_.erase(ends_.begin()->second.name);
  ends_.erase(ends_.begin());
}

void EndedGroups::CheckInvariants() const {
  EPIC_CHECK(ends_.size() == by_name_.size() && ends_.size() <= kKept);
  for (const auto& [number, end] : ends_) {
    const auto of_name = by_name_.find(end.name);
    EPIC_CHECK(number < next_ && of_name != by_name_.end() && of_name->second == number);
  }
}

const GroupEnd* EndedGroups::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &ends_.at(found->second);
}

}  // namespace epic::manager
