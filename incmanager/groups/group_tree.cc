// Which switches a new group goes through, and what they have.
#include <fmt/format.h>

#include <utility>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

SwitchModes GroupTable::ModesOf(const GroupSpec& spec) const {
  SwitchModes modes;
  for (const auto& [name, mode] : spec.switch_modes) modes[*topology_->FindSwitch(name)] = mode;
  return modes;
}

std::vector<SwitchOffer> GroupTable::Offers(const GroupSpec& spec, const SwitchModes& switch_modes) const {
  std::vector<SwitchOffer> offers(topology_->nodes.size());
  for (const NodeId node : topology_->switches) {
    SwitchOffer& offer = offers[node];
    const EngineReport& engine = switches_->entry(node).engine;
    const auto own = switch_modes.find(node);
    offer.mode = own == switch_modes.end() ? spec.mode : own->second;
    offer.unusable = switches_->Unusable(node, offer.mode);
    offer.lacks = switches_->Lacks(node, NeedsOf(spec));
    if (spec.policy == Policy::kTemporal && offer.lacks.empty()) offer.lacks = LacksBlocks(node, offer.mode);
    offer.small_payload = spec.path_mtu > engine.max_path_mtu;
    offer.abilities = engine.abilities;
    offer.max_children = engine.max_children;
    offer.groups = load_.at(node).groups;
    offer.arena_bytes = engine.arena_bytes;
    if (engine.arena_bytes == 0) continue;
    auto room = tenants_.RoomOf(spec.tenant, {node, topology_->nodes[node].name, engine.arena_bytes}, load_);
    offer.room = room.bytes;
    offer.kept = std::move(room.kept);
  }
  return offers;
}

// What all switches of the plan have, and of all else one that lacks it, for the ranks and for people.
void GroupTable::TellAbilities(Group* group) const {
  Abilities all = Abilities::All();
  group->lacks.clear();
  if (IsNarrow(group->spec)) {
    all = all.Narrow();
    for (const TypeInfo& row : kDataTypes) {
      if (IsWidened(row.type))
        group->lacks.push_back(
            {fmt::format("type {}", row.name), "the types that the group was created for"});
    }
  }
  for (const ContextPlan& context : group->plan.contexts) {
    const Abilities news = switches_->entry(context.node).engine.abilities.Lacking(all);
    const std::string where = switches_->NameAndVersion(context.node);
    for (const TypeInfo& row : kDataTypes) {
      if (news.Has(row.type)) group->lacks.push_back({fmt::format("type {}", row.name), where});
    }
    for (const OpInfo& row : kReduceOps) {
      if (news.Has(row.op)) group->lacks.push_back({fmt::format("operation {}", row.name), where});
    }
    all = all.With(switches_->entry(context.node).engine.abilities);
    if (!news.empty()) {
      world_->Note(fmt::format("group {}: calls that need {} {}: not in {}", group->spec.name, NamesOf(news),
                               group->hosts_reach ? "go by the hosts" : "are refused", where));
    }
  }
  for (JoinedReply& reply : group->plan.replies) {
    reply.abilities = all;
    reply.lacks = group->lacks;
    reply.path_reason = group->path_reason;
    reply.hosts_reach = group->hosts_reach;
    reply.scale = group->spec.scale;
  }
}

}  // namespace epic::manager
