// Groups that operators create, destroy and look at.
#include <fmt/format.h>

#include <set>

#include "base/counted.h"
#include "incmanager/groups/group_table.h"

namespace epic::manager {

Status GroupTable::Create(const GroupSpec& asked) {
  const GroupSpec spec = WithDefaults(asked, default_policy_);
  if (const Failure wrong = WrongName("name:", spec.name); !wrong.ok()) return StatusOf(wrong);
  if (reserved_.contains(spec.name) || live_.contains(spec.name)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("group {} exists", spec.name));
  }
  if (const Failure wrong = admission_.RefusesGroup(spec); !wrong.ok()) return StatusOf(wrong);
  reserved_[spec.name] = spec;
  world_->Note(fmt::format("group {}: reserved for {}", spec.name, Counted(spec.world_size, "rank", "ranks")));
  return absl::OkStatus();
}

Status GroupTable::Destroy(Nanos now, const std::string& name, bool force) {
  Group* group = Live(name);
  if (group == nullptr && !reserved_.contains(name)) {
    return MakeStatus(StatusCode::kNotFound, fmt::format("there is no group {}", name));
  }
  if (group != nullptr && !force) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("group {} is {} with {}; use --force to end it under them", name,
                                  Name(group->phase), Counted(group->members.size(), "rank", "ranks")));
  }
  const auto reserved = reserved_.find(name);
  Group blank;
  if (reserved != reserved_.end()) blank.spec = reserved->second;
  const bool has_lived = generations_.contains(name);
  reserved_.erase(name);
  generations_.erase(name);
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

void GroupTable::End(Nanos now, const Group& group, const std::string& how, const Failure& failure) {
  ends_.Add({.name = group.spec.name,
             .id = group.id,
             .generation = group.generation,
             .world_size = group.spec.world_size,
             .joined = static_cast<uint32_t>(group.members.size()),
             .mode = group.spec.mode,
             .at = now,
             .how = how,
             .failure = failure});
  world_->NoteEnd(fmt::format("group {}: {}", group.spec.name, how));
}

std::optional<Group> GroupTable::Find(const std::string& name) const {
  const auto live = live_.find(name);
  if (live != live_.end()) return groups_.at(live->second);
  // Of lives that are being removed the last.
  for (auto at = groups_.rbegin(); at != groups_.rend(); ++at) {
    if (at->second.spec.name == name) return at->second;
  }
  const auto reserved = reserved_.find(name);
  if (reserved == reserved_.end()) return std::nullopt;
  Group group;
  group.spec = reserved->second;
  group.reserved = true;
  const auto generation = generations_.find(name);
  group.generation = generation == generations_.end() ? 0 : generation->second;
  return group;
}

std::vector<std::string> GroupTable::Names(const std::string& after) const {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name > after) names.insert(name);
  };
  for (const auto& [name, spec] : reserved_) add(name);
  for (const auto& [id, group] : groups_) add(group.spec.name);
  return {names.begin(), names.end()};
}

}  // namespace epic::manager
