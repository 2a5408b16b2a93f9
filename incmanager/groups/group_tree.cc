// Which switches a new group goes through, and what they have.
#include <fmt/format.h>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

SwitchModes GroupTable::ModesOf(const GroupSpec& spec) const {
  SwitchModes modes;
  for (const auto& [name, mode] : spec.switch_modes) modes[*topology_->FindSwitch(name)] = mode;
  return modes;
}

std::vector<SwitchOffer> GroupTable::Offers(const GroupSpec& spec, const SwitchModes& switch_modes,
                                            const Abilities& needs, uint32_t path_mtu) const {
  std::vector<SwitchOffer> offers(topology_->switch_count);
  for (NodeId node = 0; node < topology_->switch_count; ++node) {
    const auto own = switch_modes.find(node);
    offers[node].unusable = switches_->Unusable(node, own == switch_modes.end() ? spec.mode : own->second);
    if (offers[node].unusable.empty()) offers[node].unusable = switches_->Lacks(node, needs, path_mtu);
    offers[node].max_children = switches_->entry(node).engine.max_children;
  }
  for (const auto& [id, group] : groups_) {
    for (const ContextPlan& context : group.plan.contexts) ++offers[context.node].groups;
  }
  return offers;
}

// Nobody knows what a group's calls will ask for: switches that have everything come first, then those that
// have what the group was created with. The payload that was asked for is left to ChoosePathMtu where it can
// not be had, which names who is in the way.
std::variant<Tree, Failure> GroupTable::ChooseTree(const Group& group, const SwitchModes& switch_modes,
                                                   const std::vector<NodeId>& hosts) const {
  struct Wish {
    Abilities abilities;
    uint32_t path_mtu = 0;
  };
  const GroupSpec& spec = group.spec;
  const Wish wishes[] = {{Abilities::All(), spec.path_mtu}, {spec.needs, spec.path_mtu}, {spec.needs, 0}};
  std::variant<Tree, Failure> tree;
  for (const Wish& wish : wishes) {
    tree =
        BuildTree(*topology_, forwarding_, Offers(spec, switch_modes, wish.abilities, wish.path_mtu), hosts);
    if (std::holds_alternative<Tree>(tree)) break;
  }
  return tree;
}

// What all switches of the plan have, and of all else one that lacks it, for the ranks and for people.
void GroupTable::TellAbilities(Group* group) const {
  Abilities all = Abilities::All();
  group->lacks.clear();
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
      world_->Note(fmt::format("group {}: calls that need {} are refused: not in {}", group->spec.name,
                               NamesOf(news), where));
    }
  }
  for (JoinedReply& reply : group->plan.replies) {
    reply.abilities = all;
    reply.lacks = group->lacks;
  }
}

}  // namespace epic::manager
