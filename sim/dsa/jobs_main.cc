// epic-jobs: training jobs that share one switch by published rules, in virtual time. Prints one JSON object
// with a row for each system, pool and window; scripts/reproduce runs it.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "sim/dsa/jobs.h"

namespace {

using epic::Nanos;
using epic::sim::ToPicos;
using epic::sim::WholeNanos;
using epic::sim::dsa::Dnn;
using epic::sim::dsa::JitterOf;
using epic::sim::dsa::JobsConfig;
using epic::sim::dsa::JobsRun;
using epic::sim::dsa::Spread;

constexpr const char* kName = "epic-jobs";
constexpr double kMillion = 1e6;

// "A", "B", or "mix": every other one.
std::vector<Dnn> JobsNamed(const std::string& dnn, int count) {
  std::vector<Dnn> jobs;
  for (int job = 0; job < count; ++job) {
    const bool is_a = dnn == "A" || (dnn == "mix" && job % 2 == 0);
    jobs.push_back(is_a ? epic::sim::dsa::kCommunicationIntensive : epic::sim::dsa::kComputationIntensive);
  }
  return jobs;
}

std::string InJson(const Spread& spread) {
  return fmt::format("[{}, {}, {}, {}]", spread.p10, spread.p50, spread.p90, spread.p99);
}

void PrintRow(const JobsConfig& config, const JobsRun& run) {
  const auto& records = run.records;
  fmt::print("{{\"system\": \"{}\", \"pool\": {}, \"window\": {}, \"seed\": {}, ", NameOf(config.system),
             config.pool_bytes, config.window_bytes, config.seed);
  fmt::print(
      "\"completion\": {}, \"utilisation\": {:.4f}, \"claims\": {}, \"whole\": {}, \"split\": {}, "
      "\"split_rest\": {}, ",
      run.completion, run.utilisation, InJson(run.claims), InJson(run.whole), InJson(run.split),
      InJson(run.split_rest));
  fmt::print("\"types\": [{}], \"lost_types\": [{}], ", fmt::join(run.types, ", "),
             fmt::join(run.lost_types, ", "));
  fmt::print("\"open_jobs\": {}, \"open\": {}, \"hung\": {}, ", run.open.jobs, run.open.indices,
             run.open.hung);
  fmt::print("\"twice\": {}, \"missing\": {}, \"overlaps\": {}, \"gone\": {}, \"leaked\": {}, ",
             records.twice, records.missing, records.overlaps, records.gone, run.leaked);
  fmt::print(
      "\"stalled\": {}, \"evictions\": {}, \"own_collisions\": {}, \"repeats\": {}, \"reminders\": {}, ",
      run.stalled, records.evictions, records.own_collisions, records.repeats, records.reminders);
  fmt::print("\"lost\": {}, \"lost_sums\": {}, \"longest_queue\": {}, \"server_bytes\": {}}}",
             records.lost_packets.size(), records.lost_sums, WholeNanos(records.longest_queue),
             records.server_bytes);
}

// What is asked for, as it is typed.
struct Asked {
  JobsConfig config;
  std::string rules = "published";
  std::vector<std::string> systems = {"switchml", "atp", "dsa"};
  std::vector<uint64_t> pools = {static_cast<uint64_t>(config.pool_bytes)};
  std::vector<uint64_t> windows = {static_cast<uint64_t>(config.window_bytes)};
  std::vector<uint64_t> seeds = {config.seed};
  std::string dnn = "A";
  std::string jitter_of = "worker";
  std::string last = "reminder";
  std::string overlaps = "dropped";
  int jobs = 8;
  double gigabits = 100;
  double worker_loss = 0;
  double server_loss = 0;
  Nanos round_trip = WholeNanos(config.round_trip);
  Nanos start = WholeNanos(config.start_spread);
  Nanos jitter = WholeNanos(config.jitter);
  Nanos timeout = WholeNanos(config.least_timeout);
  Nanos most = WholeNanos(config.most_time);
};

void DeclareJobs(epic::CommandLine& line, Asked& asked) {
  line.Add("--dnn", &asked.dnn, "A: 4 partitions of 4 MB, 320 us a layer; B: of 2 MB, 640 us; mix: by turns")
      .OneOf({"A", "B", "mix"})
      .ShowDefault();
  line.Add("--jobs", &asked.jobs, "each with a server").From(1, 64, "jobs").ShowDefault();
  line.Add("--workers", &asked.config.workers, "of each job").From(1, 16, "workers").ShowDefault();
  line.Add("--start-ns", &asked.start, "jobs start from 0 to this")
      .From(Nanos{0}, epic::kSecond, "nanoseconds")
      .ShowDefault();
  line.Add("--jitter-ns", &asked.jitter, "partitions are ready from 0 to this later")
      .From(Nanos{0}, epic::kSecond, "nanoseconds")
      .ShowDefault();
  line.Add("--jitter-of", &asked.jitter_of, "worker, job, or tensor: drawn for each")
      .OneOf({"worker", "job", "tensor"})
      .ShowDefault();
  line.Add("--forward", &asked.config.forward_percent, "of a layer's time that is the forward pass, %")
      .From(0, 100, "%")
      .ShowDefault();
  line.Add("--seed", &asked.seeds, "of starts, jitters, the hash and losses; several with commas")
      .Delimiter(',')
      .ShowDefault();
  line.Add("--most-ns", &asked.most, "then what has not ended is counted as open").ShowDefault();
}

void DeclareNetwork(epic::CommandLine& line, Asked& asked) {
  constexpr uint64_t kMost = 1 << 30;
  line.Add("--pool", &asked.pools, "payload that the switch has room for, bytes; several with commas")
      .Delimiter(',')
      .From(uint64_t{1}, kMost, "bytes")
      .ShowDefault();
  line.Add("--window", &asked.windows,
           "of packets from a worker's oldest open one on, bytes; several with commas")
      .Delimiter(',')
      .From(uint64_t{1}, kMost, "bytes")
      .ShowDefault();
  line.AddFlag("--aimd", &asked.config.aimd, "a packet more for a window of results, half for a mark");
  line.Add("--most-window", &asked.config.most_window, "of --aimd, bytes").ShowDefault();
  line.Add("--ecn", &asked.config.ecn_bytes, "queue from which packets are marked, bytes")
      .From(int64_t{0}, int64_t{kMost}, "bytes")
      .ShowDefault();
  line.Add("--payload", &asked.config.payload_bytes, "of a packet, bytes").ShowDefault();
  line.Add("--headers", &asked.config.header_bytes, "of a packet, bytes").ShowDefault();
  line.Add("--gbit", &asked.gigabits, "of each direction of a link, Gbit/s")
      .From(1.0, 1000.0, "Gbit/s")
      .ShowDefault();
  line.Add("--round-trip-ns", &asked.round_trip, "between two hosts")
      .From(Nanos{0}, epic::kSecond, "nanoseconds")
      .ShowDefault();
  line.Add("--worker-loss", &asked.worker_loss, "of the first job's first worker's packets")
      .From(0.0, 0.5, "of all")
      .ShowDefault();
  line.Add("--server-loss", &asked.server_loss, "of the first job's server's packets")
      .From(0.0, 0.5, "of all")
      .ShowDefault();
}

void DeclareRules(epic::CommandLine& line, Asked& asked) {
  line.Add("--rules", &asked.rules, "by which memory is shared").OneOf({"published"}).ShowDefault();
  line.Add("--system", &asked.systems,
           "switchml, atp, dsa, always, coin; several with commas, each in rows of its own")
      .Delimiter(',')
      .TypeName("NAMES");
  line.Add("--timeout-ns", &asked.timeout, "the least of workers and servers")
      .From(Nanos{1}, epic::kSecond, "nanoseconds")
      .ShowDefault();
  line.Add("--last", &asked.last,
           "the rest of a split index: its server asks, reminder; or it is sent, at-once")
      .OneOf({"reminder", "at-once"})
      .ShowDefault();
  line.Add("--repeat-after", &asked.config.repeat_after, "results beyond an open index; 0: timeouts alone")
      .From(0, 1'000'000, "results")
      .ShowDefault();
  line.AddFlag("--in-place", &asked.config.in_place,
               "results lie where the gradients were, which are gone then");
  line.Add("--overlaps", &asked.overlaps, "partial sums with common workers, at a server: dropped, or added")
      .OneOf({"dropped", "added"})
      .ShowDefault();
}

JobsConfig ConfigOf(const Asked& asked) {
  JobsConfig config = asked.config;
  config.jobs = JobsNamed(asked.dnn, asked.jobs);
  config.jitter_of = asked.jitter_of == "worker" ? JitterOf::kWorker
                     : asked.jitter_of == "job"  ? JitterOf::kJob
                                                 : JitterOf::kTensor;
  config.bits_per_second = std::llround(asked.gigabits * 1e9);
  config.round_trip = ToPicos(asked.round_trip);
  config.start_spread = ToPicos(asked.start);
  config.jitter = ToPicos(asked.jitter);
  config.least_timeout = ToPicos(asked.timeout);
  config.most_time = ToPicos(asked.most);
  config.last_at_once = asked.last == "at-once";
  config.adds_overlaps = asked.overlaps == "added";
  config.worker_loss = static_cast<uint64_t>(std::llround(asked.worker_loss * kMillion));
  config.server_loss = static_cast<uint64_t>(std::llround(asked.server_loss * kMillion));
  return config;
}

// One for each row; nothing if something cannot be, which is printed.
std::vector<JobsConfig> RowsOf(const Asked& asked) {
  std::vector<JobsConfig> rows;
  JobsConfig config = ConfigOf(asked);
  for (const std::string& name : asked.systems) {
    const auto system = epic::sim::dsa::SystemNamed(name);
    if (!system) {
      fmt::print(stderr, "{}: --system {}: not one of switchml, atp, dsa, always, coin\n", kName, name);
      return {};
    }
    config.system = *system;
    for (const uint64_t pool : asked.pools) {
      for (const uint64_t window : asked.windows) {
        for (const uint64_t seed : asked.seeds) {
          config.pool_bytes = static_cast<int64_t>(pool);
          config.window_bytes = static_cast<int64_t>(window);
          config.seed = seed;
          if (const epic::Status valid = Validate(config); !valid.ok()) {
            fmt::print(stderr, "{}: {}\n", kName, std::string(valid.message()));
            return {};
          }
          rows.push_back(config);
        }
      }
    }
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  Asked asked;
  epic::CommandLine line{
      "Training jobs of one epoch that share a switch, in virtual time, by the rules of DSA, ATP and "
      "SwitchML "
      "as the paper on DSA has them. Prints a JSON object; times are in nanoseconds, of spreads the values "
      "below which 10, 50, 90 and 99 of a hundred lie. What hangs, or has a contribution twice, is counted. "
      "Exit status: 0, 1 if a sum was wrong that these rules do not make so, 2 usage.",
      kName};
  DeclareRules(line, asked);
  DeclareJobs(line, asked);
  DeclareNetwork(line, asked);
  if (const auto exit_code = line.Parse(argc, argv, 2)) return *exit_code;
  const std::vector<JobsConfig> rows = RowsOf(asked);
  if (rows.empty()) return 2;
  bool right = true;
  const char* before = "{\"rows\": [";
  for (const JobsConfig& config : rows) {
    const JobsRun run = RunJobs(config);
    right = right && run.records.missing == 0 && (config.adds_overlaps || run.records.twice == 0);
    fmt::print("{}", before);
    PrintRow(config, run);
    before = ", ";
  }
  fmt::print("]}}\n");
  return right ? 0 : 1;
}
