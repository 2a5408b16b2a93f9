// Any text as a topology. What is refused is INVALID_ARGUMENT and says where; what is accepted keeps what
// topology.h promises, and forwarding tables and a tree can be computed from it.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

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
    const Hop& back = topology.nodes[hop.peer].hops.at(hop.peer_hop);
    EPIC_CHECK(back.peer == id && &node.hops.at(back.peer_hop) == &hop);
  }
}

void Run(const std::string& text) {
  const StatusOr<Topology> topology = ParseTopology(text, "file");
  if (!topology.ok()) {
    EPIC_CHECK(topology.status().code() == StatusCode::kInvalidArgument);
    EPIC_CHECK(std::string(topology.status().message()).starts_with("file:"));
    return;
  }
  EPIC_CHECK(topology->switches.size() >= 1 && topology->switches.size() < topology->nodes.size());
  for (NodeId id = 0; id < topology->nodes.size(); ++id) CheckNode(*topology, id);
  const std::vector<Forwarding> tables = ComputeForwarding(*topology);
  EPIC_CHECK(tables.size() == topology->nodes.size());
  std::vector<NodeId> hosts;
  for (auto id = static_cast<NodeId>(topology->switches.size()); id < topology->nodes.size(); ++id)
    hosts.push_back(id);
  const auto tree = BuildTree(*topology, tables, std::vector<SwitchOffer>(topology->switches.size()), hosts);
  if (tree.ok()) {
    EPIC_CHECK(!tree->inner.empty() && tree->inner[0].parent == TreeInner::kNoParent);
  } else {
    EPIC_CHECK(!tree.failure().ok() && !tree.failure().message.empty());
  }
}

// A word or a line put in another's place: names, ports and addresses that occur twice, keys that are
// missing.
std::string Rearranged(std::string text, unsigned seed) {
  std::minstd_rand random(seed);
  const bool lines = random() % 4 == 0;
  const char* const ends = lines ? "\n" : " \n\t{}[],\"";
  std::vector<std::string> parts;  // every second one is what stands between the others
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(ends, begin), text.size());
    const size_t next = std::min(text.find_first_not_of(ends, end), text.size());
    parts.push_back(text.substr(begin, end - begin));
    parts.push_back(text.substr(end, next - end));
    begin = next;
  }
  if (parts.empty()) return text;
  const auto any = [&] { return random() % (parts.size() / 2) * 2; };
  const size_t to = any();
  size_t from = any();
  // Mostly by one of its kind.
  for (int i = 0; i < 16 && parts[from].substr(0, 1) != parts[to].substr(0, 1); ++i) from = any();
  const auto how = random() % 8;
  if (how < 2) {
    parts[to] = how == 0 ? "" : parts[to] + parts[to + 1] + parts[from];
  } else {
    parts[to] = parts[from];
  }
  text.clear();
  for (const std::string& part : parts) text += part;
  return text;
}

}  // namespace
}  // namespace epic::manager

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 3 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = epic::manager::Rearranged({reinterpret_cast<const char*>(data), size}, seed);
  const size_t kept = std::min(text.size(), max_size);
  std::copy_n(text.begin(), kept, data);
  return kept;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > epic::manager::kMaxBytes) return 0;
  epic::manager::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
