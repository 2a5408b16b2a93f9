// What a manager has of a former one, and what its store is to keep.
#include <iterator>
#include <utility>

#include "base/check.h"
#include "incmanager/groups/group_life.h"

namespace epic::manager {

void GroupLife::Resume(const KeptGroups& kept) {
  EPIC_CHECK(groups_.empty() && reserved_.empty());
  next_id_ = kept.first_id;
  qpns_.StartElsewhere(elsewhere_);
  default_policy_ = kept.default_policy;
  for (const Tenant& tenant : kept.tenants) tenants_.Restore(tenant);
  for (const KeptReservation& reservation : kept.reserved) {
    reserved_[reservation.spec.name] = reservation.spec;
    if (reservation.lives != 0) generations_[reservation.spec.name] = reservation.lives;
  }
}

const GroupSpec* GroupLife::FindReserved(const std::string& name) const {
  const auto found = reserved_.find(name);
  return found == reserved_.end() ? nullptr : &found->second;
}

uint32_t GroupLife::LivesOf(const std::string& name) const {
  const auto found = generations_.find(name);
  return found == generations_.end() ? 0 : found->second;
}

std::vector<std::string> GroupLife::TakeBegun(size_t most, const std::set<std::string>& but) {
  std::vector<std::string> names;
  for (auto name = begun_.begin(); name != begun_.end() && names.size() < most;) {
    const auto next = std::next(name);
    if (!but.contains(*name)) names.push_back(std::move(begun_.extract(name).value()));
    name = next;
  }
  return names;
}

}  // namespace epic::manager
