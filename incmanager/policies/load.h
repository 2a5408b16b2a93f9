// What groups have taken of links and switches: integers, so that giving back is the exact inverse of taking.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "incmanager/policies/blocks.h"
#include "incmanager/topology.h"

namespace epic::manager {

// What one group takes.
struct Allocation {
  struct Region {
    NodeId node = kNoNode;
    uint64_t bytes = 0;    // of its arena; of a block all that it has, whoever made it
    uint32_t block = 0;    // its number, of policy temporal; 0: memory of the group's own
    uint8_t low_byte = 0;  // of the group's QPNs there; of a block
    friend bool operator==(const Region&, const Region&) = default;
  };
  std::vector<LinkEnd> links;    // that its tree crosses, each once, by the end that compares less
  std::vector<Region> switches;  // that aggregate, each once
  uint64_t reserved_kbps = 0;    // of each of its links; 0: it shares what is not reserved
  bool exclusive = false;        // no other exclusive tree may have its links (policy edt)
  std::string tenant;            // empty: of none
  TimeShare share;               // of its blocks
};

struct LinkLoad {
  uint64_t reserved_kbps = 0;
  uint32_t sharing = 0;    // trees that reserve nothing
  uint32_t exclusive = 0;  // exclusive trees

  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

struct SwitchLoad {
  uint64_t bytes = 0;  // blocks each once, however many owners they have
  uint32_t groups = 0;
  BlockLoads blocks;

  friend bool operator==(const SwitchLoad&, const SwitchLoad&) = default;
};

struct TenantLoad {
  uint64_t groups = 0;
  uint64_t reserved_kbps = 0;        // of its groups
  std::map<NodeId, uint64_t> bytes;  // by switch, where there are any

  friend bool operator==(const TenantLoad&, const TenantLoad&) = default;
};

class Load {
 public:
  // A block is made by its first owner, and goes with its last. Owners agree on what there is to say of it;
  // aborts if they do not.
  void Apply(const Allocation& allocation);
  // Of an allocation that has been applied and not undone; aborts if that cannot be.
  void Undo(const Allocation& allocation);

  // Of a link, by the end that compares less.
  LinkLoad link(LinkEnd lesser) const;
  const SwitchLoad& at(NodeId node) const;
  const TenantLoad& of(const std::string& tenant) const;

  // Aborts if something does not hold that always does: a block has
  // owners and is part of what its switch has taken; so is what tenants have, of whom there is nothing else.
  void CheckInvariants() const;

  friend bool operator==(const Load& a, const Load& b);

 private:
  LinkLoad& Link(LinkEnd lesser);
  SwitchLoad& At(NodeId node);
  uint64_t Give(const Allocation& allocation, const Allocation::Region& region);
  uint64_t TakeBack(const Allocation& allocation, const Allocation::Region& region);

  std::vector<std::vector<LinkLoad>> links_;   // by node and hop; what is missing is free
  std::vector<SwitchLoad> switches_;           // by node; the same
  std::map<std::string, TenantLoad> tenants_;  // that have any
};

}  // namespace epic::manager
