// epic-check: explores every schedule of a small configuration over the code that ships.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "check/explorer.h"
#include "sim/scenario.h"

int main(int argc, char** argv) {
  using namespace epic;  // NOLINT
  using namespace epic::check;  // NOLINT
  std::string topology = "tree-3-2", mode = "2", collective = "allreduce";
  int messages = 1;
  uint32_t window = 2, m = 1;
  FaultBounds bounds;
  bool full = false;
  CLI::App app;
  app.add_option("--topology", topology);
  app.add_option("--mode", mode);
  app.add_option("--collective", collective);
  app.add_option("--messages", messages);
  app.add_option("--window", window);
  app.add_option("--losses", bounds.losses);
  app.add_option("--duplicates", bounds.duplicates);
  app.add_option("--reorderings", bounds.reorderings);
  app.add_option("--timeouts", bounds.timeouts);
  app.add_flag("--full", full);
  CLI11_PARSE(app, argc, argv);
  SystemConfig config;
  config.tree = *sim::TopologyNamed(topology);
  sim::Choices choices(1);
  config.mode = sim::ModesNamed(mode, config.tree, choices);
  config.window_messages = window;
  config.message_packets = m;
  ControlHeader h;
  h.type = DataType::kInt32;
  h.op = ReduceOp::kSum;
  h.count = static_cast<uint64_t>(messages) * 64;
  if (collective == "allreduce") h.collective = Collective::kAllReduce;
  if (collective == "reduce") h.collective = Collective::kReduce;
  if (collective == "broadcast") { h.collective = Collective::kBroadcast; h.op = ReduceOp::kNone; }
  if (collective == "barrier") h = ControlHeader{};
  config.calls = {h};
  System system(config);
  Model model(system, bounds);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  ExploreOptions options;
  options.reduced = !full;
  options.on_progress = [&](const Progress& p) {
    fmt::print(stderr, "\r{} states, {} transitions, depth {}, {:.0f}/s, {} MB   ", p.states, p.transitions, p.depth, static_cast<double>(p.states)/seconds(), p.bytes >> 20);
    return true;
  };
  Report r = Explore(model, options);
  fmt::print("\nverdict {} {}\nstates {} transitions {} depth {} finals {} {:x} time {:.2f} s, {} MB, omission {:.2g}\nnode states {} ({} bytes) packets {} channels {} steps {}\n",
    Name(r.verdict), r.violation, r.progress.states, r.progress.transitions, r.progress.depth, r.final_states, r.final_fingerprint, seconds(), r.progress.bytes>>20, r.omission_bound,
    r.sizes.node_states, r.sizes.node_bytes, r.sizes.packets, r.sizes.channels, r.sizes.steps);
  auto state = model.Initial();
  for (size_t i = 0; i < r.path.size(); ++i) {
    fmt::print("{:3} {}\n", i + 1, model.Describe(state, r.path[i]));
    model.Apply(state, r.path[i]);
  }
  return r.verdict == Verdict::kRight ? 0 : 1;
}
