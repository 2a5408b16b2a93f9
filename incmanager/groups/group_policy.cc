// Which policy places a group, and whose it is (docs/DEPLOY.md, "Policies" and "Tenants").
#include <fmt/format.h>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

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
  if (const Failure wrong = WrongName("tenant: its name", tenant.name); !wrong.ok()) return StatusOf(wrong);
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
