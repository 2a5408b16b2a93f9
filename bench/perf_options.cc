#include "bench/perf_options.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <sstream>
#include <string_view>

#include "base/command_line.h"
#include "base/number.h"
#include "protocol/modes.h"
#include "protocol/quantise_word.h"
#include "protocol/types.h"

namespace epic::perf {
namespace {

constexpr uint64_t kSmallestStep = 4;
constexpr uint64_t kMaxCallBytes = 64ull << 30;
constexpr int kMaxIterations = 1000000;

// One of them by name, or all.
template <typename T>
std::vector<T> ParseList(const std::string& text, const std::vector<T>& all,
                         std::optional<T> (*parse)(const std::string&)) {
  if (text == "all") return all;
  const std::optional<T> one = parse(text);
  return one ? std::vector<T>{*one} : std::vector<T>{};
}

// One item of --calls, "4K:200"; empty if it is none.
std::optional<Series> ParseSeries(const std::string& item) {
  const size_t colon = item.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::optional<uint64_t> bytes = ParseSize(item.substr(0, colon));
  int calls = 0;
  if (!bytes || *bytes > kMaxCallBytes || !ReadNumber(std::string_view(item).substr(colon + 1), &calls))
    return std::nullopt;
  if (calls < 1 || calls > kMaxIterations) return std::nullopt;
  return Series{.bytes = *bytes, .iterations = calls, .warmup = 1 + calls / 10};
}

// What is wrong with --calls, or nothing.
std::string ParseCalls(const std::string& text, PerfOptions* options) {
  options->max_bytes = 0;
  std::istringstream items(text + ",");
  for (std::string item; std::getline(items, item, ',');) {
    const std::optional<Series> series = ParseSeries(item);
    if (!series) {
      return "--calls takes sizes up to 64G with 1 to 1000000 calls of each, as in 4K:200,1M:15; '" + item +
             "' is none";
    }
    options->series.push_back(*series);
    options->max_bytes = std::max(options->max_bytes, series->bytes);
  }
  return {};
}

// Texts as they came; Parse fills them.
struct Raw {
  std::string min = "4K", max = "4M", step = "1M", type = "float", op = "sum", collective = "allreduce";
  std::optional<std::string> calls, path, algorithm;
  int64_t factor = 2, registered = 0;
  double timeout = 0, join_timeout = 0;
};

// kDefault if it has no such name.
PathChoice PathNamed(std::string_view name) {
  if (name == "auto") return PathChoice::kAuto;
  if (name == "network") return PathChoice::kNetwork;
  return name == "hosts" ? PathChoice::kHosts : PathChoice::kDefault;
}

HostAlgorithm AlgorithmNamed(std::string_view name) {
  if (name == "auto") return HostAlgorithm::kAuto;
  if (name == "doubling") return HostAlgorithm::kDoubling;
  if (name == "ring") return HostAlgorithm::kRing;
  return name == "multicast" ? HostAlgorithm::kMulticast : HostAlgorithm::kDefault;
}

std::string CheckRaw(const Raw& raw, PerfOptions* options) {
  const auto min = ParseSize(raw.min), max = ParseSize(raw.max), step = ParseSize(raw.step);
  if (!min || !max || !step) return "-b, -e and -i take bytes, as in 4096, 4K or 1M";
  if (*min > *max) return "-b is above -e";
  if (*max > kMaxCallBytes) return "-e is above 64G";
  if (raw.factor < 1) return "-f must be at least 1";
  if (raw.factor == 1 && *step < kSmallestStep) return "-i must be at least 4";
  options->min_bytes = *min;
  options->max_bytes = *max;
  options->step_bytes = *step;
  options->step_factor = static_cast<uint64_t>(raw.factor);
  if (raw.calls) {
    if (std::string wrong = ParseCalls(*raw.calls, options); !wrong.empty()) return wrong;
  }
  options->kinds = ParseList(raw.collective, AllKinds(), ParseKind);
  if (options->kinds.empty()) return "--collective " + raw.collective + " is not known";
  options->types = ParseList(raw.type, AllTypes(), ParseType);
  if (options->types.empty()) return "-d " + raw.type + " is not known";
  options->ops = ParseList(raw.op, AllOps(), ParseOp);
  if (options->ops.empty()) return "-o " + raw.op + " is not known";
  const auto possible = [&](Kind kind) {
    return std::ranges::any_of(options->types, [&](Datatype type) {
      return std::ranges::any_of(options->ops, [&](RedOp op) { return Possible(kind, type, op); });
    });
  };
  if (std::ranges::none_of(options->kinds, possible)) {
    return "-d " + raw.type + " has no -o " + raw.op +
           ": bytes cannot be reduced, and bitwise and logical operations are of integers";
  }
  if (raw.path) options->communicator.path = PathNamed(*raw.path);
  if (raw.path && options->communicator.path == PathChoice::kDefault)
    return "--path is auto, network or hosts, not " + *raw.path;
  if (raw.algorithm) options->communicator.algorithm = AlgorithmNamed(*raw.algorithm);
  if (raw.algorithm && options->communicator.algorithm == HostAlgorithm::kDefault)
    return "--algorithm is auto, doubling, ring or multicast, not " + *raw.algorithm;
  options->registered = raw.registered != 0;
  if (options->parallel && (options->registered || options->aggregated != 1))
    return "--parallel makes one call at a time from buffers that it registers: neither -m nor -R go with it";
  if (raw.timeout < 0 || raw.join_timeout < 0) return "a time is negative";
  options->communicator.timeout = std::chrono::milliseconds(static_cast<int64_t>(raw.timeout * 1000));
  options->communicator.join_timeout =
      std::chrono::milliseconds(static_cast<int64_t>(raw.join_timeout * 1000));
  return {};
}

}  // namespace

std::optional<uint64_t> ParseSize(const std::string& text) {
  uint64_t number = 0;
  const char* end_of_text = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), end_of_text, number);
  if (error != std::errc() || number > (1ull << 50)) return std::nullopt;
  const std::string unit(end, end_of_text);
  if (unit.empty() || unit == "B") return number;
  if (unit == "K" || unit == "k") return number << 10;
  if (unit == "M" || unit == "m") return number << 20;
  if (unit == "G" || unit == "g") return number << 30;
  return std::nullopt;
}

std::vector<Series> SeriesOf(const PerfOptions& options, Kind kind) {
  if (!options.series.empty()) return options.series;
  const Series one{.bytes = 0, .iterations = options.iterations, .warmup = options.warmup};
  if (kind == Kind::kBarrier) return {one};
  std::vector<Series> all;
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    all.push_back(one);
    all.back().bytes = bytes;
    bytes = options.step_factor > 1 ? std::max(bytes * options.step_factor, uint64_t{1})
                                    : bytes + options.step_bytes;
  }
  return all;
}

uint64_t CountOf(uint64_t bytes, Kind kind, Datatype type, int ranks) {
  const Job one{.kind = kind, .type = type, .count = 1, .ranks = ranks};
  return bytes / one.total_bytes();
}

std::optional<PerfOptions> ParsePerfOptions(int argc, const char* const* argv, int* exit_code) {
  PerfOptions options;
  Raw raw;
  CommandLine line(
      "Measures and verifies EPIC's collectives. Start one per rank; rank 0 prints. Rank, size, group and "
      "manager may "
      "also come from EPIC_* variables, torchrun, srun or mpirun. Exit status: 0 all right, 1 wrong elements "
      "or an "
      "error, 2 usage.",
      "epic-perf");
  line.Version("epic-perf 0.1.0");
  line.Add("-b,--minbytes", &raw.min, "smallest size, bytes, with K, M or G").ShowDefault();
  line.Add("-e,--maxbytes", &raw.max, "largest size").ShowDefault();
  line.Add("-i,--stepbytes", &raw.step, "increment between sizes, with -f 1").ShowDefault();
  line.Add("-f,--stepfactor", &raw.factor, "factor between sizes").ShowDefault();
  line.Add("-n,--iters", &options.iterations, "timed iterations")
      .From(1, kMaxIterations, "timed iterations")
      .ShowDefault();
  line.Add("-w,--warmup_iters", &options.warmup, "iterations before them")
      .From(0, kMaxIterations, "iterations before the timed ones")
      .ShowDefault();
  const Option calls = line.Add(
      "--calls", &raw.calls,
      "SIZE:N,...: N timed iterations of each size, after 1 + N/10 others; in place of the options above");
  for (const char* other : {"-b", "-e", "-i", "-f", "-n", "-w"}) calls.Excludes(line.Get(other));
  line.Add("-c,--check", &options.checks, "verified runs of each size; 0 verifies nothing")
      .From(0, kMaxIterations, "verified runs; 0 verifies nothing")
      .ShowDefault();
  line.Add("-d,--datatype", &raw.type, NamesOf(AllTypes()) + " or all").ShowDefault();
  line.Add("-o,--op", &raw.op, NamesOf(AllOps()) + " or all").ShowDefault();
  line.Add("-m,--agg_iters", &options.aggregated, "calls outstanding at a time")
      .From(1, 256, "calls outstanding at a time")
      .ShowDefault();
  line.Add("-R,--local_register", &raw.registered, "1: register the buffers once, with epic::Register")
      .ShowDefault();
  line.Add("--collective", &raw.collective,
           "allreduce, reduce, broadcast, barrier, reducescatter, allgather or all")
      .ShowDefault();
  line.Add("-r,--root", &options.root, "root of reduce and broadcast")
      .From(0, std::numeric_limits<int>::max(), "a rank")
      .ShowDefault();
  line.Add("--mode", &options.communicator.mode,
           "mode of the group, by any of its names: " + ModeChoice() + "; 0: as it is")
      .Changed([](std::string& text) { return text == "0" ? "" : ModeToNumber(text); })
      .ShowDefault();
  line.Add("--path", &raw.path,
           "auto, network or hosts: which way the group's data go, if it is made by this");
  line.AddFlag(
      "--parallel", &options.parallel,
      "several ranks on each host: allreduce in their host, by a group of one rank per host for each "
      "share, and in their host again; mode and path are those groups'");
  line.Add("--algorithm", &raw.algorithm, "auto, doubling, ring or multicast: how hosts compute among themselves");
  line.AddTaken(
          "--quantise",
          [&options](const std::vector<std::string>& values) {
            return ReadQuantise(values.front(), &options.communicator.quantise,
                                &options.communicator.quantise_int8);
          },
          "int8: sums of float, half and bfloat16 travel as blocks of int8; or what float is multiplied by "
          "to be "
          "summed as int32: if the group is made by this, or has it")
      .Expected(1);
  line.Add("-g,--group", &options.communicator.group, "name of the group");
  line.Add("--rank", &options.communicator.rank, "this rank, from 0 on");
  line.Add("--size", &options.communicator.size, "ranks in the group");
  line.Add("--manager", &options.communicator.manager, "HOST:PORT of incmanager");
  line.Add("--ifname", &options.communicator.ifname, "network device of the RoCE port");
  line.Add("--timeout", &raw.timeout, "seconds that one call may take");
  line.Add("--join-timeout", &raw.join_timeout, "seconds to wait for the other ranks");
  line.Add("--count-bytes", &options.counted,
           "network device of this rank whose bytes are counted while calls are timed; for --json");
  line.AddFlag("--each", &options.each, "the time of each timed call of rank 0, too; for --json");
  line.AddFlag("--json", &options.json, "one JSON object instead of the table");
  if (const auto ended = line.Parse(argc, argv, 2)) {
    *exit_code = *ended;
    return std::nullopt;
  }
  if (const std::string wrong = CheckRaw(raw, &options); !wrong.empty()) {
    std::cerr << "epic-perf: " << wrong << " (--help shows the options)\n";
    *exit_code = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace epic::perf
