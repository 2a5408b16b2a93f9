// The way of a group through switches: its tree, its sizes, and what it takes of their memory; and what there
// is to say of that.
#include "incmanager/groups/placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/path_mtu.h"
#include "incmanager/policies/memory.h"
#include "protocol/context_memory.h"

namespace epic::manager {
namespace {

std::string NoBlocksIn(Mode mode) {
  return fmt::format("mode {} has no blocks, which policy temporal needs", NumeralOf(mode));
}

// Ranks of a group that asks speak as the group's mode has it, whatever single switches do.
Failure RefusesMode(const GroupSpec& spec) {
  if (spec.policy != Policy::kTemporal || !IsMode(spec.mode) || MayHaveBlocks(spec.mode)) return {};
  return {ErrorCode::kUnsupported, NoBlocksIn(spec.mode), -1, ""};
}

// The least of what was told of, and the first whose it is.
struct Carried {
  uint32_t mtu = 0;
  std::string by;
  Failure culprit{ErrorCode::kMtu, "", -1, ""};

  void Limit(uint32_t carried, const std::string& what, int32_t rank, const std::string& switch_name) {
    if (carried >= mtu) return;
    mtu = carried;
    by = what;
    culprit.rank = rank;
    culprit.switch_name = switch_name;
  }
  void LimitByPort(const EngineReport& engine, const PortState& port) {
    if (port.mtu == 0) return;
    Limit(port.mtu < kAroundPayload ? 0 : port.mtu - kAroundPayload,
          fmt::format("the link at {}:{} (MTU {})", engine.name, port.name, port.mtu), -1, engine.name);
  }
  // What was wanted, 0 for the largest. Errors: kMtu, if that is not carried.
  Result<uint32_t> Choose(uint32_t wanted) {
    uint32_t chosen = 0;
    for (const uint32_t possible : kPathMtus) {
      if (possible <= mtu) chosen = possible;
    }
    if (chosen == 0 || wanted > chosen) {
      culprit.message =
          fmt::format("path_mtu: {} is more than {} carries ({})", std::max(wanted, kMinPathMtu), by, chosen);
      return culprit;
    }
    return wanted != 0 ? wanted : chosen;
  }
};

// By the manager's options, the topology and the ranks.
Carried ByAll(const GroupOptions& options, const Topology& topology, const Group& group) {
  Carried carried;
  carried.mtu = std::min(options.max_path_mtu, topology.path_mtu);
  carried.by = fmt::format("the links of topology {}", topology.name);
  for (const auto& [rank, member] : group.members) {
    carried.Limit(member.join.max_path_mtu,
                  fmt::format("host {} (rank {})", topology.nodes[member.host].name, rank),
                  static_cast<int32_t>(rank), "");
  }
  return carried;
}

// None of them is the root after all.
void TakeBack(const std::string& why, std::vector<RootChoice>* choices) {
  for (RootChoice& choice : *choices) {
    if (choice.chosen) choice.why = why;
    choice.chosen = false;
  }
}

// Of the tree that is chosen. offers: before anything was looked for in vain.
void TellMemory(const std::vector<SwitchOffer>& offers, const NetworkWay& way,
                std::vector<RootChoice>* choices) {
  for (RootChoice& choice : *choices) {
    for (size_t i = 0; choice.chosen && i < choice.switches.size(); ++i) {
      Aggregator& aggregator = choice.switches[i];
      if (offers[aggregator.node].arena_bytes == 0) continue;
      aggregator.bytes = way.blocks.empty() ? way.bytes[i] : way.blocks[i].bytes;
      aggregator.room = offers[aggregator.node].room;
    }
  }
}

}  // namespace

// Why a switch has no blocks for a group in this mode; empty if it has.
std::string Placer::LacksBlocks(NodeId node, Mode mode) const {
  if (IsMode(mode) && !MayHaveBlocks(mode))
    return fmt::format("{}: {}", from_.topology.nodes[node].name, NoBlocksIn(mode));
  if (!from_.switches.entry(node).engine.blocks)
    return fmt::format("blocks are not in {}", from_.switches.NameAndVersion(node));
  return {};
}

std::vector<SwitchOffer> Placer::Offers(const GroupSpec& spec, const SwitchModes& modes) const {
  std::vector<SwitchOffer> offers(from_.topology.nodes.size());
  for (const NodeId node : from_.topology.switches) {
    SwitchOffer& offer = offers[node];
    const EngineReport& engine = from_.switches.entry(node).engine;
    const auto own = modes.find(node);
    offer.mode = own == modes.end() ? spec.mode : own->second;
    offer.unusable = from_.switches.Unusable(node, offer.mode);
    offer.lacks = from_.switches.Lacks(node, NeedsOf(spec));
    if (spec.policy == Policy::kTemporal && offer.lacks.empty()) offer.lacks = LacksBlocks(node, offer.mode);
    if (IsInPool(offer.mode) && offer.lacks.empty())
      offer.lacks = from_.switches.LacksPool(node, offer.mode, spec.priority_limit != 0);
    offer.small_payload = spec.path_mtu > engine.max_path_mtu;
    offer.abilities = engine.abilities;
    offer.max_children = engine.max_children;
    offer.groups = from_.load.at(node).groups;
    offer.arena_bytes = engine.arena_bytes;
    if (engine.arena_bytes == 0) continue;
    auto room = from_.tenants.RoomOf(spec.tenant, {node, from_.topology.nodes[node].name, engine.arena_bytes},
                                     from_.load);
    offer.room = room.bytes;
    offer.kept = std::move(room.kept);
  }
  return offers;
}

Result<uint32_t> Placer::PathMtuOf(const Group& group, const NetworkWay& way) const {
  Carried carried = ByAll(from_.options, from_.topology, group);
  for (const TreeInner& inner : way.tree.inner) {
    const EngineReport& engine = from_.switches.entry(inner.node).engine;
    carried.Limit(engine.max_path_mtu, fmt::format("the engine of {}", engine.name), -1, engine.name);
    if (IsInPool(group.spec.mode))
      carried.Limit(
          engine.pool_buffer_bytes / AccumulatorMtus(group.spec),
          fmt::format("the pool of {}, with buffers of {} bytes,", engine.name, engine.pool_buffer_bytes), -1,
          engine.name);
    for (const TreeChild& child : inner.children) {
      if (!child.is_host || !IsInPool(group.spec.mode)) continue;
      for (const auto& [through, port] : PortsTo(inner.node, child.port, group.members.at(child.rank).host))
        carried.LimitByPort(*through, *port);
    }
    for (const PortState& port : engine.ports) {
      const auto uses = [&](const TreeChild& c) {
        return c.port == port.name ||
               (c.is_host && !way.borne.empty() && way.borne[c.rank].ingress_port == port.name);
      };
      if (port.name == inner.parent_port || std::ranges::any_of(inner.children, uses))
        carried.LimitByPort(engine, port);
    }
  }
  return carried.Choose(group.spec.path_mtu);
}

// Switches that only forward do not mind what a payload is.
Result<uint32_t> Placer::PathMtuOf(const Group& group, const Footprint& footprint, uint32_t wanted) const {
  Carried carried = ByAll(from_.options, from_.topology, group);
  for (const auto& [engine, port] : PortsOf(footprint)) carried.LimitByPort(*engine, *port);
  return carried.Choose(wanted);
}

Result<Window> Placer::WindowOf(const Group& group, const Tree& tree, uint32_t path_mtu) const {
  WindowRequest request;
  request.path_mtu = path_mtu;
  request.rate_gbps = tree.rate_gbps;
  request.round_trip_us = 2 * tree.delay_us;
  request.crossings = 2 * tree.depth_links - 1;
  request.window_packets = from_.options.window_packets;
  request.message_packets = group.spec.message_packets;
  request.window_messages = group.spec.window_messages;
  request.max_bytes = group.spec.max_bytes;
  request.inline_bytes = group.spec.inline_bytes.value_or(from_.options.inline_bytes);
  for (const auto& [rank, member] : group.members) {
    const uint32_t packets = member.join.max_outstanding;
    if (packets != 0 && (request.nic_packets == 0 || packets < request.nic_packets))
      request.nic_packets = packets;
  }
  return ChooseWindow(request);
}

// The payload that was asked for is left to PathMtuOf where it can not be had, which names who is in the way.
Result<NetworkWay> Placer::SizesOf(const Group& group, Tree tree,
                                   const std::vector<SwitchOffer>& offers) const {
  NetworkWay way{.tree = std::move(tree)};
  auto borne = ChooseBorne(from_.topology, from_.tables, way.tree, group.spec.mode, HostsOf(group));
  if (!borne.ok()) return borne.failure();
  way.borne = *std::move(borne);
  const auto mtu = PathMtuOf(group, way);
  if (!mtu.ok()) return mtu.failure();
  way.path_mtu = *mtu;
  const auto window = WindowOf(group, way.tree, way.path_mtu);
  if (!window.ok()) return window.failure();
  way.window = *window;
  for (const TreeInner& inner : way.tree.inner) {
    way.bytes.push_back(MemoryOf({.mode = offers[inner.node].mode,
                                  .reproducible = group.spec.reproducible,
                                  .accumulator_mtus = AccumulatorMtus(group.spec),
                                  .path_mtu = way.path_mtu,
                                  .message_packets = way.window.message_packets,
                                  .window_messages = way.window.window_messages,
                                  .slots = way.window.slots,
                                  .children = static_cast<uint32_t>(inner.children.size()),
                                  .has_parent = inner.parent != TreeInner::kNoParent})
                            .bytes());
  }
  return way;
}

// Who has too little memory for a tree is one that lacks something: another tree may do without it. Each turn
// finds at least one more such switch.
Result<NetworkWay> Placer::WayByShortest(const Group& group, std::vector<SwitchOffer> offers,
                                         std::vector<RootChoice>* choices) const {
  const std::vector<NodeId> hosts = HostsOf(group);
  Failure no_room;
  bool names_own = false;  // a switch that hosts of the group hang on
  const auto is_own = [&](NodeId node) {
    return std::ranges::any_of(hosts,
                               [&](NodeId host) { return from_.topology.Attached(host).peer == node; });
  };
  for (;;) {
    std::vector<RootCandidate> candidates;
    auto tree =
        BuildTree(from_.topology, from_.tables, offers, hosts, choices == nullptr ? nullptr : &candidates);
    if (choices != nullptr) *choices = ExplainRoots(from_.topology, offers, candidates);
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
      const Failure failure = NoRoom(from_.topology.nodes[node].name, way->bytes[i], offers[node]);
      // No tree can do without a switch that a host hangs on.
      if (no_room.ok() || (!names_own && is_own(node))) no_room = failure;
      names_own = names_own || is_own(node);
      offers[node].lacks = failure.Brief();
      fits = false;
    }
    if (fits) return way;
  }
}

Result<NetworkWay> Placer::WayByTiers(const Group& group, const std::vector<SwitchOffer>& offers,
                                      std::vector<RootChoice>* choices) const {
  PlaceRequest request{
      .policy = group.spec.policy,
      .prefer = group.spec.prefer == Prefer::kUnspecified ? Prefer::kAuto : group.spec.prefer,
      .rate_kbps = group.spec.rate_kbps,
      .rank_hosts = HostsOf(group),
      .reproducible = group.spec.reproducible,
      .bytes_of = {},
      .share = ShareOf(group.spec),
      .tenant = group.spec.tenant};
  request.bytes_of = [&](const Tree& tree) -> Result<std::vector<uint64_t>> {
    auto way = SizesOf(group, tree, offers);
    if (!way.ok()) return way.failure();
    return std::move(way->bytes);
  };
  auto outcome = Place(from_.topology, from_.load, offers, request, choices);
  if (auto* refusal = std::get_if<Refusal>(&outcome)) return std::move(refusal->failure);
  auto& placed = std::get<Placed>(outcome);
  auto way = SizesOf(group, std::move(placed.tree), offers);
  if (way.ok()) {
    way->width_kbps = placed.width_kbps;
    if (group.spec.policy == Policy::kTemporal) way->blocks = std::move(placed.blocks);
  }
  return way;
}

Result<NetworkWay> Placer::WayOfNetwork(const Group& group, std::vector<RootChoice>* choices) const {
  const GroupSpec& spec = group.spec;
  Failure refused = from_.tenants.Refuses(spec.tenant, spec.rate_kbps, from_.load);
  if (refused.ok()) refused = RefusesMode(spec);
  if (!refused.ok() && choices == nullptr) return refused;
  SwitchModes modes;
  for (const auto& [name, mode] : spec.switch_modes) modes[*from_.topology.FindSwitch(name)] = mode;
  std::vector<SwitchOffer> offers = Offers(spec, modes);
  const bool by_tiers = spec.policy != Policy::kShortest;
  auto way = by_tiers              ? WayByTiers(group, offers, choices)
             : IsInPool(spec.mode) ? WayByOneSwitch(group, std::move(offers), choices)
                                   : WayByShortest(group, std::move(offers), choices);
  if (!refused.ok() && (by_tiers || way.ok())) return refused;
  if (!way.ok()) return way;
  way->modes = std::move(modes);
  for (size_t i = 0; i < way->tree.inner.size(); ++i) {
    const NodeId node = way->tree.inner[i].node;
    if (!way->blocks.empty() && way->blocks[i].joins)
      way->low_bytes[node] = from_.load.at(node).blocks.at(way->blocks[i].number).low_byte;
    for (const PortState& port : from_.switches.entry(node).engine.ports) {
      const auto end = from_.topology.EndAt(node, port.name);
      if (end && port.super_frames) way->super_frame_ports.insert(*end);
    }
  }
  return way;
}

Common Placer::CommonOf(const Group& group) const {
  Common out{.abilities = Abilities::All(), .lacks = {}, .by_switch = {}};
  const Abilities roomless = out.abilities.Within(AccumulatorMtus(group.spec)).Lacking(out.abilities);
  out.abilities = out.abilities.Within(AccumulatorMtus(group.spec));
  for (const TypeInfo& row : kCallerTypes) {
    if (roomless.Has(row.type)) {
      out.lacks.push_back({fmt::format("type {}", row.name), "the types that the group was created for"});
    }
  }
  for (const ContextPlan& context : group.plan.contexts) {
    const Abilities& own = from_.switches.entry(context.node).engine.abilities;
    const Abilities news = own.Lacking(out.abilities);
    const std::string where = from_.switches.NameAndVersion(context.node);
    for (const TypeInfo& row : kDataTypes) {
      if (news.Has(row.type)) out.lacks.push_back({fmt::format("type {}", row.name), where});
    }
    for (const OpInfo& row : kReduceOps) {
      if (news.Has(row.op)) out.lacks.push_back({fmt::format("operation {}", row.name), where});
    }
    out.abilities = out.abilities.With(own);
    if (!news.empty()) out.by_switch.push_back({NamesOf(news), where});
  }
  return out;
}

Placement Placer::Explain(const GroupSpec& spec) const {
  Group group;
  group.spec = spec;
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    Member member;
    member.join.rank = rank;
    member.join.max_path_mtu = from_.options.max_path_mtu;
    member.host = *from_.topology.FindHost(spec.hosts[rank]);
    group.members.emplace(rank, std::move(member));
  }

  Placement out;
  out.policy = spec.policy;
  const auto network = WayOfNetwork(group, &out.roots);
  if (const Failure misplaced = Misplaced(group, ErrorCode::kNoTree); !misplaced.ok()) {
    TakeBack(misplaced.message, &out.roots);
    out.failure = misplaced;
    return out;
  }
  const bool by_hosts = spec.path == Path::kHosts;
  if (network.ok() && !by_hosts) {
    const Tree& tree = network->tree;
    out.path = Path::kNetwork;
    out.root = tree.inner[0].node;
    out.switches = static_cast<uint32_t>(tree.inner.size());
    TellMemory(Offers(spec, network->modes), *network, &out.roots);
    if (network->server) {
      out.server = network->server->host;
      out.server_bytes = network->server->bytes;
      out.server_of_a_rank = network->server->of_a_rank;
    }
    out.mode = spec.mode;
    group.path_taken = Path::kNetwork;
    const auto connect = WayOfHosts(group, network->path_mtu);
    group.hosts_reach = connect.ok() && (spec.path != Path::kNetwork || spec.policy == Policy::kTemporal);
    group.path_reason = connect.ok() ? "path network is asked for" : connect.failure().message;
    group.path_mtu = network->path_mtu;
    out.no_multicast = RefusesMulticastAmong(group).message;
    return out;
  }
  const Failure refused = by_hosts ? Failure{} : network.failure();
  // The tree is there, and is not taken.
  TakeBack(by_hosts ? "path hosts is asked for" : refused.Brief(), &out.roots);
  const auto hosts = spec.path == Path::kNetwork ? Result<HostsWay>(refused) : ChooseHostsWay(group, refused);
  if (!hosts.ok()) {
    out.failure = hosts.failure();
  } else {
    out.path = Path::kHosts;
    group.path_mtu = hosts->path_mtu;
    out.no_multicast = RefusesMulticastAmong(group).message;
    if (out.no_multicast.empty()) out.flooded = WhyFlooded(group);
    out.path_reason = by_hosts ? "asked for by its operator" : refused.Brief();
  }
  return out;
}

}  // namespace epic::manager
