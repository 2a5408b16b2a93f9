// Any text as a topology. What is refused is INVALID_ARGUMENT and says where; what is accepted keeps what
// topology.h promises, and forwarding tables and a tree can be computed from it.
#include <algorithm>
#include <set>
#include <string>

#include "base/check.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/tree.h"
#include "incmanager/topology.h"

namespace epic::manager {
namespace {

constexpr size_t kMaxBytes = 4096;

void CheckNode(const Topology& topology, NodeId id) {
  const Node& node = topology.nodes[id];
  EPIC_CHECK(node.is_host == !topology.IsSwitch(id) && Raw(node.address) != 0 && (node.mac[0] & 1) == 0);
  EPIC_CHECK(topology.FindNode(node.name) == id);
  EPIC_CHECK(!node.is_host || (node.hops.size() == 1 && topology.FindHostByAddress(node.address) == id));
  std::set<std::string> ports;
  for (const Hop& hop : node.hops) {
    EPIC_CHECK(hop.peer < topology.nodes.size() && hop.peer != id && hop.rate_gbps >= 0 && hop.delay_us >= 0);
    EPIC_CHECK(node.is_host == hop.port.empty() && ports.insert(hop.port).second);
    EPIC_CHECK(std::ranges::count(topology.nodes[hop.peer].hops, id, &Hop::peer) ==
               std::ranges::count(node.hops, hop.peer, &Hop::peer));
  }
}

void Run(const std::string& text) {
  const StatusOr<Topology> topology = ParseTopology(text, "file");
  if (!topology.ok()) {
    EPIC_CHECK(topology.status().code() == StatusCode::kInvalidArgument);
    EPIC_CHECK(std::string(topology.status().message()).starts_with("file:"));
    return;
  }
  EPIC_CHECK(topology->switch_count >= 1 && topology->switch_count < topology->nodes.size());
  for (NodeId id = 0; id < topology->nodes.size(); ++id) CheckNode(*topology, id);
  const std::vector<Forwarding> tables = ComputeForwarding(*topology);
  EPIC_CHECK(tables.size() == topology->switch_count);
  std::vector<NodeId> hosts;
  for (NodeId id = topology->switch_count; id < topology->nodes.size(); ++id) hosts.push_back(id);
  const auto tree = BuildTree(*topology, tables, std::vector<SwitchOffer>(topology->switch_count), hosts);
  if (const auto* built = std::get_if<Tree>(&tree)) {
    EPIC_CHECK(!built->inner.empty() && built->inner[0].parent == TreeInner::kNoParent);
  } else {
    EPIC_CHECK(!std::get<Failure>(tree).ok() && !std::get<Failure>(tree).message.empty());
  }
}

}  // namespace
}  // namespace epic::manager

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > epic::manager::kMaxBytes) return 0;
  epic::manager::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
