// epic-check: visits every schedule of a small configuration, over the code that ships.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/command_line.h"
#include "check/estimate.h"
#include "check/explorer.h"
#include "check/replay.h"
#include "check/setup.h"
#include "protocol/modes.h"

namespace {

using namespace epic::check;  // NOLINT

constexpr int kRight = 0;
constexpr int kWrong = 1;
constexpr int kUsage = 2;
constexpr int kNotFinished = 3;

volatile std::sig_atomic_t g_interrupted = 0;

constexpr double kGib = 1 << 30;

// Of the machine's, in GiB.
double ThreeQuartersOfMemory() {
  return 0.75 * static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
         kGib;
}

struct Options {
  Setup setup;
  std::string replay;
  bool no_reduction = false;
  bool no_symmetry = false;
  bool compare = false;
  bool paper = false;
  bool invariants = false;
  std::string search = "breadth";
  double max_minutes = 0;
  uint64_t max_states = UINT32_MAX - 1;
  double max_memory_gib = ThreeQuartersOfMemory();
};

std::string UsageText(const std::string& message) {
  return fmt::format("epic-check: {}\nTry epic-check --help.\n", message);
}

int Usage(const std::string& message) {
  fmt::print(stderr, "{}", UsageText(message));
  return kUsage;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// One digit that counts: 0.03, 4, 700.
std::string OneDigit(double x) {
  if (x < 1) return fmt::format("{:.1g}", x);
  const double unit = std::pow(10, std::floor(std::log10(x)));
  return fmt::format("{:.0f}", std::round(x / unit) * unit);
}

// What all of it will take, in orders of magnitude; to stderr.
void PrintEstimate(const Progress& p, double states, double seconds, const Options& options) {
  if (states == 0) return fmt::print(stderr, "estimate: none of a search by depth\n");
  const double gib = states * static_cast<double>(p.bytes) / static_cast<double>(p.states) / kGib;
  const double minutes = states / static_cast<double>(p.states) * seconds / 60;
  fmt::print(
      stderr,
      "estimate: {} million states, {} GiB, {} minutes, from the first {} states; each may be ten times "
      "as much, or a tenth\n",
      OneDigit(states / 1e6), OneDigit(gib), OneDigit(minutes), p.states);
  if (gib > options.max_memory_gib || states > static_cast<double>(options.max_states)) {
    fmt::print(
        stderr,
        "estimate: more than {}; a message, a fault or a host less is one to two orders of magnitude\n",
        gib > options.max_memory_gib ? fmt::format("--max-memory {:.2f} GiB", options.max_memory_gib)
                                     : fmt::format("--max-states {}", options.max_states));
  }
}

ExploreOptions Exploring(const Options& options, int64_t run_steps, const Stopwatch& watch) {
  ExploreOptions explore;
  explore.reduced = !options.no_reduction;
  explore.symmetric = !options.no_symmetry;
  explore.depth_first = options.search == "depth";
  explore.limits.states = options.max_states;
  explore.limits.bytes = static_cast<size_t>(options.max_memory_gib * kGib);
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const double limit = options.max_minutes * 60;
  explore.on_progress = [&watch, options, run_steps, terminal, limit, next = 0.0,
                         estimated = -1.0](const Progress& p) mutable {
    const double now = watch.seconds();
    // Once more where it has become another: a call's later parts may be wider than its first.
    const double states = EstimatedStates(p.layers, run_steps);
    if (estimated < 0 || states > 4 * estimated || states < estimated / 4) {
      estimated = states;
      PrintEstimate(p, states, now, options);
    }
    if (now >= next) {
      // A line that changes on a terminal, else one now and then.
      next = now + (terminal ? 0.5 : 30);
      fmt::print(stderr, "{}{} states, {} transitions, depth {}, {:.0f} states/s, {} MiB{}",
                 terminal ? "\r" : "", p.states, p.transitions, p.depth, static_cast<double>(p.states) / now,
                 p.bytes >> 20, terminal ? "   " : "\n");
    }
    return g_interrupted == 0 && (limit == 0 || now < limit);
  };
  return explore;
}

void PrintSteps(Model& model, const Setup& setup, const std::vector<Action>& steps,
                const std::vector<Action>& after) {
  std::vector<Action> all = steps;
  all.insert(all.end(), after.begin(), after.end());
  const Told told = Run(model, all);
  for (size_t i = 0; i < told.steps.size(); ++i) {
    if (i == steps.size()) fmt::print("      then, and so on:\n");
    fmt::print("{:4}  {}\n", i + 1, told.steps[i]);
  }
  fmt::print("replay: epic-check --replay '{} steps={}'\n", Line(setup), StepNames(steps));
}

int CodeOf(Verdict verdict) {
  if (verdict == Verdict::kRight) return kRight;
  return verdict == Verdict::kViolated || verdict == Verdict::kHung ? kWrong : kNotFinished;
}

void PrintReport(const Report& report, double seconds, size_t symmetries, const Options& options) {
  const Progress& p = report.progress;
  const double states = static_cast<double>(std::max<uint64_t>(p.states, 1));
  fmt::print("verdict: {}{}{}\n", Name(report.verdict), report.breach ? ": " : "", Text(report.breach));
  if (report.verdict == Verdict::kUnbounded) {
    fmt::print("{} reached: nothing is wrong in what was seen, and nothing is known of the rest\n",
               p.states >= options.max_states
                   ? fmt::format("--max-states {}", options.max_states)
                   : fmt::format("--max-memory {:.2f} GiB", options.max_memory_gib));
  }
  fmt::print("diameter {}, states {}, distinct {}, final {}, time {:.2f} s, memory {} MiB\n", p.depth,
             p.transitions + 1, p.states, report.final_states.size(), seconds, p.bytes >> 20);
  fmt::print(
      "{:.0f} distinct states/s, {:.0f} bytes each; of {} states of nodes ({:.0f} bytes each), {} packets; "
      "{} steps of the real code; {} symmetries; omission probability below {:.1e}\n",
      states / seconds, static_cast<double>(p.bytes) / states, report.sizes.node_states,
      static_cast<double>(report.sizes.node_bytes) /
          static_cast<double>(std::max<size_t>(report.sizes.node_states, 1)),
      report.sizes.packets, report.sizes.steps, symmetries, report.omission_bound);
}

// In tables of its own, so that the report counts what the exploration has made.
int64_t StepsOfOneRun(const SystemConfig& config, const Setup& setup) {
  Model model(config, BoundsOf(setup));
  return StepsOfARun(model);
}

int ExploreOne(const Options& options) {
  const auto config = Build(options.setup);
  if (!config.ok()) return Usage(std::string(config.status().message()));
  Model model(*config, BoundsOf(options.setup));
  const int64_t run_steps = StepsOfOneRun(*config, options.setup);
  const Stopwatch watch;
  fmt::print("{}\n", Line(options.setup));
  std::fflush(stdout);
  Report report = Explore(model, Exploring(options, run_steps, watch));
  if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\n");
  PrintReport(report, watch.seconds(), options.no_symmetry ? 1 : model.symmetries(), options);
  if (CodeOf(report.verdict) == kWrong) {
    if (report.verdict == Verdict::kViolated) report.path = Minimise(model, report.path);
    PrintSteps(model, options.setup, report.path, report.after);
  }
  return CodeOf(report.verdict);
}

// With all reductions and without any, on the same tables, so that final states can be compared.
int Compare(Options options) {
  const auto config = Build(options.setup);
  if (!config.ok()) return Usage(std::string(config.status().message()));
  Model model(*config, BoundsOf(options.setup));
  const int64_t run_steps = StepsOfOneRun(*config, options.setup);
  fmt::print("{}\n", Line(options.setup));
  std::array<Report, 2> reports;
  for (const bool whole : {false, true}) {
    const Stopwatch watch;
    options.no_reduction = options.no_symmetry = whole;
    reports[whole ? 1 : 0] = Explore(model, Exploring(options, run_steps, watch));
    fmt::print("{}:\n", whole ? "without reductions" : "reduced");
    PrintReport(reports[whole ? 1 : 0], watch.seconds(), whole ? 1 : model.symmetries(), options);
  }
  const bool same =
      reports[0].verdict == reports[1].verdict && reports[0].final_states == reports[1].final_states;
  fmt::print("{}\n", same ? "the same verdict and the same final states" : "NOT the same");
  return same ? CodeOf(reports[0].verdict) : kWrong;
}

int ReplayLine(const std::string& line) {
  const auto replay = ParseReplay(line);
  if (!replay.ok()) return Usage(std::string(replay.status().message()));
  const auto config = Build(replay->setup);
  if (!config.ok()) return Usage(std::string(config.status().message()));
  Model model(*config, BoundsOf(replay->setup));
  const Told told = Run(model, replay->steps);
  for (size_t i = 0; i < told.steps.size(); ++i) fmt::print("{:4}  {}\n", i + 1, told.steps[i]);
  if (told.breach) {
    fmt::print("violated: {}\n", Text(told.breach));
    return kWrong;
  }
  if (told.possible < replay->steps.size()) {
    fmt::print("step {} cannot happen there\n", told.possible + 1);
    return kNotFinished;
  }
  fmt::print("no violation; the calls have {}ended\n", told.done ? "" : "not ");
  return told.done ? kRight : kNotFinished;
}

int ListInvariants() {
  for (const InvariantInfo& info : kInvariants) fmt::print("{}: {}\n", info.name, info.meaning);
  return kRight;
}

// The paper's six cases (appendix H, tables 7 and 8).
int Paper(Options options) {
  int code = kRight;
  for (const char* mode : {"2", "3"}) {
    for (const char* collective : {"allreduce", "reduce", "broadcast"}) {
      options.setup.mode = mode;
      options.setup.collective = collective;
      code = std::max(code, ExploreOne(options));
      if (g_interrupted != 0) return kNotFinished;
    }
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Setup& s = options.setup;
  epic::CommandLine line{
      "Visits every state that a small group can get into, over the code of engine, transport and host "
      "library, "
      "and says whether any is wrong or hung. What is not finished in a moment begins with an estimate of "
      "what "
      "it will take. Exit status: 0 right, 1 not, 2 usage, 3 not finished: a limit, or Ctrl-C."};
  line.Add("--path", &s.path,
           "network: by the switches of a tree; hosts: between the hosts, --ranks of them, each with the "
           "library's path and a queue pair per peer")
      .OneOf({"network", "hosts"})
      .ShowDefault();
  line.Add("--ranks", &s.ranks, "with --path hosts: 2 to 8").ShowDefault();
  line.Add("--algorithm", &s.algorithm,
           "with --path hosts: ring, which has --messages in each block; doubling; or multicast, with a "
           "datagram for each of --messages of each part, of 2 to 4 ranks")
      .OneOf({"ring", "doubling", "multicast"})
      .ShowDefault();
  line.Add("--tokens", &s.tokens, "by multicast: so many hold datagrams back; 0: all are sent at once")
      .ShowDefault();
  line.Add("--different", &s.different,
           "with --path hosts: a rank makes the last call otherwise than all others, and all must end in "
           "the same error: count@1, op@2, collective@0");
  line.Add("--mode", &s.mode,
           "of all switches, by any of its names, " + epic::ModeChoice() +
               "; or a digit per switch, root first: 133")
      .ShowDefault();
  line.Add("--collective", &s.collective,
           "the calls that every rank makes: allreduce, reduce, broadcast, barrier, reducescatter, "
           "allgather, with "
           "commas between them, a root after @, how often after *: reduce@2,barrier*3")
      .ShowDefault();
  line.Add("--calls", &s.calls,
           "when a host makes its calls: together; apart, each at any time after the one before it was "
           "made; after-results, each at any time after the one before it has ended")
      .ShowDefault();
  line.Add("--topology", &s.topology,
           "star-N, tree-S-F, uneven, interleaved; at most 8 hosts; chain: a root and a leaf with a host "
           "each; fork: two leaves with a host each")
      .ShowDefault();
  line.Add("--groups", &s.groups,
           "so many have the tree, each with hosts of its own; their memory in every switch is one block, "
           "for which their calls ask; whose is taken ends there, as the hosts have it then")
      .ShowDefault();
  line.Add(
          "--pool", &s.pool,
          "so many places has the only switch for the sums of all groups, in mode III; sums that lose theirs "
          "go on at a server (0: there is none)")
      .ShowDefault();
  line.Add("--pool-policy", &s.pool_policy, "who wins a place: priority, fcfs, always, coin").ShowDefault();
  line.Add("--slices", &s.slices, "in which the calls with data are made, each as long as the others")
      .ShowDefault();
  line.Add("--messages", &s.messages, "of each call (of each of its parts)").ShowDefault();
  line.Add("--packets", &s.message_packets, "of each message (M)").ShowDefault();
  line.Add("--window", &s.window, "messages in flight (W); there are 2MW slots").ShowDefault();
  line.Add("--send-windows", &s.send_windows,
           "fixed: W; changing: from W down to one message and then W again, by what of a host's "
           "packets is acknowledged")
      .OneOf({"fixed", "changing"})
      .ShowDefault();
  line.Add("--buffers", &s.buffers,
           "bounce: hosts receive an AllReduce into the bytes that they send it from")
      .OneOf({"separate", "bounce"})
      .ShowDefault();
  line.Add("--type", &s.type, "of elements: an integer, as int32 or uint8; or, of sums, bfloat16 or float16")
      .ShowDefault();
  line.Add("--op", &s.op, "sum, product or bxor, which show who is in a result, and how often").ShowDefault();
  line.Add("--psn", &s.psn, "the first of every direction").ShowDefault();
  line.Add("--losses", &s.faults.losses, "at most so many packets lost").ShowDefault();
  line.Add("--duplicates", &s.faults.duplicates, "repeated").ShowDefault();
  line.Add("--reorderings", &s.faults.reorderings, "swapped with the next").ShowDefault();
  line.Add("--reorder", &s.reorder,
           "neighbours: by --reorderings alone; any: channels keep no order, whatever is under way may come "
           "next")
      .ShowDefault();
  line.Add("--late-calls", &s.late_calls,
           "so often the next timer runs out although a host could make a call; any: however often")
      .ShowDefault();
  line.Add("--timeouts", &s.faults.timeouts, "timers that run out early").ShowDefault();
  line.Add("--evictions", &s.faults.evictions,
           "so often a sum loses its place in the pool at any time, as by groups that are not explored")
      .ShowDefault();
  line.Add("--late-timers", &s.faults.late_timers,
           "so often time passes until the next timer is due while one that is due does not run, which "
           "then runs at any later time")
      .ShowDefault();
  line.Add("--crashes", &s.faults.crashes,
           "switches that lose their state; the control plane then ends the group")
      .ShowDefault();
  line.Add("--regroups", &s.faults.regroups, "so often a new group follows, with packets of the old left")
      .ShowDefault();
  line.AddFlag(
      "--reuse-qpns", &s.faults.reuse_qpns,
      "new groups take the old one's QPNs at once, which the manager never does: this must go wrong");
  line.Add("--search", &options.search, "breadth or depth first").OneOf({"breadth", "depth"}).ShowDefault();
  line.AddFlag("--no-reduction", &options.no_reduction, "every order of independent steps too");
  line.AddFlag("--no-symmetry", &options.no_symmetry, "states that are alike but for names, each");
  line.AddFlag("--compare", &options.compare,
               "with and without reductions: the same verdict and final states?");
  line.AddFlag(
      "--paper", &options.paper,
      "the paper's six cases (tables 7 and 8): modes 2 and 3; three messages and one loss unless given");
  line.AddFlag("--invariants", &options.invariants, "what is checked: names and meanings, no more");
  line.Add("--without", &s.without,
           "judge nothing by this invariant; repeated, or names with commas between them. Without core, "
           "what follows a check that fails in a core is not explored")
      .Join(',');
  line.Add("--max-minutes", &options.max_minutes, "stop then; 0: never").ShowDefault();
  line.Add("--max-states", &options.max_states, "stop at so many distinct states").ShowDefault();
  line.Add("--max-memory,--memory", &options.max_memory_gib,
           "stop at so many GiB; three quarters of the machine's unless given");
  line.Add("--replay", &options.replay, "a line that a counterexample printed");
  line.ErrorText(UsageText);
  if (const auto exit_code = line.Parse(argc, argv, kUsage)) return *exit_code;
  std::signal(SIGINT, [](int) { g_interrupted = 1; });
  if (options.invariants) return ListInvariants();
  if (!options.replay.empty()) return ReplayLine(options.replay);
  if (options.paper) {
    if (line.Get("--messages").count() == 0) s.messages = 3;
    if (line.Get("--losses").count() == 0) s.faults.losses = 1;
    return Paper(options);
  }
  return options.compare ? Compare(options) : ExploreOne(options);
}
