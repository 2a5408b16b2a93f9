// The largest path MTU that everything on a group's way carries, and who carries no more.
#include <fmt/format.h>

#include <algorithm>

#include "base/path_mtu.h"
#include "incmanager/groups/group_table.h"

namespace epic::manager {
namespace {

// IPv4, UDP, BTH, immediate and ICRC around the payload.
constexpr uint32_t kHeaderBytes = 20 + 8 + 12 + 4 + 4;

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
    Limit(port.mtu < kHeaderBytes ? 0 : port.mtu - kHeaderBytes,
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

}  // namespace

Result<uint32_t> GroupTable::ChoosePathMtu(const Group& group, const Tree& tree,
                                           const std::vector<Borne>& borne) const {
  Carried carried = ByAll(options_, *topology_, group);
  for (const TreeInner& inner : tree.inner) {
    const EngineReport& engine = switches_->entry(inner.node).engine;
    carried.Limit(engine.max_path_mtu, fmt::format("the engine of {}", engine.name), -1, engine.name);
    for (const PortState& port : engine.ports) {
      const bool used = port.name == inner.parent_port ||
                        std::any_of(inner.children.begin(), inner.children.end(),
                                    [&](const TreeChild& c) {
                                      return c.port == port.name || (c.is_host && !borne.empty() &&
                                                                     borne[c.rank].ingress_port == port.name);
                                    });
      if (used) carried.LimitByPort(engine, port);
    }
  }
  return carried.Choose(group.spec.path_mtu);
}

// Switches that only forward do not mind what a payload is.
Result<uint32_t> GroupTable::ChooseHostsMtu(const Group& group, const Footprint& footprint,
                                            uint32_t wanted) const {
  Carried carried = ByAll(options_, *topology_, group);
  for (const LinkEnd& link : footprint.links) {
    for (const LinkEnd& end : {link, topology_->Across(link)}) {
      if (!topology_->IsSwitch(end.node)) continue;
      const EngineReport& engine = switches_->entry(end.node).engine;
      const auto port =
          std::ranges::find(engine.ports, topology_->nodes[end.node].hops[end.hop].port, &PortState::name);
      if (port != engine.ports.end()) carried.LimitByPort(engine, *port);
    }
  }
  return carried.Choose(wanted);
}

}  // namespace epic::manager
