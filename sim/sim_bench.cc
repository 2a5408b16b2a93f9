// What the virtual-time world costs: `sim_bench`. A run is one seed of epic-sim.
#include <benchmark/benchmark.h>

#include <string>

#include "sim/scenario.h"
#include "sim/trial.h"

namespace epic::sim {
namespace {

// Consecutive seeds; what the scenario leaves open they go through.
void RunSeeds(benchmark::State& state, Scenario scenario) {
  scenario.seed = 0;
  Counts counts;
  for ([[maybe_unused]] auto _ : state) {
    ++scenario.seed;
    const Outcome outcome = RunTrial(*Complete(scenario));
    if (outcome.verdict != Verdict::kRight) state.SkipWithError("a run was not right");
    counts += outcome.counts;
  }
  state.counters["seeds"] = benchmark::Counter(static_cast<double>(counts.runs), benchmark::Counter::kIsRate);
  state.counters["packets"] =
      benchmark::Counter(static_cast<double>(counts.packets), benchmark::Counter::kIsRate);
}

void BM_AllSeeds(benchmark::State& state) { RunSeeds(state, {}); }
// Ten rounds of all combinations.
BENCHMARK(BM_AllSeeds)->Iterations(2600)->Unit(benchmark::kMillisecond);

// The argument is the mode.
void BM_Quiet(benchmark::State& state) {
  RunSeeds(state, {.topology = "tree-7-2", .mode = std::to_string(state.range(0)), .name = "quiet"});
}
BENCHMARK(BM_Quiet)->DenseRange(1, 3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epic::sim
