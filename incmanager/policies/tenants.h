// Tenants: how much of the network all groups of one may have, and what is kept for it. Plain values and pure
// functions; what tenants have is in Load.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "incmanager/failure.h"
#include "incmanager/policies/load.h"
#include "incmanager/topology.h"

namespace epic::manager {

struct Tenant {
  std::string name;
  // What its groups may have together; no limit where there is none.
  std::optional<uint64_t> limit_bytes;   // of each switch's memory
  std::optional<uint64_t> limit_groups;  // that go through switches
  std::optional<uint64_t> limit_kbps;    // that they reserve
  uint64_t guaranteed_bytes = 0;         // of each switch's memory: kept for them from others
};

// A switch whose memory is known.
struct SwitchMemory {
  NodeId node = kNoNode;
  std::string name;
  uint64_t arena_bytes = 0;
};

class Tenants {
 public:
  // Makes it, or changes what it may have; groups that are there keep what they have. Errors:
  // INVALID_ARGUMENT (a limit above a switch, a guarantee above its limit), FAILED_PRECONDITION (guarantees
  // that do not fit into what a switch has, or has free), naming the switch.
  Status Set(const Tenant& tenant, const std::vector<SwitchMemory>& switches, const Load& load);
  // Errors: NOT_FOUND, FAILED_PRECONDITION (it has groups).
  Status Remove(const std::string& name, const Load& load);
  // What these would say, without doing it.
  Status MaySet(const Tenant& tenant, const std::vector<SwitchMemory>& switches, const Load& load) const;
  Status MayRemove(const std::string& name, const Load& load) const;
  // One that Set has taken before; it is not judged.
  void Restore(const Tenant& tenant) { tenants_[tenant.name] = tenant; }
  // Null if there is none.
  const Tenant* Find(const std::string& name) const;
  std::vector<Tenant> List() const;  // by name

  struct Room {
    uint64_t bytes = 0;
    std::string kept;  // why it is less than what is free; empty if it is not
  };
  // What a new group of the tenant (empty: of none) may have of a switch: what is free and not kept for
  // others, as far as its limit goes.
  Room RoomOf(const std::string& tenant, const SwitchMemory& memory, const Load& load) const;
  // kNoResource if one more group that reserves so much is more than the tenant may have.
  Failure Refuses(const std::string& tenant, uint64_t reserve_kbps, const Load& load) const;

 private:
  // Bytes of a guarantee that its tenant does not have yet.
  static uint64_t Unmet(const Tenant& tenant, NodeId node, const Load& load);

  std::map<std::string, Tenant> tenants_;
};

}  // namespace epic::manager
