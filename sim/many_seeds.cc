#include "sim/many_seeds.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "base/check.h"

namespace epic::sim {
namespace {

// What a worker says after each run.
struct Report {
  uint64_t seed = 0;
  Verdict verdict = Verdict::kRight;
  Counts counts;
};

struct Worker {
  pid_t pid = 0;
  int pipe = -1;
  uint64_t seed = 0;  // that it is at
};

Scenario WithSeed(Scenario scenario, uint64_t seed) {
  scenario.seed = seed;
  const auto complete = Complete(std::move(scenario));
  EPIC_CHECK(complete.ok());
  return *complete;
}

// Does every jobs-th seed from `first` on and leaves.
[[noreturn]] void Work(const Scenario& scenario, const SeedRange& range, const Runner& run, uint64_t first,
                       int pipe) {
  const auto step = static_cast<uint64_t>(range.jobs);
  for (uint64_t seed = first; seed <= range.to; seed += step) {
    const Outcome outcome = run(WithSeed(scenario, seed));
    const Report report{.seed = seed, .verdict = outcome.verdict, .counts = outcome.counts};
    if (write(pipe, &report, sizeof report) != static_cast<ssize_t>(sizeof report)) _exit(1);
    if (outcome.verdict != Verdict::kRight || range.to - seed < step) break;
  }
  _exit(0);
}

Worker StartWorker(const Scenario& scenario, const SeedRange& range, const Runner& run, uint64_t first) {
  int ends[2];
  EPIC_CHECK(pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t pid = fork();
  EPIC_CHECK(pid >= 0);
  if (pid == 0) {
    close(ends[0]);
    Work(scenario, range, run, first, ends[1]);
  }
  close(ends[1]);
  return {.pid = pid, .pipe = ends[0], .seed = first};
}

// Reaps it; true if it left by itself.
bool Ended(Worker& worker) {
  close(worker.pipe);
  worker.pipe = -1;
  int status = 0;
  EPIC_CHECK(waitpid(worker.pid, &status, 0) == worker.pid);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::optional<int> InChild(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  EPIC_CHECK(pid >= 0);
  if (pid == 0) {
    const int result = body();
    std::fflush(nullptr);
    _exit(result);
  }
  int status = 0;
  EPIC_CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
}

RangeResult RunSeeds(const Scenario& scenario, const SeedRange& range, const Runner& run,
                     const std::function<void(const Counts&)>& progress) {
  RangeResult result;
  std::vector<Worker> workers;
  for (int j = 0; j < range.jobs && range.to - range.from >= static_cast<uint64_t>(j); ++j)
    workers.push_back(StartWorker(scenario, range, run, range.from + static_cast<uint64_t>(j)));
  size_t running = workers.size();
  while (running > 0 && !result.violation) {
    std::vector<pollfd> ready;
    for (const Worker& worker : workers) ready.push_back({.fd = worker.pipe, .events = POLLIN, .revents = 0});
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    for (size_t w = 0; w < workers.size() && !result.violation; ++w) {
      if (ready[w].revents == 0) continue;
      Report report;
      // A report is shorter than PIPE_BUF: it comes as a whole or not at all.
      if (read(workers[w].pipe, &report, sizeof report) != static_cast<ssize_t>(sizeof report)) {
        --running;
        if (!Ended(workers[w])) result.violation = workers[w].seed;
      } else if (report.verdict != Verdict::kRight) {
        result.violation = report.seed;
      } else {
        workers[w].seed = report.seed + static_cast<uint64_t>(range.jobs);
        result.counts += report.counts;
        progress(result.counts);
      }
    }
  }
  for (Worker& worker : workers) {
    if (worker.pipe < 0) continue;
    kill(worker.pid, SIGTERM);
    Ended(worker);
  }
  return result;
}

}  // namespace epic::sim
