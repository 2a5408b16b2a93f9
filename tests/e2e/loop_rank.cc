// One rank that does AllReduces, or AllGathers, one after the other, checks every element and writes what
// happened as JSON lines:
//   {"pid": 17}                                          before it joins
//   {"joined": true}
//   {"iteration": 3, "count": 256, "us": 812, "wrong": 0}   one per AllReduce, with --each
//   {"iterations": 64, "wrong": 0, "p10_us": 610, "p50_us": 790, "p99_us": 980, "slowest_us": 1034,
//   "slowest_iteration": 9}   and with multicast "datagrams": {"expected": 12, "came": 12, "read": 0,
//   "stranger": 0, ...}
//   {"error": "rank lost", "message": "...", "iteration": 4, "us": 1020}   instead of the last, and exit
//   status 1
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/command_line.h"
#include "epic/epic.h"
#include "protocol/modes.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  epic::Options join;
  int timeout_s = 60;
  int join_timeout_s = 60;
  std::string type = "int32";
  bool integers = true;  // what type says
  std::vector<uint64_t> counts{256};
  int iterations = 1;
  int pause_ms = 0;
  int delay_ms = 0;
  bool each = false;
  bool in_place = false;
  bool barrier = false;
  bool all_gather = false;
  bool hold = false;
  bool stop = false;
  bool until_signal = false;
};

int64_t MicrosSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
}

// A contribution that depends on rank, element and iteration, so that a missing, doubled, stale or misplaced
// one shows.
uint32_t Contribution(int rank, uint64_t element, int iteration) {
  uint64_t x = element * 64 + static_cast<uint64_t>(rank) + (static_cast<uint64_t>(iteration) << 40);
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<uint32_t>(x >> 32);
}

// The element's four bytes. FP32 has 12-bit integers: their sums over up to 64 ranks are exact in any order.
uint32_t Encode(const Flags& flags, uint64_t value) {
  if (flags.integers) return static_cast<uint32_t>(value);
  const float as_float = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &as_float, sizeof(bits));
  return bits;
}

uint32_t Masked(const Flags& flags, uint32_t value) { return flags.integers ? value : value & 0xfff; }

class Loop {
 public:
  explicit Loop(const Flags& flags) : flags_(flags) {}

  int Run() {
    // Before there is another thread that the signal could end, and before anybody knows the process.
    if (flags_.hold || flags_.until_signal) pthread_sigmask(SIG_BLOCK, &hold_, nullptr);
    Say(fmt::format("{{\"pid\": {}}}", getpid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(flags_.delay_ms));
    const Clock::time_point begin = Clock::now();
    if (const epic::Error error = comm_.Init(flags_.join); !error.ok()) return Fail(error, -1, begin);
    Say("{\"joined\": true}");
    for (int i = 0; i < flags_.iterations; ++i) {
      const Clock::time_point start = Clock::now();
      if (const epic::Error error = Once(i, flags_.counts[i % flags_.counts.size()]); !error.ok())
        return Fail(error, i, start);
      if (flags_.until_signal) {
        if (const epic::Error error = AgreeToEnd(i); !error.ok()) return Fail(error, i, start);
      }
      if (flags_.stop && i == 0) kill(getpid(), SIGSTOP);
      if (i + 1 < flags_.iterations) std::this_thread::sleep_for(std::chrono::milliseconds(flags_.pause_ms));
    }
    if (flags_.hold) AwaitSignal();
    const std::string datagrams = TellDatagrams();
    const Clock::time_point end = Clock::now();
    if (const epic::Error error = comm_.Destroy(); !error.ok()) return Fail(error, flags_.iterations, end);
    Say(
        fmt::format("{{\"iterations\": {}, \"wrong\": {}, \"p10_us\": {}, \"p50_us\": {}, \"p99_us\": {}, "
                    "\"slowest_us\": {}, "
                    "\"slowest_iteration\": {}{}}}",
                    flags_.iterations, wrong_, Percentile(10), Percentile(50), Percentile(99), slowest_us_,
                    slowest_iteration_, datagrams));
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  epic::Error Once(int iteration, uint64_t count) {
    send_.assign(count, 0);
    for (uint64_t e = 0; e < count; ++e)
      send_[e] = Encode(flags_, Masked(flags_, Contribution(comm_.rank(), e, iteration)));
    recv_.assign(flags_.all_gather ? count * static_cast<uint64_t>(comm_.size()) : count, 0xdeadbeef);
    const Clock::time_point begin = Clock::now();
    if (const epic::Error error = Call(count); !error.ok()) return error;
    const int64_t us = MicrosSince(begin);
    const uint64_t wrong = flags_.barrier ? 0 : CountWrong(iteration, flags_.in_place ? send_ : recv_);
    wrong_ += wrong;
    took_us_.push_back(us);
    if (us > slowest_us_) {
      slowest_us_ = us;
      slowest_iteration_ = iteration;
    }
    if (flags_.each) {
      Say(fmt::format("{{\"iteration\": {}, \"count\": {}, \"us\": {}, \"wrong\": {}}}", iteration, count, us,
                      wrong));
    }
    return {};
  }

  epic::Error Call(uint64_t count) {
    if (flags_.barrier) return epic::Barrier(comm_);
    const epic::Datatype type = flags_.integers ? epic::Datatype::kInt32 : epic::Datatype::kFloat32;
    if (flags_.all_gather) return epic::AllGather(send_.data(), recv_.data(), count, type, comm_);
    void* out = flags_.in_place ? send_.data() : recv_.data();
    return epic::AllReduce(send_.data(), out, count, type, epic::RedOp::kSum, comm_);
  }

  // Of a group with multicast what has become of its datagrams, as a further member of a JSON object.
  std::string TellDatagrams() const {
    const epic::DatagramCounts counts = comm_.Datagrams();
    if (!counts.multicast) return "";
    return fmt::format(
        ", \"datagrams\": {{\"expected\": {}, \"came\": {}, \"read\": {}, \"stranger\": {}, "
        "\"stale\": {}, \"alien\": {}, \"length\": {}, \"again\": {}}}",
        counts.expected, counts.came, counts.read, counts.stranger, counts.stale, counts.alien, counts.length,
        counts.again);
  }

  // Whether a rank has had the signal, by a call of all: this was the last iteration then.
  epic::Error AgreeToEnd(int iteration) {
    sigset_t pending;
    sigpending(&pending);
    const int32_t wants = sigismember(&pending, SIGUSR1);
    int32_t all = 0;
    const epic::Error error =
        epic::AllReduce(&wants, &all, 1, epic::Datatype::kInt32, epic::RedOp::kSum, comm_);
    if (error.ok() && all != 0) flags_.iterations = iteration + 1;
    return error;
  }

  // The time within which this share of the calls ended.
  int64_t Percentile(size_t percent) {
    if (took_us_.empty()) return 0;
    const auto at = took_us_.begin() + static_cast<ptrdiff_t>((took_us_.size() - 1) * percent / 100);
    std::nth_element(took_us_.begin(), at, took_us_.end());
    return *at;
  }

  uint64_t CountWrong(int iteration, const std::vector<uint32_t>& got) const {
    uint64_t wrong = 0;
    if (flags_.all_gather) {
      for (uint64_t at = 0; at < got.size(); ++at) {
        const auto rank = static_cast<int>(at / send_.size());
        const uint32_t part = Masked(flags_, Contribution(rank, at % send_.size(), iteration));
        wrong += got[at] != Encode(flags_, part) ? 1 : 0;
      }
      return wrong;
    }
    for (uint64_t e = 0; e < got.size(); ++e) {
      uint64_t sum = 0;
      for (int rank = 0; rank < comm_.size(); ++rank) sum += Masked(flags_, Contribution(rank, e, iteration));
      wrong += got[e] != Encode(flags_, sum) ? 1 : 0;
    }
    return wrong;
  }

  void AwaitSignal() const {
    int signum = 0;
    sigwait(&hold_, &signum);
  }

  static void Say(const std::string& line) {
    std::puts(line.c_str());
    std::fflush(stdout);
  }

  static int Fail(const epic::Error& error, int iteration, Clock::time_point begin) {
    std::string message;
    for (const char c : error.message()) {
      if (c == '"' || c == '\\') message += '\\';
      message += c == '\n' ? ' ' : c;
    }
    Say(fmt::format("{{\"error\": \"{}\", \"message\": \"{}\", \"iteration\": {}, \"us\": {}}}",
                    epic::ErrorName(error.code()), message, iteration, MicrosSince(begin)));
    return 1;
  }

  Flags flags_;
  const sigset_t hold_ = [] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
  }();
  epic::Communicator comm_;
  std::vector<uint32_t> send_, recv_;
  uint64_t wrong_ = 0;
  std::vector<int64_t> took_us_;  // of each call
  int64_t slowest_us_ = 0;
  int slowest_iteration_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  epic::CommandLine line("One rank of a test: AllReduces, checked element by element, told as JSON lines");
  line.Add("--group", &flags.join.group).Required();
  line.Add("--rank", &flags.join.rank).Required();
  line.Add("--size", &flags.join.size).Required();
  line.Add("--manager", &flags.join.manager);
  line.Add("--mode", &flags.join.mode, "Of a group that is not created beforehand, by any of its names")
      .Changed(epic::ModeToNumber);
  const std::map<std::string, int> paths = {{"auto", static_cast<int>(epic::PathChoice::kAuto)},
                                            {"network", static_cast<int>(epic::PathChoice::kNetwork)},
                                            {"hosts", static_cast<int>(epic::PathChoice::kHosts)}};
  int path = static_cast<int>(flags.join.path);
  line.Add("--path", &path, "Of a group that is not created beforehand").OneOf(paths).TypeName("ENUM");
  const std::map<std::string, int> algorithms = {
      {"auto", static_cast<int>(epic::HostAlgorithm::kAuto)},
      {"ring", static_cast<int>(epic::HostAlgorithm::kRing)},
      {"multicast", static_cast<int>(epic::HostAlgorithm::kMulticast)}};
  int algorithm = static_cast<int>(flags.join.algorithm);
  line.Add("--algorithm", &algorithm, "Of calls between the hosts").OneOf(algorithms).TypeName("ENUM");
  line.Add("--type", &flags.type).OneOf({"int32", "float32"});
  line.Add("--counts", &flags.counts, "Elements; iterations take them in turn").Delimiter(',');
  line.Add("--iterations", &flags.iterations);
  line.Add("--pause-ms", &flags.pause_ms, "Between two calls");
  line.Add("--delay-ms", &flags.delay_ms, "Before joining");
  line.Add("--timeout-s", &flags.timeout_s, "Deadline of a call");
  line.Add("--join-timeout-s", &flags.join_timeout_s);
  line.AddFlag("--each", &flags.each, "Tell of each call");
  line.AddFlag("--in-place", &flags.in_place);
  line.AddFlag("--hold", &flags.hold, "Stay in the group after the last call, until SIGUSR1 comes");
  line.AddFlag("--until-signal", &flags.until_signal,
               "After each call all agree, by another one, whether SIGUSR1 has come to one of them; it was "
               "the last then");
  line.AddFlag("--stop", &flags.stop, "Stop the process after the first call, until SIGCONT comes");
  line.AddFlag("--barrier", &flags.barrier, "Barriers instead");
  line.AddFlag("--all-gather", &flags.all_gather, "AllGathers instead; counts are of each rank's part");
  if (const auto exit_code = line.Parse(argc, argv)) return *exit_code;
  flags.join.path = static_cast<epic::PathChoice>(path);
  flags.join.algorithm = static_cast<epic::HostAlgorithm>(algorithm);
  flags.integers = flags.type == "int32";
  flags.join.timeout = std::chrono::seconds(flags.timeout_s);
  flags.join.join_timeout = std::chrono::seconds(flags.join_timeout_s);
  return Loop(flags).Run();
}
