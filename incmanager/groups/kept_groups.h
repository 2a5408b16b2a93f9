// What outlives a manager of groups: what operators have asked for. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "incmanager/groups/group.h"
#include "incmanager/policies/place.h"
#include "incmanager/policies/tenants.h"

namespace epic::manager {

struct KeptReservation {
  GroupSpec spec;      // with mode, path and policy as they were taken for it
  uint32_t lives = 0;  // so far
};

struct KeptGroups {
  uint64_t first_id = 1;  // of a group; those before it are of former managers
  Policy default_policy = Policy::kShortest;
  std::vector<Tenant> tenants;
  std::vector<KeptReservation> reserved;
};

}  // namespace epic::manager
