// A link of the paper's tree (appendix L: 2,048 hosts, 384 switches, 5,120 links) goes or comes: what the
// manager takes until the last table that changes is handed to the link to its agent. All agents answer at
// once; times that the manager waits by its clock do not count. `live_graph_bench`.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "incmanager/paper_tree_testing.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"

namespace epic::manager {
namespace {

class Agents : public testing::IdleWorld {
 public:
  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override {
    asked.push_back(node);
    ++tables;
    entries += static_cast<size_t>(table.entries_size());
  }

  std::vector<NodeId> asked;
  size_t tables = 0, entries = 0;
};

void BM_LinkChange(benchmark::State& state) {
  spdlog::set_level(spdlog::level::off);
  const Topology topology = testing::PaperTree();
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
    const proto::RegisterRequest request = testing::RegistrationOf(topology.nodes[node]);
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
    *request.mutable_engine() = testing::EngineOf(topology.nodes[node]);
    request.mutable_engine()->mutable_ports(static_cast<int>(state.range(0)))->set_up(up);
    benchmark::DoNotOptimize(manager.Heartbeat(now, request));
    answer_all();
  }
  state.counters["tables"] =
      benchmark::Counter(static_cast<double>(agents.tables - before), benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_LinkChange)->ArgName("port")->Arg(0)->Arg(8)->Unit(benchmark::kMillisecond);

void BM_ComputeForwarding(benchmark::State& state) {
  const Topology topology = testing::PaperTree();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(ComputeForwarding(topology));
}
BENCHMARK(BM_ComputeForwarding)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epic::manager
