// What a group would get if its ranks joined now, and why (docs/DEPLOY.md, "What a group would get").
#include <fmt/format.h>

#include <utility>

#include "incmanager/groups/group_table.h"

namespace epic::manager {

StatusOr<Placement> GroupTable::Explain(const GroupSpec& asked) const {
  Group group;
  group.spec = WithDefaults(asked, default_policy_);
  GroupSpec& spec = group.spec;
  spec.world_size = static_cast<uint32_t>(spec.hosts.size());
  if (spec.world_size < 2)
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("hosts: {} named, and a group has at least 2 ranks", spec.world_size));
  if (const Failure wrong = admission_.RefusesGroup(spec); !wrong.ok()) return StatusOf(wrong);
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    Member member;
    member.join.rank = rank;
    member.join.max_path_mtu = options_.max_path_mtu;
    member.host = *topology_->FindHost(spec.hosts[rank]);
    group.members.emplace(rank, std::move(member));
  }

  Placement out;
  out.policy = spec.policy;
  const auto network = WayOfNetwork(group, &out.roots);
  if (const Failure misplaced = Misplaced(group, ErrorCode::kNoTree); !misplaced.ok()) {
    for (RootChoice& choice : out.roots) {
      if (choice.chosen) choice.why = misplaced.message;
      choice.chosen = false;
    }
    out.failure = misplaced;
    return out;
  }
  const bool by_hosts = spec.path == Path::kHosts;
  if (network.ok() && !by_hosts) {
    const Tree& tree = network->tree;
    out.path = Path::kNetwork;
    out.root = tree.inner[0].node;
    out.switches = static_cast<uint32_t>(tree.inner.size());
    TellMemory(spec, *network, &out.roots);
    out.mode = spec.mode;
    return out;
  }
  const Failure refused = by_hosts ? Failure{} : network.failure();
  // The tree is there, and is not taken.
  for (RootChoice& choice : out.roots) {
    if (choice.chosen) choice.why = by_hosts ? "path hosts is asked for" : refused.Brief();
    choice.chosen = false;
  }
  const auto hosts = spec.path == Path::kNetwork ? Result<HostsWay>(refused) : ChooseHostsWay(group, refused);
  if (!hosts.ok()) {
    out.failure = hosts.failure();
  } else {
    out.path = Path::kHosts;
    out.path_reason = by_hosts ? "asked for by its operator" : refused.Brief();
  }
  return out;
}

}  // namespace epic::manager
