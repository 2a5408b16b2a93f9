// What operators ask for: groups that they create, destroy and look at; the default policy, and tenants.
#include <fmt/format.h>

#include <set>

#include "base/check.h"
#include "base/counted.h"
#include "incmanager/groups/group_life.h"

namespace epic::manager {

StatusOr<GroupSpec> GroupLife::MayCreate(const GroupSpec& asked) const {
  GroupSpec spec = WithDefaults(asked, default_policy_);
  if (const Failure wrong = WrongName("name:", spec.name); !wrong.ok()) return StatusOf(wrong);
  if (reserved_.contains(spec.name) || live_.contains(spec.name)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("group {} exists", spec.name));
  }
  if (const Failure wrong = admission_.RefusesGroup(spec); !wrong.ok()) return StatusOf(wrong);
  if (reserved_.size() >= options_.max_reserved) {
    return MakeStatus(StatusCode::kResourceExhausted,
                      fmt::format("group {}: {} groups are reserved already, and no more may be (incmanager serve "
                                  "--max-reserved)",
                                  spec.name, reserved_.size()));
  }
  return spec;
}

Status GroupLife::Create(const GroupSpec& asked) {
  const StatusOr<GroupSpec> spec = MayCreate(asked);
  if (!spec.ok()) return spec.status();
  reserved_[spec->name] = *spec;
  world_->Note(
      fmt::format("group {}: reserved for {}", spec->name, Counted(spec->world_size, "rank", "ranks")));
  return absl::OkStatus();
}

Status GroupLife::MayDestroy(const std::string& name, bool force) const {
  const auto live = live_.find(name);
  const Group* const group = live == live_.end() ? nullptr : &groups_.at(live->second);
  if (group == nullptr && !reserved_.contains(name)) {
    return MakeStatus(StatusCode::kNotFound, fmt::format("there is no group {}", name));
  }
  if (group != nullptr && !force) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("group {} is {} with {}; use --force to end it under them", name,
                                  Name(group->phase), Counted(group->members.size(), "rank", "ranks")));
  }
  return absl::OkStatus();
}

Status GroupLife::Destroy(Nanos now, const std::string& name, bool force) {
  if (Status status = MayDestroy(name, force); !status.ok()) return status;
  Group* const group = Live(name);
  Group blank;
  if (const auto reserved = reserved_.extract(name)) blank.spec = reserved.mapped();
  const bool has_lived = generations_.erase(name) != 0;
  begun_.erase(name);
  if (group != nullptr) {
    FailGroup(now, group,
              {ErrorCode::kAborted, fmt::format("group {} was destroyed by its operator", name), -1, ""});
  } else if (has_lived && EndOf(name) != nullptr) {
    world_->Note(fmt::format("group {}: destroyed", name));  // how its last life ended says more
  } else {
    End(now, blank, "destroyed");
  }
  return absl::OkStatus();
}

void GroupLife::End(Nanos now, const Group& group, const std::string& how, const Failure& failure) {
  // Who was sent Joined just now may lose that and this with the manager.
  const bool is_young = IsInUse(group.phase) && now - group.placed < kBackWithin;
  std::set<uint64_t> untold;
  for (const auto& [rank, member] : group.members) {
    if ((member.away || is_young) && member.join.nonce != 0) untold.insert(member.join.nonce);
  }
  ends_.Add({.name = group.spec.name,
             .id = group.id,
             .generation = group.generation,
             .world_size = group.spec.world_size,
             .joined = static_cast<uint32_t>(group.members.size()),
             .mode = group.spec.mode,
             .at = now,
             .how = how,
             .failure = failure,
             .untold = std::move(untold)});
  if (keeps_ && IsInUse(group.phase)) changed_.ended.insert(group.spec.name);
  world_->NoteEnd(fmt::format("group {}: {}", group.spec.name, how));
}

std::optional<Group> GroupLife::Find(const std::string& name) const {
  const auto live = live_.find(name);
  if (live != live_.end()) return groups_.at(live->second);
  // Of lives that are being removed the last.
  for (auto at = groups_.rbegin(); at != groups_.rend(); ++at) {
    if (at->second.spec.name == name) return at->second;
  }
  const auto reserved = reserved_.find(name);
  if (reserved == reserved_.end()) return std::nullopt;
  const auto lives = generations_.find(name);
  return Group{.spec = reserved->second,
               .reserved = true,
               .generation = lives == generations_.end() ? 0 : lives->second};
}

std::vector<std::string> GroupLife::Names(const std::string& after) const {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name > after) names.insert(name);
  };
  for (const auto& [name, spec] : reserved_) add(name);
  for (const auto& [id, group] : groups_) add(group.spec.name);
  return {names.begin(), names.end()};
}

std::optional<std::set<NodeId>> GroupLife::Removing(uint64_t group_id) const {
  const auto found = groups_.find(group_id);
  if (found == groups_.end()) return std::nullopt;
  std::set<NodeId> removing = found->second.removing;
  removing.insert(found->second.removing_refused.begin(), found->second.removing_refused.end());
  return removing;
}

StatusOr<Placement> GroupLife::Explain(const GroupSpec& asked) const {
  GroupSpec spec = WithDefaults(asked, default_policy_);
  spec.world_size = static_cast<uint32_t>(spec.hosts.size());
  if (spec.world_size < 2)
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("hosts: {} named, and a group has at least 2 ranks", spec.world_size));
  if (const Failure wrong = admission_.RefusesGroup(spec); !wrong.ok()) return StatusOf(wrong);
  return placer_.Explain(spec);
}

void GroupLife::SetDefaultPolicy(Policy policy) {
  default_policy_ = policy;
  world_->Note(fmt::format("policy: {} from now on, of groups that ask for none", Name(policy)));
}

std::vector<SwitchMemory> GroupLife::Memories() const {
  std::vector<SwitchMemory> memories;
  for (const NodeId node : topology_->switches) {
    const uint64_t bytes = switches_->entry(node).engine.arena_bytes;
    if (bytes != 0) memories.push_back({node, topology_->nodes[node].name, bytes});
  }
  return memories;
}

Status GroupLife::MaySetTenant(const Tenant& tenant) const {
  if (const Failure wrong = WrongName("tenant: its name", tenant.name); !wrong.ok()) return StatusOf(wrong);
  if (tenants_.Find(tenant.name) == nullptr && tenants_.List().size() >= options_.max_tenants) {
    return MakeStatus(StatusCode::kResourceExhausted,
                      fmt::format("tenant {}: there are {} already, and no more may be (incmanager serve --max-tenants)",
                                  tenant.name, options_.max_tenants));
  }
  const std::vector<SwitchMemory> memories = Memories();
  if (memories.empty() && (tenant.limit_bytes || tenant.guaranteed_bytes != 0)) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("{}: no switch has said yet how much it has",
                                  tenant.guaranteed_bytes != 0 ? "guarantee_bytes" : "limit_bytes"));
  }
  return tenants_.MaySet(tenant, memories, load_);
}

Status GroupLife::SetTenant(const Tenant& tenant) {
  if (Status status = MaySetTenant(tenant); !status.ok()) return status;
  tenants_.Restore(tenant);
  world_->Note(fmt::format("tenant {}: set", tenant.name));
  return absl::OkStatus();
}

Status GroupLife::MayRemoveTenant(const std::string& name) const {
  for (const auto& [group, spec] : reserved_) {
    if (spec.tenant != name || name.empty()) continue;
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("tenant: group {} is reserved for {}", group, name));
  }
  return tenants_.MayRemove(name, load_);
}

Status GroupLife::RemoveTenant(const std::string& name) {
  if (Status status = MayRemoveTenant(name); !status.ok()) return status;
  EPIC_CHECK(tenants_.Remove(name, load_).ok());
  world_->Note(fmt::format("tenant {}: removed", name));
  return absl::OkStatus();
}

}  // namespace epic::manager
