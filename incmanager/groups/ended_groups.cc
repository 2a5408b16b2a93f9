#include "incmanager/groups/ended_groups.h"

#include <utility>

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
  if (ends_.size() <= kKept) return;
  by_name_.erase(ends_.begin()->second.name);
  ends_.erase(ends_.begin());
}

const GroupEnd* EndedGroups::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &ends_.at(found->second);
}

}  // namespace epic::manager
