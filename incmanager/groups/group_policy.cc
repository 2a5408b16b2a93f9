// Which policy places a group, and whose it is (docs/DEPLOY.md, "Policies" and "Tenants").
#include <fmt/format.h>

#include <algorithm>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

GroupSpec GroupTable::Defaulted(GroupSpec spec) const {
  spec = WithDefaults(std::move(spec));
  if (spec.policy == Policy::kUnspecified) spec.policy = default_policy_;
  return spec;
}

Status GroupTable::CheckPolicy(const GroupSpec& spec) const {
  const auto no_use = [&spec](const char* field, const char* who_has) {
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: policy {} has no use for it, only {}",
                                                                field, Name(spec.policy), who_has));
  };
  if (!HasWidths(spec.policy)) {
    constexpr char kWho[] = "spatial and temporal have";
    if (spec.prefer != Prefer::kUnspecified) return no_use("prefer", kWho);
    if (spec.rate_kbps != 0) return no_use("rate", kWho);
  }
  if (spec.policy != Policy::kTemporal) {
    constexpr char kWho[] = "temporal has";
    if (spec.duty != 0) return no_use("duty", kWho);
    if (!spec.job.empty()) return no_use("job", kWho);
    if (!spec.phase.empty()) return no_use("phase", kWho);
  }
  if (Status status = CheckShare(spec); !status.ok()) return status;
  if (!spec.tenant.empty() && tenants_.Find(spec.tenant) == nullptr)
    return MakeStatus(StatusCode::kNotFound, fmt::format("tenant: there is no tenant {}", spec.tenant));
  return absl::OkStatus();
}

void GroupTable::SetDefaultPolicy(Policy policy) {
  default_policy_ = policy;
  world_->Note(fmt::format("policy: {} from now on, of groups that ask for none", Name(policy)));
}

std::vector<SwitchMemory> GroupTable::Memories() const {
  std::vector<SwitchMemory> out;
  for (const NodeId node : topology_->switches) {
    const uint64_t bytes = switches_->entry(node).engine.arena_bytes;
    if (bytes != 0) out.push_back({node, topology_->nodes[node].name, bytes});
  }
  return out;
}

Status GroupTable::SetTenant(const Tenant& tenant) {
  if (!IsName(tenant.name)) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      "tenant: its name must be 1 to 64 printable characters without spaces");
  }
  const std::vector<SwitchMemory> memories = Memories();
  if (memories.empty() && (tenant.limit_bytes || tenant.guaranteed_bytes != 0)) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("{}: no switch has said yet how much it has",
                                  tenant.guaranteed_bytes != 0 ? "guarantee_bytes" : "limit_bytes"));
  }
  if (Status status = tenants_.Set(tenant, memories, load_); !status.ok()) return status;
  world_->Note(fmt::format("tenant {}: set", tenant.name));
  return absl::OkStatus();
}

Status GroupTable::RemoveTenant(const std::string& name) {
  for (const auto& [group, spec] : reserved_) {
    if (spec.tenant != name || name.empty()) continue;
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("tenant: group {} is reserved for {}", group, name));
  }
  if (Status status = tenants_.Remove(name, load_); !status.ok()) return status;
  world_->Note(fmt::format("tenant {}: removed", name));
  return absl::OkStatus();
}

}  // namespace epic::manager
