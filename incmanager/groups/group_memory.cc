// What groups take of the switches' memory and of links: known before a switch is asked (docs/DEPLOY.md,
// "Memory to fit").
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/groups/group_table.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {
namespace {

// In the engine's words (Engine::Install), as if it had been asked.
Failure NoRoom(const std::string& name, uint64_t needed, const SwitchOffer& offer) {
  Failure failure = SwitchFailure(ErrorCode::kNoResource, name,
                                  fmt::format("switch {}: arena: {} bytes needed, {} of {} bytes left", name,
                                              needed, offer.room, offer.arena_bytes));
  failure.brief = MemoryWords(name, needed, offer.room, offer.arena_bytes);
  if (!offer.kept.empty()) {
    failure.message += "; " + offer.kept;
    failure.brief += "; " + offer.kept;
  }
  return failure;
}

}  // namespace

// The payload that was asked for is left to ChoosePathMtu where it can not be had, which names who is in the
// way.
Result<GroupTable::NetworkWay> GroupTable::SizesOf(const Group& group, Tree tree,
                                                   const std::vector<SwitchOffer>& offers) const {
  NetworkWay way{.tree = std::move(tree)};
  auto borne = ChooseBorne(*topology_, forwarding_, way.tree, group.spec.mode, HostsOf(group));
  if (!borne.ok()) return borne.failure();
  way.borne = *std::move(borne);
  const auto mtu = ChoosePathMtu(group, way.tree, way.borne);
  if (!mtu.ok()) return mtu.failure();
  way.path_mtu = *mtu;
  const auto window = ChooseGroupWindow(group, way.tree, way.path_mtu);
  if (!window.ok()) return window.failure();
  way.window = *window;
  for (const TreeInner& inner : way.tree.inner) {
    way.bytes.push_back(ContextBytes({.mode = offers[inner.node].mode,
                                      .reproducible = group.spec.reproducible,
                                      .narrow = IsNarrow(group.spec),
                                      .path_mtu = way.path_mtu,
                                      .message_packets = way.window.message_packets,
                                      .window_messages = way.window.window_messages,
                                      .slots = way.window.slots,
                                      .children = static_cast<uint32_t>(inner.children.size()),
                                      .has_parent = inner.parent != TreeInner::kNoParent}));
  }
  return way;
}

// Who has too little memory for a tree is one that lacks something: another tree may do without it. Each turn
// finds at least one more such switch.
Result<GroupTable::NetworkWay> GroupTable::WayOfNetwork(const Group& group,
                                                        std::vector<RootChoice>* choices) const {
  const std::vector<NodeId> hosts = HostsOf(group);
  std::vector<SwitchOffer> offers = Offers(group.spec, ModesOf(group.spec));
  Failure refused = tenants_.Refuses(group.spec.tenant, group.spec.rate_kbps, load_);
  if (refused.ok()) refused = RefusesMode(group.spec);
  if (!refused.ok() && choices == nullptr) return refused;
  if (group.spec.policy != Policy::kShortest) {
    auto way = WayByTiers(group, hosts, offers, choices);
    if (!refused.ok()) return refused;
    return way;
  }
  Failure no_room;
  bool names_own = false;  // a switch that hosts of the group hang on
  const auto is_own = [&](NodeId node) {
    return std::ranges::any_of(hosts, [&](NodeId host) { return topology_->Attached(host).peer == node; });
  };
  for (;;) {
    std::vector<RootCandidate> candidates;
    auto tree = BuildTree(*topology_, forwarding_, offers, hosts, choices == nullptr ? nullptr : &candidates);
    if (choices != nullptr) *choices = ExplainRoots(*topology_, offers, candidates);
    if (!tree.ok()) return no_room.ok() ? tree.failure() : no_room;
    const NodeId root = tree->inner.front().node;
    auto way = SizesOf(group, *std::move(tree), offers);
    if (!way.ok() && way.failure().code == ErrorCode::kNoTree) {
      // No addresses to bear in this tree; with another root there may be.
      if (no_room.ok()) no_room = way.failure();
      offers[root].lacks = way.failure().Brief();
      continue;
    }
    if (!way.ok()) return way;
    bool fits = true;
    for (size_t i = 0; i < way->bytes.size(); ++i) {
      const NodeId node = way->tree.inner[i].node;
      if (way->bytes[i] <= offers[node].room) continue;
      const Failure failure = NoRoom(topology_->nodes[node].name, way->bytes[i], offers[node]);
      // No tree can do without a switch that a host hangs on.
      if (no_room.ok() || (!names_own && is_own(node))) no_room = failure;
      names_own = names_own || is_own(node);
      offers[node].lacks = failure.Brief();
      fits = false;
    }
    if (fits && !refused.ok()) return refused;
    if (fits) return way;
  }
}

Result<GroupTable::NetworkWay> GroupTable::WayByTiers(const Group& group, const std::vector<NodeId>& hosts,
                                                      const std::vector<SwitchOffer>& offers,
                                                      std::vector<RootChoice>* choices) const {
  PlaceRequest request{
      .policy = group.spec.policy,
      .prefer = group.spec.prefer == Prefer::kUnspecified ? Prefer::kAuto : group.spec.prefer,
      .rate_kbps = group.spec.rate_kbps,
      .rank_hosts = hosts,
      .reproducible = group.spec.reproducible,
      .bytes_of = {},
      .share = ShareOf(group.spec),
      .tenant = group.spec.tenant};
  request.bytes_of = [&](const Tree& tree) -> Result<std::vector<uint64_t>> {
    auto way = SizesOf(group, tree, offers);
    if (!way.ok()) return way.failure();
    return std::move(way->bytes);
  };
  auto outcome = Place(*topology_, load_, offers, request, choices);
  if (auto* refusal = std::get_if<Refusal>(&outcome)) return std::move(refusal->failure);
  auto& placed = std::get<Placed>(outcome);
  auto way = SizesOf(group, std::move(placed.tree), offers);
  if (way.ok()) {
    way->width_kbps = placed.width_kbps;
    if (group.spec.policy == Policy::kTemporal) way->blocks = std::move(placed.blocks);
  }
  return way;
}

// Of the tree that is chosen.
void GroupTable::TellMemory(const GroupSpec& spec, const NetworkWay& way,
                            std::vector<RootChoice>* choices) const {
  const std::vector<SwitchOffer> offers = Offers(spec, ModesOf(spec));
  for (RootChoice& choice : *choices) {
    for (size_t i = 0; choice.chosen && i < choice.switches.size(); ++i) {
      Aggregator& aggregator = choice.switches[i];
      if (offers[aggregator.node].arena_bytes == 0) continue;
      aggregator.bytes = way.blocks.empty() ? way.bytes[i] : way.blocks[i].bytes;
      aggregator.room = offers[aggregator.node].room;
    }
  }
}

void GroupTable::Claim(Group* group, const NetworkWay& way) {
  Allocation allocation;
  allocation.links.assign(group->footprint.links.begin(), group->footprint.links.end());
  for (size_t i = 0; i < group->plan.contexts.size(); ++i) {
    const ContextPlan& context = group->plan.contexts[i];
    Allocation::Region region{context.node, RoundUpToArena(way.bytes[i])};
    if (!way.blocks.empty()) {
      region.bytes = RoundUpToArena(way.blocks[i].bytes);
      region.block = way.blocks[i].number;
      region.low_byte = LowByteOf(context);
    }
    allocation.switches.push_back(region);
  }
  allocation.reserved_kbps = group->spec.rate_kbps;
  allocation.exclusive = group->spec.policy == Policy::kEdt;
  allocation.tenant = group->spec.tenant;
  allocation.share = ShareOf(group->spec);
  load_.Apply(allocation);
  group->allocation = std::move(allocation);
}

// An engine of another version may take more, or less, than was expected of it: but a block is as large as it
// is told.
void GroupTable::ClaimAsAnswered(Group* group, NodeId node, uint64_t arena_bytes) {
  if (!group->allocation) return;
  load_.Undo(*group->allocation);
  for (Allocation::Region& region : group->allocation->switches) {
    if (region.node == node && region.block == 0)
      region.bytes = RoundUpToArena(std::min(arena_bytes, kMostArenaBytes));
  }
  load_.Apply(*group->allocation);
}

void GroupTable::GiveBack(Group* group) {
  if (!group->allocation) return;
  load_.Undo(*group->allocation);
  group->allocation.reset();
}

}  // namespace epic::manager
