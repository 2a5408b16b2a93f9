#include "incmanager/policies/load.h"

#include <algorithm>

#include "base/check.h"

namespace epic::manager {
namespace {

// As if the shorter one had as many as the longer one, all of them free.
template <typename T, typename Equal>
bool EqualButForLength(const std::vector<T>& a, const std::vector<T>& b, const Equal& equal) {
  static const T kFree{};
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (!equal(i < a.size() ? a[i] : kFree, i < b.size() ? b[i] : kFree)) return false;
  }
  return true;
}

template <typename T>
T& Grown(std::vector<T>* all, size_t at) {
  if (all->size() <= at) all->resize(at + 1);
  return (*all)[at];
}

template <typename T>
void Take(T* from, T what) {
  EPIC_CHECK(*from >= what);
  *from -= what;
}

}  // namespace

LinkLoad& Load::Link(LinkEnd lesser) { return Grown(&Grown(&links_, lesser.node), lesser.hop); }

SwitchLoad& Load::At(NodeId node) { return Grown(&switches_, node); }

LinkLoad Load::link(LinkEnd lesser) const {
  if (lesser.node >= links_.size() || lesser.hop >= links_[lesser.node].size()) return {};
  return links_[lesser.node][lesser.hop];
}

const SwitchLoad& Load::at(NodeId node) const {
  static const SwitchLoad kNothing;
  return node < switches_.size() ? switches_[node] : kNothing;
}

const TenantLoad& Load::of(const std::string& tenant) const {
  static const TenantLoad kNothing;
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? kNothing : found->second;
}

// The bytes that are no longer free by it.
uint64_t Load::Give(const Allocation& allocation, const Allocation::Region& region) {
  SwitchLoad& at = At(region.node);
  ++at.groups;
  uint64_t bytes = region.bytes;
  if (region.block != 0) {
    BlockLoad& block = at.blocks[region.block];
    if (block.owners == 0) {
      block.bytes = region.bytes;
      block.low_byte = region.low_byte;
      block.tenant = allocation.tenant;
    } else {
      EPIC_CHECK(block.bytes == region.bytes && block.low_byte == region.low_byte &&
                 block.tenant == allocation.tenant);
      bytes = 0;
    }
    block.Add(allocation.share);
  }
  at.bytes += bytes;
  return bytes;
}

// The bytes that are free by it.
uint64_t Load::TakeBack(const Allocation& allocation, const Allocation::Region& region) {
  SwitchLoad& at = At(region.node);
  Take(&at.groups, 1u);
  uint64_t bytes = region.bytes;
  if (region.block != 0) {
    const auto block = at.blocks.find(region.block);
    EPIC_CHECK(block != at.blocks.end() && block->second.bytes == region.bytes);
    block->second.Remove(allocation.share);
    block->second.owners == 0 ? void(at.blocks.erase(block)) : void(bytes = 0);
  }
  Take(&at.bytes, bytes);
  return bytes;
}

void Load::Apply(const Allocation& allocation) {
  for (const LinkEnd& end : allocation.links) {
    LinkLoad& link = Link(end);
    link.reserved_kbps += allocation.reserved_kbps;
    if (allocation.reserved_kbps == 0) ++link.sharing;
    if (allocation.exclusive) ++link.exclusive;
  }
  TenantLoad* const tenant = allocation.tenant.empty() ? nullptr : &tenants_[allocation.tenant];
  for (const Allocation::Region& region : allocation.switches) {
    const uint64_t bytes = Give(allocation, region);
    if (tenant != nullptr && bytes != 0) tenant->bytes[region.node] += bytes;
  }
  if (tenant == nullptr) return;
  ++tenant->groups;
  tenant->reserved_kbps += allocation.reserved_kbps;
}

void Load::Undo(const Allocation& allocation) {
  for (const LinkEnd& end : allocation.links) {
    LinkLoad& link = Link(end);
    Take(&link.reserved_kbps, allocation.reserved_kbps);
    if (allocation.reserved_kbps == 0) Take(&link.sharing, 1u);
    if (allocation.exclusive) Take(&link.exclusive, 1u);
  }
  TenantLoad* const tenant = allocation.tenant.empty() ? nullptr : &tenants_[allocation.tenant];
  for (const Allocation::Region& region : allocation.switches) {
    const uint64_t taken = TakeBack(allocation, region);
    if (tenant == nullptr || taken == 0) continue;
    uint64_t& bytes = tenant->bytes[region.node];
    Take(&bytes, taken);
    if (bytes == 0) tenant->bytes.erase(region.node);
  }
  if (tenant == nullptr) return;
  Take(&tenant->groups, uint64_t{1});
  Take(&tenant->reserved_kbps, allocation.reserved_kbps);
  if (tenant->groups == 0) tenants_.erase(allocation.tenant);
}

void Load::CheckInvariants() const {
  for (const SwitchLoad& at : switches_) {
    uint64_t bytes = 0, owners = 0;
    for (const auto& [number, block] : at.blocks) {
      EPIC_CHECK(number != 0 && block.owners > 0);
      bytes += block.bytes;
      owners += block.owners;
    }
    EPIC_CHECK(bytes <= at.bytes && owners <= at.groups);
    EPIC_CHECK(at.groups > 0 || at.bytes == 0);
  }
  std::map<NodeId, uint64_t> of_tenants;
  for (const auto& [name, tenant] : tenants_) {
    EPIC_CHECK(!name.empty() && tenant.groups > 0);
    for (const auto& [node, bytes] : tenant.bytes) {
      EPIC_CHECK(bytes > 0);
      of_tenants[node] += bytes;
    }
  }
  for (const auto& [node, bytes] : of_tenants) EPIC_CHECK(bytes <= at(node).bytes);
}

bool operator==(const Load& a, const Load& b) {
  const auto same = [](const auto& x, const auto& y) { return x == y; };
  return a.tenants_ == b.tenants_ && EqualButForLength(a.switches_, b.switches_, same) &&
         EqualButForLength(a.links_, b.links_,
                           [&same](const auto& x, const auto& y) { return EqualButForLength(x, y, same); });
}

}  // namespace epic::manager
