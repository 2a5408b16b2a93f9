// epic-perf: measures and verifies collectives between ranks, one process each.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bench/collective.h"
#include "bench/link_bytes.h"
#include "bench/perf_options.h"
#include "bench/report.h"
#include "epic/epic.h"
#include "epic/parallel.h"

namespace epic::perf {
namespace {

// What a rank tells the others of a row: a multiple of every element's size.
struct Figures {
  uint64_t ns = 0;
  uint64_t wrong = 0;
  uint64_t sent = 0, received = 0;  // bytes
};
static_assert(sizeof(Figures) % 8 == 0);

// What an out-of-place result buffer holds before the call.
constexpr uint8_t kNothing = 0xee;

// The ranks that are measured.
struct Ranks {
  bool are_parallel = false;
  Communicator comm;
  ParallelCommunicator parallel;

  Error Init(const Options& options) { return are_parallel ? parallel.Init(options) : comm.Init(options); }
  Error Destroy() { return are_parallel ? parallel.Destroy() : comm.Destroy(); }
  Error AsyncError() const { return are_parallel ? parallel.AsyncError() : comm.AsyncError(); }
  // For what the ranks tell each other between the calls that are measured.
  Communicator& everyone() { return are_parallel ? parallel.everyone() : comm; }
  // The group by whose switches the calls go.
  const Communicator& group() const { return are_parallel ? parallel.ring() : comm; }
  Error Run(const Job& job, const Buffers& buffers) {
    return are_parallel ? perf::Run(job, buffers, parallel) : perf::Run(job, buffers, comm);
  }
};

class Runner {
 public:
  Runner(const PerfOptions& options, Ranks& ranks)
      : options_(options), ranks_(ranks), comm_(ranks.everyone()), group_(ranks.group()) {}

  Error Run(Report* report, bool* any_wrong);

 private:
  Error Allocate();
  Error RunJob(const Job& job, const Series& series, Row* row);
  PathTaken PathOf(const Job& job) const;
  Buffers BuffersOf(const Job& job, bool in_place, size_t pair);
  Error Time(const Job& job, const Series& series, bool in_place, Measured* measured);
  Error TimeCalls(int calls, const Job& job, bool in_place);
  // After all ranks have come here. Does nothing unless bytes are counted.
  Error Count(LinkBytes* bytes);
  Error Check(const Job& job, bool in_place, Measured* measured);
  // The slowest rank's time, the number of wrong elements of all ranks, and the bytes of each.
  Error Combine(Measured* measured);
  Error Gather(std::vector<Figures>* all);
  // All sizes of one collective with one type and operation. What the group's switches lack, where no hosts
  // help out, is told and left out.
  Error RunSizes(Kind kind, Datatype type, RedOp op, Report* report, bool* any_wrong);
  void Print(const std::string& text) const;

  const PerfOptions& options_;
  Ranks& ranks_;
  Communicator& comm_;
  const Communicator& group_;
  // One pair for every call that can be outstanding.
  std::vector<std::vector<uint8_t>> send_, recv_;
  std::vector<Registration> registrations_;
  uint32_t run_ = 0;  // numbers the verified runs: what an earlier one left behind is wrong in a later one
  bool wrong_here_ = false;
  Accuracy accuracy_;    // of what was checked here and travelled in blocks
  LinkBytes here_ = {};  // of the last calls that were timed
  Error refused_;        // the last that was left out
};

Error Runner::Allocate() {
  const auto pairs = static_cast<size_t>(options_.aggregated);
  const size_t bytes = std::max<size_t>(4, options_.max_bytes);
  send_.assign(pairs, std::vector<uint8_t>(bytes));
  recv_.assign(pairs, std::vector<uint8_t>(bytes));
  if (!options_.registered) return {};
  for (auto* side : {&send_, &recv_}) {
    for (auto& buffer : *side) {
      Registration registration;
      if (Error e = Register(comm_, buffer.data(), buffer.size(), &registration); !e.ok()) return e;
      registrations_.push_back(std::move(registration));
    }
  }
  return {};
}

// In place everything happens in the receive buffer.
Buffers Runner::BuffersOf(const Job& job, bool in_place, size_t pair) {
  if (in_place) return InPlace(job, recv_[pair].data());
  return {.send = send_[pair].data(), .recv = recv_[pair].data()};
}

Error Runner::TimeCalls(int calls, const Job& job, bool in_place) {
  for (; ranks_.are_parallel && calls > 0; --calls) {
    if (Error e = ranks_.Run(job, BuffersOf(job, in_place, 0)); !e.ok()) return e;
  }
  std::vector<Request> requests(static_cast<size_t>(options_.aggregated));
  while (calls > 0) {
    const size_t now = static_cast<size_t>(std::min(calls, options_.aggregated));
    for (size_t i = 0; i < now; ++i) {
      if (Error e = Start(job, BuffersOf(job, in_place, i), comm_, &requests[i]); !e.ok()) return e;
    }
    for (size_t i = 0; i < now; ++i) {
      if (Error e = requests[i].Wait(); !e.ok()) return e;
    }
    calls -= static_cast<int>(now);
  }
  return {};
}

Error Runner::Time(const Job& job, const Series& series, bool in_place, Measured* measured) {
  if (Error e = TimeCalls(series.warmup, job, in_place); !e.ok()) return e;
  LinkBytes counted = {}, later = {};
  if (Error e = Count(&counted); !e.ok()) return e;
  if (Error e = Barrier(comm_); !e.ok()) return e;
  using Microseconds = std::chrono::duration<double, std::micro>;
  const int calls = series.iterations * options_.aggregated;
  std::vector<double> times;
  times.reserve(options_.aggregated == 1 ? static_cast<size_t>(calls) : 0);
  const auto begin = std::chrono::steady_clock::now();
  if (options_.aggregated == 1) {
    for (auto before = begin; times.size() < static_cast<size_t>(calls);) {
      if (Error e = ranks_.Run(job, BuffersOf(job, in_place, 0)); !e.ok()) return e;
      const auto now = std::chrono::steady_clock::now();
      times.push_back(Microseconds(now - std::exchange(before, now)).count());
    }
  } else if (Error e = TimeCalls(calls, job, in_place); !e.ok()) {
    return e;
  }
  measured->time_us = Microseconds(std::chrono::steady_clock::now() - begin).count() / calls;
  if (options_.each) measured->each_us = times;
  measured->p50_us = Percentile(times, 50);
  measured->p99_9_us = Percentile(std::move(times), 99.9);
  if (Error e = Count(&later); !e.ok()) return e;
  here_ = {.sent = later.sent - counted.sent, .received = later.received - counted.received};
  return {};
}

Error Runner::Count(LinkBytes* bytes) {
  if (options_.counted.empty()) return {};
  if (Error e = Barrier(comm_); !e.ok()) return e;
  if (CountLinkBytes(options_.counted.c_str(), bytes) == 0) return {};
  return {ErrorCode::kNotFound, "--count-bytes: there is no network device " + options_.counted};
}

Error Runner::Check(const Job& job, bool in_place, Measured* measured) {
  if (options_.checks == 0) return {};
  measured->wrong = 0;
  const Buffers buffers = BuffersOf(job, in_place, 0);
  for (int i = 0; i < options_.checks; ++i) {
    ++run_;
    if (!in_place) std::memset(buffers.recv, kNothing, job.recv_bytes());
    Fill(job, run_, buffers.send);
    if (Error e = ranks_.Run(job, buffers); !e.ok()) return e;
    measured->wrong += static_cast<int64_t>(Wrong(job, run_, buffers.recv, &accuracy_));
  }
  wrong_here_ |= measured->wrong > 0;
  return {};
}

// Copies have the same bits whatever their type: the first that the group has will do.
Error Runner::Gather(std::vector<Figures>* all) {
  const Figures* const mine = &(*all)[static_cast<size_t>(comm_.rank())];
  Error error;
  for (const Datatype type : AllTypes()) {
    error = AllGather(mine, all->data(), sizeof(Figures) / ElementBytes(type), type, comm_);
    if (error.code() != ErrorCode::kUnsupported) break;
  }
  return error;
}

Error Runner::Combine(Measured* measured) {
  std::vector<Figures> all(static_cast<size_t>(comm_.size()));
  const bool verified = measured->wrong >= 0;
  all[static_cast<size_t>(comm_.rank())] = {.ns = static_cast<uint64_t>(measured->time_us * 1000),
                                            .wrong = verified ? static_cast<uint64_t>(measured->wrong) : 0,
                                            .sent = here_.sent,
                                            .received = here_.received};
  if (Error e = Gather(&all); !e.ok()) return e;
  Figures total;
  for (const Figures& one : all) {
    total.ns = std::max(total.ns, one.ns);
    total.wrong += one.wrong;
    if (options_.counted.empty()) continue;
    measured->sent.push_back(one.sent);
    measured->received.push_back(one.received);
  }
  measured->time_us = static_cast<double>(total.ns) / 1000;
  if (verified) measured->wrong = static_cast<int64_t>(total.wrong);
  return {};
}

// A barrier has neither type nor operation that a switch could lack.
PathTaken Runner::PathOf(const Job& job) const {
  if (job.kind == Kind::kBarrier) return group_.Path();
  if (job.kind == Kind::kReduceScatter) return group_.PathOfReduceScatter(job.count, job.type, job.op);
  if (job.kind == Kind::kBroadcast) return group_.PathOfBroadcast(job.count, job.type);
  if (job.kind == Kind::kAllGather) return group_.PathOfAllGather(job.count, job.type);
  return group_.PathOf(job.type, job.op);
}

Error Runner::RunJob(const Job& job, const Series& series, Row* row) {
  row->kind = job.kind;
  row->bytes = job.total_bytes();
  row->count = job.count;
  row->type = job.kind == Kind::kBarrier ? "none" : Name(job.type);
  row->redop = Reduces(job.kind) ? Name(job.op) : "none";
  if (HasRoot(job.kind)) row->root = job.root;
  row->path = PathOf(job);
  for (const bool in_place : {false, true}) {
    Measured& half = in_place ? row->in_place : row->out_of_place;
    if (in_place && job.kind == Kind::kBarrier) {
      half = row->out_of_place;  // a barrier has no buffers
      continue;
    }
    if (Error e = Time(job, series, in_place, &half); !e.ok()) return e;
    if (job.kind != Kind::kBarrier) {
      if (Error e = Check(job, in_place, &half); !e.ok()) return e;
    }
    if (Error e = Combine(&half); !e.ok()) return e;
  }
  return {};
}

Error Runner::RunSizes(Kind kind, Datatype type, RedOp op, Report* report, bool* any_wrong) {
  for (const Series& series : SeriesOf(options_, kind)) {
    const bool empty = kind == Kind::kBarrier;
    Job job{.kind = kind,
            .type = type,
            .op = op,
            .count = empty ? 0 : CountOf(series.bytes, kind, type, comm_.size()),
            .root = options_.root,
            .rank = comm_.rank(),
            .ranks = comm_.size(),
            .scale = group_.Quantised().scale};
    job.levels = LevelsOf(job, group_.Quantised());
    Row row;
    if (Error e = RunJob(job, series, &row); !e.ok()) {
      // Refused before anything was sent, and on every rank: else the communicator is of no more use.
      if (e.code() != ErrorCode::kUnsupported || !ranks_.AsyncError().ok()) return e;
      Print(report->Skip(row, e.message()));
      refused_ = e;
      return {};
    }
    *any_wrong |= wrong_here_ || row.out_of_place.wrong > 0 || row.in_place.wrong > 0;
    Print(report->Add(row));
  }
  return {};
}

void Runner::Print(const std::string& text) const {
  if (comm_.rank() != 0) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Error Runner::Run(Report* report, bool* any_wrong) {
  if (Error e = Allocate(); !e.ok()) return e;
  Print(report->Header());
  for (const Kind kind : options_.kinds) {
    if (options_.kinds.size() > 1) Print(report->Section(kind));
    const size_t types = kind == Kind::kBarrier ? 1 : options_.types.size();
    const size_t ops = Reduces(kind) ? options_.ops.size() : 1;
    for (size_t type = 0; type < types; ++type) {
      for (size_t op = 0; op < ops; ++op) {
        if (!Possible(kind, options_.types[type], options_.ops[op])) continue;
        const Error e = RunSizes(kind, options_.types[type], options_.ops[op], report, any_wrong);
        if (!e.ok()) return e;
      }
    }
  }
  if (!report->has_rows() && !refused_.ok()) return refused_;
  // Nobody's figures change by it, so that a manager that does not answer is no failure.
  std::vector<TroubleCount> trouble;
  if (comm_.rank() == 0 && group_.Trouble(&trouble).ok()) {
    report->SetTrouble(std::move(trouble));
  }
  if (const Quantisation quantised = group_.Quantised(); quantised.scale != 0 || quantised.int8)
    report->SetQuantisation(quantised, accuracy_);
  if (const Sharing sharing = group_.Shared(); sharing.shares) report->SetSharing(sharing);
  if (const DatagramCounts datagrams = group_.Datagrams(); datagrams.multicast)
    report->SetDatagrams(datagrams);
  Print(report->Footer());
  return {};
}

int Fail(const char* what, const Error& error) {
  fmt::print(stderr, "epic-perf: {}: {}: {}\n", what, ErrorName(error.code()), error.message());
  return 1;
}

int Main(int argc, const char* const* argv) {
  int exit_code = 0;
  const auto options = ParsePerfOptions(argc, argv, &exit_code);
  if (!options) return exit_code;
  Ranks ranks{.are_parallel = options->parallel, .comm = {}, .parallel = {}};
  if (const Error e = ranks.Init(options->communicator); !e.ok()) return Fail("cannot join", e);
  const std::string& group = options->communicator.group;
  Report report(options->kinds.size() == 1 ? Name(options->kinds[0]) : "all collectives",
                group.empty() ? "from the environment" : group, ranks.everyone().size(),
                ranks.group().path_mtu(), options->json);
  bool any_wrong = false;
  const Error ran = Runner(*options, ranks).Run(&report, &any_wrong);
  if (!ran.ok()) {
    // Who was refused leaves a communicator that is whole in order: dropped, it would end a call that is not
    // over at another rank, which then told of that and not of what was refused.
    if (ranks.AsyncError().ok()) (void)ranks.Destroy();
    return Fail("the run failed", ran);
  }
  if (const Error e = ranks.Destroy(); !e.ok()) return Fail("cannot leave", e);
  if (any_wrong) fmt::print(stderr, "epic-perf: there were wrong elements\n");
  return any_wrong ? 1 : 0;
}

}  // namespace
}  // namespace epic::perf

int main(int argc, char** argv) { return epic::perf::Main(argc, argv); }
