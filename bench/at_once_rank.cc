// One rank of two groups at once, an AllGather in one beside a ReduceScatter in the other, as an optimiser
// with sharded weights makes them. Every result is checked. Rank 0 writes a JSON object, times being medians
// of the slowest rank's, and "read" the chunks that no datagram brought to the rank with the most of them:
//   {"gather_us": 31000, "scatter_us": 33000, "at_once_us": 36000, "read": 0, "wrong": 0}
// Exit status 0 if all was right, 1 if not, 2 for usage.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "bench/collective.h"
#include "epic/epic.h"
#include "protocol/modes.h"

namespace epic::perf {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  Options join;
  HostAlgorithm gather = HostAlgorithm::kRing;
  int mode = 0;  // of the ReduceScatter's group; 0: around the ring
  uint64_t bytes = 1 << 20;
  int calls = 5;
};

// A group with the buffers of its calls.
struct Side {
  Job job;
  Communicator comm;
  std::vector<uint8_t> send, recv;

  Error Init(const Options& options, const Flags& flags, Kind kind) {
    job = {.kind = kind, .type = Datatype::kInt32, .rank = options.rank, .ranks = options.size};
    job.count = flags.bytes / ElementBytes(job.type);
    send.resize(job.send_bytes());
    recv.resize(job.recv_bytes());
    return comm.Init(options);
  }
};

class Rank {
 public:
  explicit Rank(const Flags& flags) : flags_(flags) {}

  Error Run() {
    Options options = flags_.join;
    options.group = flags_.join.group + "-gather";
    options.path = PathChoice::kHosts;
    options.algorithm = flags_.gather;
    if (Error e = gather_.Init(options, flags_, Kind::kAllGather); !e.ok()) return e;
    options.group = flags_.join.group + "-scatter";
    options.algorithm = HostAlgorithm::kRing;
    options.mode = flags_.mode;
    if (flags_.mode != 0) options.path = PathChoice::kNetwork;
    if (Error e = scatter_.Init(options, flags_, Kind::kReduceScatter); !e.ok()) return e;
    int64_t gather = 0, scatter = 0, both = 0;
    if (Error e = Median({&gather_}, &gather); !e.ok()) return e;
    if (Error e = Median({&scatter_}, &scatter); !e.ok()) return e;
    if (Error e = Median({&gather_, &scatter_}, &both); !e.ok()) return e;
    if (Error e = Slowest(static_cast<int64_t>(wrong_), &wrong_of_all_); !e.ok()) return e;
    int64_t read = 0;
    if (Error e = Slowest(static_cast<int64_t>(gather_.comm.Datagrams().read), &read); !e.ok()) return e;
    if (flags_.join.rank == 0) {
      fmt::print(R"({{"gather_us": {}, "scatter_us": {}, "at_once_us": {}, "read": {}, "wrong": {}}})"
                 "\n",
                 gather, scatter, both, read, wrong_of_all_);
    }
    const Error left = gather_.comm.Destroy();
    const Error also = scatter_.comm.Destroy();
    return left.ok() ? also : left;
  }

  bool right() const { return wrong_of_all_ == 0; }

 private:
  // The largest of what all ranks have, when all have come here.
  Error Slowest(int64_t here, int64_t* of_all) {
    return AllReduce(&here, of_all, 1, Datatype::kInt64, RedOp::kMax, gather_.comm);
  }

  // Microseconds of a call of each of these at once, after one to warm up.
  Error Median(const std::vector<Side*>& sides, int64_t* us) {
    std::vector<int64_t> times;
    for (int call = 0; call <= flags_.calls; ++call) {
      int64_t took = 0;
      if (Error e = Once(sides, &took); !e.ok()) return e;
      if (call > 0) times.push_back(took);
    }
    std::ranges::sort(times);
    *us = times[times.size() / 2];
    return {};
  }

  Error Once(const std::vector<Side*>& sides, int64_t* us) {
    ++run_;
    for (Side* side : sides) Fill(side->job, run_, side->send.data());
    int64_t nothing = 0;
    if (Error e = Slowest(0, &nothing); !e.ok()) return e;
    const Clock::time_point begin = Clock::now();
    std::vector<Request> requests(sides.size());
    for (size_t i = 0; i < sides.size(); ++i) {
      Side& side = *sides[i];
      const Buffers buffers{.send = side.send.data(), .recv = side.recv.data()};
      if (Error e = Start(side.job, buffers, side.comm, &requests[i]); !e.ok()) return e;
    }
    for (Request& request : requests) {
      if (Error e = request.Wait(); !e.ok()) return e;
    }
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
    for (const Side* side : sides) wrong_ += Wrong(side->job, run_, side->recv.data());
    return Slowest(took, us);
  }

  const Flags flags_;
  Side gather_, scatter_;
  uint32_t run_ = 0;
  uint64_t wrong_ = 0;
  int64_t wrong_of_all_ = 0;  // of the rank with the most
};

int Main(int argc, char** argv) {
  Flags flags;
  std::string gather = "ring";
  CommandLine line("One rank that makes an AllGather in one group beside a ReduceScatter in another one");
  line.Add("--group", &flags.join.group, "Both groups' names begin so").Required();
  line.Add("--rank", &flags.join.rank).Required();
  line.Add("--size", &flags.join.size).Required();
  line.Add("--manager", &flags.join.manager);
  line.Add("--all-gather", &gather, "How hosts make it").OneOf({"ring", "multicast"});
  line.Add("--mode", &flags.mode, "Of the ReduceScatter's switches: " + ModeChoice() + "; 0: around the ring")
      .Changed([](std::string& text) { return text == "0" ? "" : ModeToNumber(text); });
  line.Add("--bytes", &flags.bytes, "Of a rank's part");
  line.Add("--calls", &flags.calls, "Of each kind").From(1, 1000, "calls");
  if (const auto exit_code = line.Parse(argc, argv, 2)) return *exit_code;
  flags.gather = gather == "multicast" ? HostAlgorithm::kMulticast : HostAlgorithm::kRing;
  Rank rank(flags);
  if (const Error error = rank.Run(); !error.ok()) {
    fmt::print(stderr, "at_once_rank: {}: {}\n", ErrorName(error.code()), error.message());
    return 1;
  }
  return rank.right() ? 0 : 1;
}

}  // namespace
}  // namespace epic::perf

int main(int argc, char** argv) { return epic::perf::Main(argc, argv); }
