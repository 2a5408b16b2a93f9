#include "incmanager/policies/tenants.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {
namespace {

uint64_t BytesAt(const TenantLoad& load, NodeId node) {
  const auto found = load.bytes.find(node);
  return found == load.bytes.end() ? 0 : found->second;
}

uint64_t Less(uint64_t from, uint64_t what) { return from - std::min(from, what); }

}  // namespace

uint64_t Tenants::Unmet(const Tenant& tenant, NodeId node, const Load& load) {
  return Less(tenant.guaranteed_bytes, BytesAt(load.of(tenant.name), node));
}

Status Tenants::Set(const Tenant& tenant, const std::vector<SwitchMemory>& switches, const Load& load) {
  Status status = MaySet(tenant, switches, load);
  if (status.ok()) Restore(tenant);
  return status;
}

Status Tenants::MaySet(const Tenant& tenant, const std::vector<SwitchMemory>& switches, const Load& load) const {
  if (tenant.guaranteed_bytes > tenant.limit_bytes.value_or(UINT64_MAX)) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("guarantee_bytes: {} are more than the limit of {}",
                                  BytesWords(tenant.guaranteed_bytes), BytesWords(*tenant.limit_bytes)));
  }
  for (const SwitchMemory& memory : switches) {
    if (tenant.limit_bytes && *tenant.limit_bytes > memory.arena_bytes) {
      return MakeStatus(
          StatusCode::kInvalidArgument,
          fmt::format("limit_bytes: {} are more than the {} that {} has", BytesWords(*tenant.limit_bytes),
                      BytesWords(memory.arena_bytes), memory.name));
    }
    uint64_t all = tenant.guaranteed_bytes;
    uint64_t unmet = Unmet(tenant, memory.node, load);
    for (const auto& [name, other] : tenants_) {
      if (name == tenant.name) continue;
      all += other.guaranteed_bytes;
      unmet += Unmet(other, memory.node, load);
    }
    if (all > memory.arena_bytes) {
      return MakeStatus(StatusCode::kFailedPrecondition,
                        fmt::format("guarantee_bytes: those of all tenants would be {}, and {} has {}",
                                    BytesWords(all), memory.name, BytesWords(memory.arena_bytes)));
    }
    if (const uint64_t free = Less(memory.arena_bytes, load.at(memory.node).bytes);
        tenant.guaranteed_bytes != 0 && unmet > free) {
      return MakeStatus(
          StatusCode::kFailedPrecondition,
          fmt::format("guarantee_bytes: {} would have to be kept for tenants, and {} has {} free",
                      BytesWords(unmet), memory.name, BytesWords(free)));
    }
  }
  return absl::OkStatus();
}

Status Tenants::Remove(const std::string& name, const Load& load) {
  Status status = MayRemove(name, load);
  if (status.ok()) tenants_.erase(name);
  return status;
}

Status Tenants::MayRemove(const std::string& name, const Load& load) const {
  if (!tenants_.contains(name))
    return MakeStatus(StatusCode::kNotFound, fmt::format("tenant: there is no tenant {}", name));
  if (const uint64_t groups = load.of(name).groups; groups != 0) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("tenant: {} has {} on switches", name, Counted(groups, "group")));
  }
  return absl::OkStatus();
}

const Tenant* Tenants::Find(const std::string& name) const {
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? nullptr : &found->second;
}

std::vector<Tenant> Tenants::List() const {
  std::vector<Tenant> out;
  for (const auto& [name, tenant] : tenants_) out.push_back(tenant);
  return out;
}

Tenants::Room Tenants::RoomOf(const std::string& tenant, const SwitchMemory& memory, const Load& load) const {
  Room room{Less(memory.arena_bytes, load.at(memory.node).bytes), ""};
  uint64_t kept = 0;
  for (const auto& [name, other] : tenants_) kept += name == tenant ? 0 : Unmet(other, memory.node, load);
  if (kept != 0) {
    room.bytes = Less(room.bytes, kept);
    room.kept = fmt::format("{} are kept for other tenants", BytesWords(kept));
  }
  const Tenant* const own = Find(tenant);
  if (own == nullptr || !own->limit_bytes) return room;
  const uint64_t left = Less(*own->limit_bytes, BytesAt(load.of(tenant), memory.node));
  if (left >= room.bytes) return room;
  return {left, fmt::format("no more is free for tenant {}, which may have {} of a switch", tenant,
                            BytesWords(*own->limit_bytes))};
}

Failure Tenants::Refuses(const std::string& tenant, uint64_t reserve_kbps, const Load& load) const {
  const Tenant* const own = Find(tenant);
  if (own == nullptr) return {};
  const TenantLoad& taken = load.of(tenant);
  const auto refused = [&](const std::string& why) {
    Failure out{ErrorCode::kNoResource, fmt::format("tenant {}: {}", tenant, why), -1, ""};
    return out;
  };
  if (own->limit_groups && taken.groups >= *own->limit_groups)
    return refused(fmt::format("it has {} of {} that may go through switches", taken.groups,
                               Counted(*own->limit_groups, "group")));
  const auto gbps = [](uint64_t kbps) { return static_cast<double>(kbps) * 1e-6; };
  if (own->limit_kbps && reserve_kbps != 0 && taken.reserved_kbps + reserve_kbps > *own->limit_kbps)
    return refused(fmt::format("its groups reserve {:g} of {:g} Gbit/s, {:g} needed",
                               gbps(taken.reserved_kbps), gbps(*own->limit_kbps), gbps(reserve_kbps)));
  return {};
}

}  // namespace epic::manager
