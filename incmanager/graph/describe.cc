#include "incmanager/graph/describe.h"

#include <fmt/format.h>

#include <set>
#include <vector>

namespace epic::manager {
namespace {

// As a scalar in double quotes.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    byte < 0x20 || byte == 0x7f ? quoted += fmt::format("\\x{:02x}", byte) : quoted += c;
  }
  return quoted + '"';
}

class Writer {
 public:
  Writer(const Topology& topology, const std::function<bool(LinkEnd)>& has_carriers)
      : topology_(topology), has_carriers_(has_carriers) {}

  std::string Write() {
    // Of two at one port that which is up.
    for (const LinkState state : {LinkState::kUp, LinkState::kDown}) {
      for (const NodeId id : topology_.switches) {
        for (uint32_t i = 0; i < topology_.nodes[id].hops.size(); ++i) {
          if (topology_.nodes[id].hops[i].state == state) Take({id, i});
        }
      }
    }
    std::string switches;
    std::string hosts;
    std::string links;
    for (NodeId id = 0; id < topology_.nodes.size(); ++id) {
      const Node& node = topology_.nodes[id];
      if (Raw(node.address) == 0) continue;
      if (!node.is_host) {
        switches += LineOf(node);
        for (uint32_t i = 0; i < node.hops.size(); ++i) links += LineOf({id, i});
      } else if (taken_.contains(topology_.Across(topology_.AttachedEnd(id)))) {
        hosts += LineOf(node);
      } else if (topology_.Attached(id).state != LinkState::kGone) {
        hosts += "  # another is at that port, too:\n  #" + LineOf(node).substr(1);
      }
    }
    std::string forbidden;
    for (const Forbidden& entry : topology_.forbidden)
      forbidden += "  - " + Quoted(entry.port.empty() ? entry.node : entry.node + ":" + entry.port) + "\n";
    return fmt::format("name: {}\npath_mtu: {}\n{}", Quoted(topology_.name), topology_.path_mtu,
                       topology_.discovery ? "discovery: true\n" : "") +
           List("switches", switches) + List("hosts", hosts) + List("links", links) +
           List("forbid", forbidden);
  }

 private:
  static std::string List(const char* key, const std::string& lines) {
    return lines.empty() ? "" : fmt::format("{}:\n{}", key, lines);
  }

  void Take(LinkEnd end) {
    const LinkEnd there = topology_.Across(end);
    if (Raw(topology_.nodes[there.node].address) == 0) return;
    if (topology_.IsSwitch(there.node) && there < end) return;
    std::vector<std::string> ports{topology_.Describe(end)};
    if (topology_.IsSwitch(there.node)) ports.push_back(topology_.Describe(there));
    for (const std::string& port : ports) {
      if (ports_.contains(port)) return;
    }
    ports_.insert(ports.begin(), ports.end());
    taken_.insert(end);
  }

  static std::string LineOf(const Node& node) {
    return fmt::format("  - {{name: {}, address: {}, mac: \"{}\"{}}}\n", Quoted(node.name),
                       ToString(node.address), ToString(node.mac),
                       node.is_host && !node.source_guard ? ", source_guard: false" : "");
  }

  std::string LineOf(LinkEnd end) const {
    const LinkEnd there = topology_.Across(end);
    const Hop& hop = topology_.nodes[end.node].hops[end.hop];
    const Hop& back = topology_.nodes[there.node].hops[there.hop];
    const bool shown = hop.state != LinkState::kGone && Raw(topology_.nodes[there.node].address) != 0 &&
                       !(topology_.IsSwitch(there.node) && there < end);
    if (!shown) return "";
    std::string more = fmt::format(", rate_gbps: {:g}, delay_us: {:g}", hop.rate_gbps, hop.delay_us);
    if (hop.next_hop_mac) more += fmt::format(", a_next_hop_mac: \"{}\"", ToString(*hop.next_hop_mac));
    if (back.next_hop_mac) more += fmt::format(", b_next_hop_mac: \"{}\"", ToString(*back.next_hop_mac));
    if (hop.port_security) more += ", port_security: true";
    return fmt::format("  {}- {{a: {}, b: {}{}}}{}\n", taken_.contains(end) ? "" : "# ",
                       Quoted(topology_.Describe(end)), Quoted(topology_.Describe(there)), more,
                       hop.state == LinkState::kDown ? "  # " + WhyDown(end) : "");
  }

  // A carrier that is back does not say who is behind it.
  std::string WhyDown(LinkEnd end) const {
    return has_carriers_(end) ? "there is a carrier, and nobody has been heard yet" : "down";
  }

  const Topology& topology_;
  const std::function<bool(LinkEnd)>& has_carriers_;
  std::set<LinkEnd> taken_;  // links that the file has, by the switch's end, or the one that compares less
  std::set<std::string> ports_;  // of these
};

}  // namespace

std::string ToYaml(const Topology& topology, const std::function<bool(LinkEnd end)>& has_carriers) {
  return Writer(topology, has_carriers).Write();
}

}  // namespace epic::manager
