// epic-perf: measures and verifies collectives between ranks, one process each.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/pattern.h"
#include "bench/perf_options.h"
#include "bench/report.h"
#include "epic/epic.h"

namespace epic::perf {
namespace {

// Sums of wrong elements travel as INT32.
constexpr uint64_t kWrongCap = 1 << 20;

class Runner {
 public:
  Runner(const PerfOptions& options, Communicator& comm) : options_(options), comm_(comm) {}

  Error Run(Report* report, bool* any_wrong);

 private:
  Error Allocate();
  Error RunSize(uint64_t count, Datatype type, Row* row);
  Error RunBarrier(Row* row);
  // `in_place` sums in the receive buffers.
  Error Time(uint64_t count, Datatype type, bool in_place, Measured* measured);
  Error TimeCalls(int calls, uint64_t count, Datatype type, bool in_place);
  Error Check(uint64_t count, Datatype type, bool in_place, Measured* measured);
  // The slowest rank's time and the number of wrong elements of all ranks.
  Error Combine(Measured* measured);
  void Fill(void* buffer, uint64_t count, Datatype type) const;
  uint64_t Wrong(const void* buffer, uint64_t count, Datatype type) const;

  const PerfOptions& options_;
  Communicator& comm_;
  // One pair for every call that can be outstanding.
  std::vector<std::vector<int32_t>> send_, recv_;
  std::vector<Registration> registrations_;
  uint32_t run_ = 0;  // numbers the verified runs: what an earlier one left behind is wrong in a later one
  bool wrong_here_ = false;
};

Error Runner::Allocate() {
  const auto pairs = static_cast<size_t>(options_.aggregated);
  const size_t elements = std::max<size_t>(1, options_.max_bytes / 4);
  send_.assign(pairs, std::vector<int32_t>(elements));
  recv_.assign(pairs, std::vector<int32_t>(elements));
  if (!options_.registered) return {};
  for (auto* side : {&send_, &recv_}) {
    for (auto& buffer : *side) {
      Registration registration;
      if (Error e = Register(comm_, buffer.data(), buffer.size() * 4, &registration); !e.ok()) return e;
      registrations_.push_back(std::move(registration));
    }
  }
  return {};
}

Error Runner::TimeCalls(int calls, uint64_t count, Datatype type, bool in_place) {
  std::vector<Request> requests(static_cast<size_t>(options_.aggregated));
  while (calls > 0) {
    const size_t now = static_cast<size_t>(std::min(calls, options_.aggregated));
    for (size_t i = 0; i < now; ++i) {
      const void* send = in_place ? recv_[i].data() : send_[i].data();
      const Error e = options_.barrier ? BarrierAsync(comm_, &requests[i])
                                       : AllReduceAsync(send, recv_[i].data(), count, type, RedOp::kSum,
                                                        comm_, &requests[i]);
      if (!e.ok()) return e;
    }
    for (size_t i = 0; i < now; ++i) {
      if (Error e = requests[i].Wait(); !e.ok()) return e;
    }
    calls -= static_cast<int>(now);
  }
  return {};
}

Error Runner::Time(uint64_t count, Datatype type, bool in_place, Measured* measured) {
  if (Error e = TimeCalls(options_.warmup, count, type, in_place); !e.ok()) return e;
  if (Error e = Barrier(comm_); !e.ok()) return e;
  const int calls = options_.iterations * options_.aggregated;
  const auto begin = std::chrono::steady_clock::now();
  if (options_.aggregated == 1) {
    for (int i = 0; i < calls; ++i) {
      const void* send = in_place ? recv_[0].data() : send_[0].data();
      const Error e = options_.barrier ? Barrier(comm_)
                                       : AllReduce(send, recv_[0].data(), count, type, RedOp::kSum, comm_);
      if (!e.ok()) return e;
    }
  } else if (Error e = TimeCalls(calls, count, type, in_place); !e.ok()) {
    return e;
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  measured->time_us = took.count() / calls;
  return {};
}

void Runner::Fill(void* buffer, uint64_t count, Datatype type) const {
  if (type == Datatype::kInt32) {
    FillInput(std::span(static_cast<int32_t*>(buffer), count), comm_.rank(), run_);
  } else {
    FillInput(std::span(static_cast<float*>(buffer), count), comm_.rank(), comm_.size(), run_);
  }
}

uint64_t Runner::Wrong(const void* buffer, uint64_t count, Datatype type) const {
  if (type == Datatype::kInt32)
    return CountWrong(std::span(static_cast<const int32_t*>(buffer), count), comm_.size(), run_);
  return CountWrong(std::span(static_cast<const float*>(buffer), count), comm_.size(), run_);
}

Error Runner::Check(uint64_t count, Datatype type, bool in_place, Measured* measured) {
  if (options_.checks == 0) return {};
  measured->wrong = 0;
  for (int i = 0; i < options_.checks; ++i) {
    ++run_;
    void* send = in_place ? recv_[0].data() : send_[0].data();
    Fill(send, count, type);
    if (Error e = AllReduce(send, recv_[0].data(), count, type, RedOp::kSum, comm_); !e.ok()) return e;
    measured->wrong += static_cast<int64_t>(Wrong(recv_[0].data(), count, type));
  }
  wrong_here_ |= measured->wrong > 0;
  return {};
}

// There is only SUM: each rank puts its figures into a row of its own.
Error Runner::Combine(Measured* measured) {
  constexpr size_t kFields = 3;
  const auto ranks = static_cast<size_t>(comm_.size());
  std::vector<int32_t> table(ranks * kFields);
  const auto ns = static_cast<uint64_t>(measured->time_us * 1000);
  int32_t* mine = &table[static_cast<size_t>(comm_.rank()) * kFields];
  mine[0] = static_cast<int32_t>(ns >> 30);
  mine[1] = static_cast<int32_t>(ns & ((1u << 30) - 1));
  const bool verified = measured->wrong >= 0;
  mine[2] = static_cast<int32_t>(
      std::min<uint64_t>(kWrongCap, verified ? static_cast<uint64_t>(measured->wrong) : 0));
  const Error e = AllReduce(table.data(), table.data(), table.size(), Datatype::kInt32, RedOp::kSum, comm_);
  if (!e.ok()) return e;
  uint64_t slowest = 0;
  int64_t wrong = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const int32_t* row = &table[r * kFields];
    slowest = std::max(slowest, (static_cast<uint64_t>(row[0]) << 30) + static_cast<uint64_t>(row[1]));
    wrong += row[2];
  }
  measured->time_us = static_cast<double>(slowest) / 1000;
  if (verified) measured->wrong = wrong;
  return {};
}

Error Runner::RunSize(uint64_t count, Datatype type, Row* row) {
  row->bytes = count * 4;
  row->count = count;
  row->type = type == Datatype::kInt32 ? "int32" : "float";
  row->redop = "sum";
  for (const bool in_place : {false, true}) {
    Measured& half = in_place ? row->in_place : row->out_of_place;
    if (Error e = Time(count, type, in_place, &half); !e.ok()) return e;
    if (Error e = Check(count, type, in_place, &half); !e.ok()) return e;
    if (Error e = Combine(&half); !e.ok()) return e;
  }
  return {};
}

Error Runner::RunBarrier(Row* row) {
  row->type = row->redop = "none";
  if (Error e = Time(0, Datatype::kInt32, false, &row->out_of_place); !e.ok()) return e;
  if (Error e = Combine(&row->out_of_place); !e.ok()) return e;
  row->in_place = row->out_of_place;  // a barrier has no buffers
  return {};
}

Error Runner::Run(Report* report, bool* any_wrong) {
  if (Error e = Allocate(); !e.ok()) return e;
  const auto print = [&](const std::string& text) {
    if (comm_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  const auto add = [&](const Row& row) {
    *any_wrong |= wrong_here_ || row.out_of_place.wrong > 0 || row.in_place.wrong > 0;
    print(report->Add(row));
  };
  print(report->Header());
  if (options_.barrier) {
    Row row;
    if (Error e = RunBarrier(&row); !e.ok()) return e;
    add(row);
  } else {
    for (const Datatype type : options_.types) {
      for (const uint64_t count : Counts(options_)) {
        Row row;
        if (Error e = RunSize(count, type, &row); !e.ok()) return e;
        add(row);
      }
    }
  }
  print(report->Footer());
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
  Communicator comm;
  if (const Error e = comm.Init(options->communicator); !e.ok()) return Fail("cannot join", e);
  const std::string& group = options->communicator.group;
  Report report(options->barrier ? "barrier" : "allreduce", group.empty() ? "from the environment" : group,
                comm.size(), comm.path_mtu(), options->json);
  bool any_wrong = false;
  {
    Runner runner(*options, comm);
    if (const Error e = runner.Run(&report, &any_wrong); !e.ok()) return Fail("the run failed", e);
  }
  if (const Error e = comm.Destroy(); !e.ok()) return Fail("cannot leave", e);
  if (any_wrong) fmt::print(stderr, "epic-perf: there were wrong elements\n");
  return any_wrong ? 1 : 0;
}

}  // namespace
}  // namespace epic::perf

int main(int argc, char** argv) { return epic::perf::Main(argc, argv); }
