#include "check/symmetry.h"

#include <algorithm>
#include <numeric>

#include "check/snapshot.h"
#include "check/tree_modes.h"
#include "incengine/modes/table.h"

namespace epic::check {
namespace {

int ParentOf(const System& system, int node) { return system.edges()[static_cast<size_t>(node - 1)].parent; }

// Carries the places of the hosts up the tree. False if a switch would have to be in two places, or in one of
// another mode.
bool CarryUp(const System& system, Relabelling& to) {
  for (int node = system.nodes() - 1; node > 0; --node) {
    const int parent = ParentOf(system, node);
    const int image = to[static_cast<size_t>(node)];
    if (image <= 0 || system.is_host(image) != system.is_host(node)) return false;
    int& place = to[static_cast<size_t>(parent)];
    if (place >= 0 && place != ParentOf(system, image)) return false;
    place = ParentOf(system, image);
  }
  const auto mode = [&](int s) { return system.config().mode.At(static_cast<size_t>(s)); };
  for (int s = 0; s < system.switches(); ++s) {
    const int image = to[static_cast<size_t>(s)];
    if (image < 0 || mode(s) != mode(image) || system.ports(s) != system.ports(image)) return false;
  }
  return to[0] == 0;
}

bool HasSymmetry(const System& system) {
  // By their numbers ranks are in different places of the ring and of the cube.
  if (system.by_hosts() || system.groups() > 1 || system.has_pool() || !ChildrenAreAlike(ModesOf(system))) return false;
  // Relabelled packets are data from their first byte on.
  return std::ranges::none_of(system.config().calls, [](const ControlHeader& call) {
    return HasPartPerRank(call.collective) || IsInlined(call);
  });
}

bool KeepsRoots(const System& system, const std::vector<int>& hosts) {
  return std::ranges::all_of(system.config().calls, [&](const ControlHeader& call) {
    const bool rooted = call.collective == Collective::kReduce || call.collective == Collective::kBroadcast;
    return !rooted || hosts[call.root] == system.switches() + static_cast<int>(call.root);
  });
}

}  // namespace

std::vector<Relabelling> Symmetries(const System& system) {
  Relabelling identity(static_cast<size_t>(system.nodes()));
  std::iota(identity.begin(), identity.end(), 0);
  if (!HasSymmetry(system)) return {identity};
  std::vector<Relabelling> found;
  std::vector<int> hosts(identity.begin() + system.switches(), identity.end());
  do {
    if (!KeepsRoots(system, hosts)) continue;
    Relabelling to(identity.size(), -1);
    std::ranges::copy(hosts, to.begin() + system.switches());
    if (CarryUp(system, to)) found.push_back(std::move(to));
    if (found.size() > kMostRelabellings) return {identity};
  } while (std::ranges::next_permutation(hosts).found);
  return found;
}

}  // namespace epic::check

namespace epic {

void Snapshot::Relabel(engine::Engine& engine, uint64_t group_id, std::span<const size_t> becomes,
                       const std::function<void(std::span<uint8_t>)>& data) {
  engine::Context& ctx = engine.groups_.at(group_id);
  const std::vector<engine::Endpoint> before = ctx.children;
  for (size_t c = 0; c < before.size(); ++c) {
    engine::Endpoint& place = ctx.children[becomes[c]];
    const engine::Endpoint own = before[becomes[c]];
    place = before[c];
    place.config = own.config;
    place.udp_src_port = own.udp_src_port;
  }
  const auto children = [&](uint64_t& bits) {
    uint64_t moved = 0;
    for (size_t c = 0; c < becomes.size(); ++c) moved |= (bits >> c & 1) << becomes[c];
    bits = moved;
  };
  for (engine::ControlSlot& slot : ctx.control) children(slot.arrived);
  const size_t n = ctx.config.slots;
  const auto all = engine.arena_.At(ctx.arena_offset, ctx.arena_bytes);
  const ContextMemory memory = engine::MemoryOf(ctx.config);
  for (const Pipe& pipe : memory.pipes()) {
    for (size_t i = 0; i < n; ++i) {
      auto* const slot = reinterpret_cast<engine::Slot*>(all.data() + pipe.at + i * sizeof(engine::Slot));
      if (slot->index < 0) continue;
      children(slot->arrived);
      data(all.subspan(pipe.payloads_at + i * pipe.payload_bytes, pipe.payload_bytes));
    }
  }
}

}  // namespace epic
