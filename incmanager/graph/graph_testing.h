// What switches report, for tests of the graph.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/graph/graph.h"

namespace epic::manager::testing {

inline Mac MacOf(int number) { return {2, 0, 0, 0, 0, static_cast<uint8_t>(number)}; }
inline Ipv4 AddressOf(int number) { return Ipv4{0x0a0a0000u + static_cast<uint32_t>(number)}; }

// What the engines of a few switches report; s1 is number 1.
class Reports {
 public:
  explicit Reports(Topology stated = {.name = "found", .path_mtu = 4096, .discovery = true})
      : graph(std::move(stated)) {}

  // The ports of s1 are p1 to p4.
  void Register(int number) {
    EngineReport& report = engines_[number];
    report.name = "s" + std::to_string(number);
    report.address = AddressOf(200 + number);
    report.mac = MacOf(200 + number);
    for (int i = 1; i <= 4; ++i)
      report.ports.push_back({.name = "p" + std::to_string(i), .mtu = 4200, .up = true});
    EXPECT_TRUE(graph.Admit(report, false).ok());
    Tell(number);
  }
  PortState& Port(int number, int port) { return engines_[number].ports[static_cast<size_t>(port) - 1]; }
  EngineReport& Engine(int number) { return engines_[number]; }
  void Tell(int number) {
    now += Graph::kUpdateEvery;
    graph.OnReport(now, *graph.topology().FindSwitch(engines_[number].name), engines_[number]);
    graph.Follow(now);
  }
  void TellAll() {
    for (const auto& [number, engine] : engines_) Tell(number);
  }
  // One end hears the other.
  void Hear(int number, int port, int other, int other_port) {
    Port(number, port).neighbours = {{.kind = NeighbourKind::kSwitch,
                                      .name = "s" + std::to_string(other),
                                      .port = "p" + std::to_string(other_port),
                                      .ip = AddressOf(200 + other),
                                      .mac = MacOf(200 + other)}};
  }
  void Join(int number, int port, int other, int other_port) {
    Hear(number, port, other, other_port);
    Hear(other, other_port, number, port);
  }
  void SeeHost(int number, int port, int host) {
    Port(number, port)
        .neighbours.push_back({.kind = NeighbourKind::kHost,
                               .ip = AddressOf(host),
                               .mac = MacOf(host),
                               .heard_by = HeardBy::kArp});
  }
  std::vector<std::string> Events() {
    std::vector<std::string> texts;
    for (const GraphEvent& event : graph.TakeEvents()) texts.push_back(event.text);
    return texts;
  }
  // "s1:p1 s2:p1", of those in this state.
  std::vector<std::string> Links(LinkState state = LinkState::kUp) const {
    std::vector<std::string> links;
    const Topology& topology = graph.topology();
    for (NodeId id = 0; id < topology.nodes.size(); ++id) {
      for (uint32_t i = 0; i < topology.nodes[id].hops.size(); ++i) {
        const LinkEnd there = topology.Across({id, i});
        if (topology.nodes[id].is_host || (topology.IsSwitch(there.node) && there < LinkEnd{id, i})) continue;
        if (topology.nodes[id].hops[i].state == state)
          links.push_back(topology.Describe({id, i}) + " " + topology.Describe(there));
      }
    }
    std::ranges::sort(links);
    return links;
  }

  Graph graph;
  Nanos now = kSecond;

 private:
  std::map<int, EngineReport> engines_;
};

inline constexpr const char* kPinned = R"(name: pinned
path_mtu: 4096
discovery: true
switches:
  - {name: s1, address: 10.10.0.201, mac: "02:00:00:00:00:c9"}
  - {name: s2, address: 10.10.0.202, mac: "02:00:00:00:00:ca"}
links:
  - {a: "s1:p1", b: "s2:p1"}
forbid:
  - s4
  - s1:p4
)";

}  // namespace epic::manager::testing
