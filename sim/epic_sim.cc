// epic-sim: runs scenarios in the virtual-time world, and replays the ones that failed.
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/command_line.h"
#include "base/number.h"
#include "protocol/modes.h"
#include "sim/many_seeds.h"
#include "sim/restarts/restarts_trial.h"
#include "sim/scenario.h"
#include "sim/trial.h"

namespace {

using epic::sim::Counts;
using epic::sim::Scenario;

constexpr int kRight = 0;
constexpr int kViolation = 1;
constexpr int kUsage = 2;
constexpr long kMostJobs = 256;

struct Options {
  Scenario scenario;
  std::string replay;
  std::string seeds;
  std::string trace;
  int jobs = static_cast<int>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, kMostJobs));
};

int Usage(const std::string& message) {
  fmt::print(stderr, "epic-sim: {}\nTry epic-sim run --help.\n", message);
  return kUsage;
}

std::string HowToReplay(const Scenario& scenario) {
  return fmt::format("epic-sim run --replay '{}'", ReplayLine(scenario));
}

// One run, in this process.
int RunHere(const Scenario& scenario, const std::string& trace_path) {
  std::FILE* const file = trace_path == "-"    ? stdout
                          : trace_path.empty() ? nullptr
                                               : std::fopen(trace_path.c_str(), "w");
  if (file == nullptr && !trace_path.empty())
    return Usage(fmt::format("cannot write the trace to {}", trace_path));
  epic::sim::TraceSink sink;
  if (file != nullptr) sink = [file](std::string_view line) { fmt::print(file, "{}\n", line); };
  const epic::sim::Outcome outcome = RunScenario(scenario, sink);
  if (file != nullptr && file != stdout && std::fclose(file) != 0)
    return Usage(fmt::format("cannot write the trace to {}", trace_path));
  std::FILE* const out = trace_path == "-" ? stderr : stdout;
  fmt::print(out, "{}: {}\n{}\n", Name(outcome.verdict), ReplayLine(scenario), Describe(outcome.counts));
  std::fflush(out);
  if (outcome.verdict == epic::sim::Verdict::kRight) return kRight;
  fmt::print(stderr, "{}replay: {}\n", outcome.detail, HowToReplay(scenario));
  return kViolation;
}

// One run, in a process of its own: a check that fails ends that.
int RunOne(const Scenario& scenario, const std::string& trace_path) {
  const std::optional<int> code = epic::sim::InChild([&] { return RunHere(scenario, trace_path); });
  if (code) return *code;
  fmt::print(stderr, "crashed: {}\nreplay: {}\n", ReplayLine(scenario), HowToReplay(scenario));
  return kViolation;
}

std::optional<epic::sim::SeedRange> ParseRange(const std::string& text) {
  epic::sim::SeedRange range;
  const std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits(':', 1));
  if (!epic::ReadNumber(ends.first, &range.from) || !epic::ReadNumber(ends.second, &range.to))
    return std::nullopt;
  return range.from <= range.to ? std::optional(range) : std::nullopt;
}

int RunMany(const Options& options) {
  auto range = ParseRange(options.seeds);
  if (!range) return Usage(fmt::format("--seeds {}: it must be FROM:TO, as 1:1000", options.seeds));
  range->jobs = options.jobs;
  const uint64_t all = range->to - range->from + 1;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  // A line that changes on a terminal; elsewhere ten lines in all.
  const auto step = static_cast<int64_t>(terminal ? 10 : std::max<uint64_t>(1, all / 10));
  const auto run = [](const Scenario& scenario) { return RunScenario(scenario); };
  const auto result = epic::sim::RunSeeds(options.scenario, *range, run, [&](const Counts& counts) {
    if (counts.runs % step == 0)
      fmt::print(stderr, "{}{} of {} seeds right{}", terminal ? "\r" : "", counts.runs, all,
                 terminal ? "" : "\n");
  });
  if (terminal) fmt::print(stderr, "\n");
  if (!result.violation) {
    fmt::print("right: {} seeds, {}\n", result.counts.runs, Describe(result.counts));
    return kRight;
  }
  // Again, for what it has to say.
  Scenario scenario = options.scenario;
  scenario.seed = *result.violation;
  const int code = RunOne(*Complete(scenario), "");
  if (code == kRight)
    fmt::print(stderr,
               "seed {} was not right the first time and is now: the machine is short of memory, or a "
               "run depends on more than its seed\n",
               scenario.seed);
  return kViolation;
}

int Run(const Options& options, bool replay) {
  if (replay) {
    const auto scenario = epic::sim::ParseReplayLine(options.replay);
    return scenario.ok() ? RunOne(*scenario, options.trace) : Usage(std::string(scenario.status().message()));
  }
  const auto scenario = Complete(options.scenario);
  if (!scenario.ok()) return Usage(std::string(scenario.status().message()));
  return options.seeds.empty() ? RunOne(*scenario, options.trace) : RunMany(options);
}

std::string Scenarios() {
  std::string out = "Scenarios:\n";
  for (const auto& plan : epic::sim::FaultPlans()) out += fmt::format("  {:14}{}\n", plan.name, plan.meaning);
  return out + "Exit: 0 right, 1 violation (wrong, hung, crashed), 2 usage.";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  epic::CommandLine line{
      "The engine of the switches and the core of the host library on simulated links in virtual time.",
      "epic-sim"};
  line.RequireCommand();
  const epic::Command run =
      line.AddCommand("run",
                      "Random calls of up to three groups while things go wrong, then "
                      "without: every call must end right. What "
                      "is not given is chosen by the seed; canaries, shared and restarts never are.");
  const epic::Option replay = run.Add("--replay", &options.replay, "the line that a failure printed");
  const epic::Option seed = run.Add("--seed", &options.scenario.seed, "of all chance; default 1");
  const epic::Option seeds =
      run.Add("--seeds", &options.seeds, "FROM:TO, many runs; stops at the first that is not right");
  const epic::Option trace =
      run.Add("--trace", &options.trace, "write an NDJSON line per event to a file, or - for stdout");
  const std::vector<epic::Option> shape = {
      run.Add("--topology", &options.scenario.topology,
              "star-N, tree-S-F as tree-3-2 or tree-7-2, spine-S-L-F as spine-2-3-2, uneven, interleaved; at "
              "most 16 hosts"),
      run.Add("--mode", &options.scenario.mode,
              "by any of its names: " + epic::ModeChoice() + "; mixed is 1 or 3 at each switch"),
      run.Add("--scenario", &options.scenario.name, "what goes wrong, see below"),
      run.Add("--calls", &options.scenario.calls, "of each group; default 20"),
      run.Add("--inline", &options.scenario.inline_bytes,
              "bytes of data that travel in a control message at most; 0: never"),
      run.Add("--send-windows", &options.scenario.send_windows,
              "of what ranks send: fixed; changing, at any moment to any that the group allows"),
      run.Add("--acks", &options.scenario.acks, "of hosts: each message; shared, by those of small calls"),
      run.Add("--super-frames", &options.scenario.super_frames,
              "which links carry them: none, all, switches (between switches), hosts"),
      run.Add("--timers", &options.scenario.timers,
              "of switches and hosts: exact; late, as on a loaded machine, half of them"),
      run.Add("--types", &options.scenario.types,
              "of calls: first (float32, int32, float16, bfloat16, byte); all, with all operations"),
      run.Add("--path", &options.scenario.path,
              "of calls: network; hosts; mixed, each group one of these, or what its switches lack "
              "between the hosts"),
      run.Add("--slices", &options.scenario.slices, "of long calls: whole; cut, into several invocations"),
      run.Add("--algorithm", &options.scenario.algorithm,
              "of each group's calls between the hosts: first (auto, doubling, ring); multicast; all, each "
              "of the two for half of the groups"),
      run.Add("--numbers", &options.scenario.numbers,
              "floating-point ones in reductions: plain; blocks, of INT8, which are summed")};
  run.Add("--jobs", &options.jobs, "processes for --seeds; default one for each processor")
      .From(1L, kMostJobs, "processes");
  seed.Excludes(seeds);
  trace.Excludes(seeds);
  for (const epic::Option& option : shape) replay.Excludes(option);
  replay.Excludes(seed).Excludes(seeds);
  run.Footer(Scenarios());
  if (const auto exit_code = line.Parse(argc, argv, kUsage)) return *exit_code;
  return Run(options, replay.count() > 0);
}
