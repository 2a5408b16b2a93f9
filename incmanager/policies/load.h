// What groups have taken of links and switches: integers, so that giving back is the exact inverse of taking.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "incmanager/topology.h"

namespace epic::manager {

// What one group takes.
struct Allocation {
  struct Region {
    NodeId node = kNoNode;
    uint64_t bytes = 0;  // of its arena
    friend bool operator==(const Region&, const Region&) = default;
  };
  std::vector<LinkEnd> links;    // that its tree crosses, each once, by the end that compares less
  std::vector<Region> switches;  // that aggregate, each once
  uint64_t reserved_kbps = 0;    // of each of its links; 0: it shares what is not reserved
  bool exclusive = false;        // no other exclusive tree may have its links (policy edt)
  std::string tenant;            // empty: of none
};

struct LinkLoad {
  uint64_t reserved_kbps = 0;
  uint32_t sharing = 0;    // trees that reserve nothing
  uint32_t exclusive = 0;  // exclusive trees

  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

struct SwitchLoad {
  uint64_t bytes = 0;
  uint32_t groups = 0;

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
  void Apply(const Allocation& allocation);
  // Of an allocation that has been applied and not undone; aborts if that cannot be.
  void Undo(const Allocation& allocation);

  // Of a link, by the end that compares less.
  LinkLoad link(LinkEnd lesser) const;
  SwitchLoad at(NodeId node) const;
  const TenantLoad& of(const std::string& tenant) const;

  friend bool operator==(const Load& a, const Load& b);

 private:
  LinkLoad& Link(LinkEnd lesser);
  SwitchLoad& At(NodeId node);

  std::vector<std::vector<LinkLoad>> links_;   // by node and hop; what is missing is free
  std::vector<SwitchLoad> switches_;           // by node; the same
  std::map<std::string, TenantLoad> tenants_;  // that have any
};

}  // namespace epic::manager
