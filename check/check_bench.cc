// What the exhaustive exploration costs: `check_bench`.
#include <benchmark/benchmark.h>

#include <string>

#include "check/explorer.h"
#include "check/setup.h"
#include "sim/choices.h"

namespace epic::check {
namespace {

// An AllReduce on four hosts below two leaves, and a loss.
Setup SetupOf(int64_t mode, int64_t messages) {
  return {.mode = std::to_string(mode), .messages = static_cast<uint32_t>(messages), .faults = {.losses = 1}};
}

void Explored(benchmark::State& state, const Setup& setup, const ExploreOptions& options) {
  Progress last;
  uint64_t states = 0;
  for ([[maybe_unused]] auto _ : state) {
    Model model(*Build(setup), BoundsOf(setup));
    const Report report = Explore(model, options);
    if (report.verdict != Verdict::kRight) state.SkipWithError("not right");
    last = report.progress;
    states += last.states;
  }
  state.counters["states"] = static_cast<double>(last.states);
  state.counters["states/s"] = benchmark::Counter(static_cast<double>(states), benchmark::Counter::kIsRate);
  state.counters["bytes/state"] = static_cast<double>(last.bytes) / static_cast<double>(last.states);
}

// Arguments: mode, messages.
void BM_Reduced(benchmark::State& state) { Explored(state, SetupOf(state.range(0), state.range(1)), {}); }
BENCHMARK(BM_Reduced)->ArgsProduct({{2, 3}, {1, 2}})->Unit(benchmark::kMillisecond);

// On three hosts below one switch; arguments: mode, partial-order reduction, symmetry.
void BM_Reductions(benchmark::State& state) {
  Setup setup = SetupOf(state.range(0), 2);
  setup.topology = "star-3";
  Explored(state, setup, {.reduced = state.range(1) != 0, .symmetric = state.range(2) != 0});
}
BENCHMARK(BM_Reductions)->ArgsProduct({{2, 3}, {0, 1}, {0, 1}})->Unit(benchmark::kMillisecond);

// Steps of the real code: loading a node's state, the step, saving. None of a new model has been made before,
// so walks by chance in many new models make mostly such; the argument is the mode.
void BM_Steps(benchmark::State& state) {
  const Setup setup = SetupOf(state.range(0), 2);
  const SystemConfig config = *Build(setup);
  sim::Choices choices(1);
  std::vector<Action> actions;
  size_t steps = 0;
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    Model model(config, BoundsOf(setup));
    std::vector<Word> at = model.Initial();
    model.Enabled(at, false, &actions);
    state.ResumeTiming();
    while (!actions.empty()) {
      if (model.Apply(at, actions[choices.Below(actions.size())]) != nullptr)
        state.SkipWithError("not right");
      model.Enabled(at, false, &actions);
    }
    steps += model.sizes().steps;
  }
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Steps)
    ->DenseRange(1, static_cast<int64_t>(kModesOfOwnMemory.size()))
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace epic::check
