// A link of the paper's tree (appendix L: 2,048 hosts, 384 switches, 5,120 links) goes or comes: what the
// manager takes until the last table that changes is handed to the link to its agent. All agents answer at
// once; times that the manager waits by its clock do not count. `live_graph_bench`.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/rpc/manager_state.h"

namespace epic::manager {
namespace {

constexpr int kPods = 16, kLeaves = 8, kHosts = 16, kCoresOfSpine = 16;

// 16 pods of 8 leaves and 8 spines; each spine has 16 cores.
Topology PaperTree() {
  Topology topology{.name = "paper", .path_mtu = 4096};
  const auto add = [&](const std::string& name, bool is_host) {
    const auto id = static_cast<uint32_t>(topology.nodes.size());
    topology.nodes.push_back({.name = name,
                              .is_host = is_host,
                              .address = Ipv4{0x0a000001 + id},
                              .mac = {2, 0, 0, 0, static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)}});
    if (!is_host) topology.switches.push_back(id);
    return id;
  };
  const auto link = [&](NodeId a, NodeId b) {
    const auto hop = [&](NodeId at) {
      const Node& node = topology.nodes[at];
      return Hop{.port = node.is_host ? "" : fmt::format("swp{}", node.hops.size() + 1),
                 .rate_gbps = 100,
                 .delay_us = 1,
                 .line = 1};
    };
    topology.Link(a, hop(a), b, hop(b));
  };
  std::vector<NodeId> cores, spines, leaves;
  for (int i = 0; i < kLeaves * kCoresOfSpine; ++i) cores.push_back(add(fmt::format("core{}", i), false));
  for (int i = 0; i < kPods * kLeaves; ++i) spines.push_back(add(fmt::format("spine{}", i), false));
  for (int i = 0; i < kPods * kLeaves; ++i) leaves.push_back(add(fmt::format("leaf{}", i), false));
  for (int pod = 0; pod < kPods; ++pod) {
    for (int i = 0; i < kLeaves; ++i) {
      const NodeId spine = spines[static_cast<size_t>(pod * kLeaves + i)];
      for (int j = 0; j < kLeaves; ++j) link(spine, leaves[static_cast<size_t>(pod * kLeaves + j)]);
      for (int j = 0; j < kCoresOfSpine; ++j) link(cores[static_cast<size_t>(i * kCoresOfSpine + j)], spine);
    }
  }
  for (int i = 0; i < kPods * kLeaves * kHosts; ++i)
    link(leaves[static_cast<size_t>(i / kHosts)], add(fmt::format("h{}", i), true));
  return topology;
}

class Agents : public ManagerWorld {
 public:
  void Send(SessionId, const proto::ServerMessage&, bool) override {}
  void SetAgent(NodeId, const std::string&) override {}
  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override {
    asked.push_back(node);
    ++tables;
    entries += static_cast<size_t>(table.entries_size());
  }
  void Install(NodeId, const proto::GroupConfig&) override {}
  void Fail(NodeId, uint64_t, uint32_t) override {}
  void Remove(NodeId, uint64_t, uint32_t) override {}
  void Probe(NodeId, NodeId, const proto::ProbeRequest&) override {}
  void Locate(NodeId, const proto::LocateRequest&) override {}

  std::vector<NodeId> asked;
  size_t tables = 0, entries = 0;
};

proto::EngineInfo Describe(const Node& node) {
  proto::EngineInfo info;
  info.set_name(node.name);
  info.set_address(Raw(node.address));
  info.set_mac(std::string(node.mac.begin(), node.mac.end()));
  info.set_boot_id(1);
  for (const Hop& hop : node.hops) {
    proto::PortInfo* port = info.add_ports();
    port->set_name(hop.port);
    port->set_up(true);
  }
  return info;
}

void BM_LinkChange(benchmark::State& state) {
  spdlog::set_level(spdlog::level::off);
  const Topology topology = PaperTree();
  Agents agents;
  ManagerState manager(topology, {}, 1, 1, &agents);
  Nanos now = kSecond;
  const auto answer_all = [&] {
    while (!agents.asked.empty()) {
      for (const NodeId node : std::exchange(agents.asked, {}))
        manager.OnForwardingSet(now, node, absl::OkStatus());
      if (!agents.asked.empty()) continue;
      now += TableUpdate::kDrain;  // frames arrive
      manager.Tick(now);
    }
  };
  for (const NodeId node : topology.switches) {
    proto::RegisterRequest request;
    request.set_name(topology.nodes[node].name);
    request.set_agent_address("10.0.0.1:7401");
    *request.mutable_engine() = Describe(topology.nodes[node]);
    if (!manager.Register(now, request).ok()) return state.SkipWithError("refused");
  }
  answer_all();
  // The first link of a spine leads to a leaf, its ninth to a core.
  const NodeId node = topology.switches[128];
  bool up = true;
  const size_t before = agents.tables;
  for ([[maybe_unused]] auto _ : state) {
    up = !up;
    now += kSecond;
    proto::HeartbeatRequest request;
    request.set_name(topology.nodes[node].name);
    request.set_epoch(1);
    request.set_engine_up(true);
    *request.mutable_engine() = Describe(topology.nodes[node]);
    request.mutable_engine()->mutable_ports(static_cast<int>(state.range(0)))->set_up(up);
    benchmark::DoNotOptimize(manager.Heartbeat(now, request));
    answer_all();
  }
  state.counters["tables"] =
      benchmark::Counter(static_cast<double>(agents.tables - before), benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_LinkChange)->ArgName("port")->Arg(0)->Arg(8)->Unit(benchmark::kMillisecond);

void BM_ComputeForwarding(benchmark::State& state) {
  const Topology topology = PaperTree();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(ComputeForwarding(topology));
}
BENCHMARK(BM_ComputeForwarding)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epic::manager
