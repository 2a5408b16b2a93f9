#include "incmanager/graph/describe.h"

#include <fmt/format.h>

namespace epic::manager {

std::string ToYaml(const Topology& topology) {
  std::string switches = "switches:\n";
  std::string hosts = "hosts:\n";
  std::string links = "links:\n";
  for (NodeId id = 0; id < topology.nodes.size(); ++id) {
    const Node& node = topology.nodes[id];
    (node.is_host ? hosts : switches) +=
        fmt::format("  - {{name: \"{}\", address: {}, mac: \"{}\"{}}}\n", node.name, ToString(node.address),
                    ToString(node.mac), node.is_host && !node.source_guard ? ", source_guard: false" : "");
    if (node.is_host) continue;
    for (uint32_t i = 0; i < node.hops.size(); ++i) {
      const Hop& hop = node.hops[i];
      const LinkEnd there = topology.Across({id, i});
      if (hop.state == LinkState::kGone || (topology.IsSwitch(there.node) && there < LinkEnd{id, i}))
        continue;
      const Hop& back = topology.nodes[there.node].hops[there.hop];
      std::string more = fmt::format(", rate_gbps: {:g}, delay_us: {:g}", hop.rate_gbps, hop.delay_us);
      if (hop.next_hop_mac) more += fmt::format(", a_next_hop_mac: \"{}\"", ToString(*hop.next_hop_mac));
      if (back.next_hop_mac) more += fmt::format(", b_next_hop_mac: \"{}\"", ToString(*back.next_hop_mac));
      if (hop.port_security) more += ", port_security: true";
      links += fmt::format("  - {{a: \"{}\", b: \"{}\"{}}}{}\n", topology.Describe({id, i}),
                           topology.Describe(there), more, hop.state == LinkState::kDown ? "  # down" : "");
    }
  }
  return fmt::format("name: \"{}\"\npath_mtu: {}\n{}{}{}", topology.name, topology.path_mtu, switches, hosts,
                     links);
}

}  // namespace epic::manager
