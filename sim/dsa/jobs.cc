#include "sim/dsa/jobs.h"

#include <algorithm>
#include <memory>

#include "sim/dsa/network.h"
#include "sim/dsa/server.h"
#include "sim/dsa/switch.h"
#include "sim/dsa/worker.h"

namespace epic::sim::dsa {
namespace {

struct Job {
  Picos start = 0;
  std::vector<Worker> workers;
};

Picos UpTo(Choices& choices, Picos most) {
  return static_cast<Picos>(choices.Below(static_cast<uint64_t>(most) + 1));
}

// When the backward pass has made each partition, and its jitter is over.
Worker::Schedule ScheduleOf(const JobsConfig& config, const Dnn& dnn, Picos start, Picos of_job,
                            Choices& choices) {
  const Picos backward = dnn.layer_time * (100 - config.forward_percent) / 100;
  const Picos of_worker = config.jitter_of == JitterOf::kJob ? of_job : UpTo(choices, config.jitter);
  Worker::Schedule schedule;
  Picos before = 0;
  for (int partition = 0; partition < kPartitions; ++partition) {
    const Picos made = start + (partition == 0 ? 1 : 2) * backward;
    const Picos jitter = config.jitter_of == JitterOf::kTensor ? UpTo(choices, config.jitter) : of_worker;
    before = std::max(before, made + jitter);
    schedule[static_cast<size_t>(partition)] = before;
  }
  return schedule;
}

std::vector<Job> MakeJobs(const JobsConfig& config, Network& network, Records& records) {
  Choices choices(config.seed);
  std::vector<Job> jobs(config.jobs.size());
  for (size_t j = 0; j < jobs.size(); ++j) {
    jobs[j].start = UpTo(choices, config.start_spread);
    const Picos of_job = UpTo(choices, config.jitter);
    std::vector<Worker>& workers = jobs[j].workers;
    workers.reserve(static_cast<size_t>(config.workers));
    for (int worker = 0; worker < config.workers; ++worker) {
      const Worker::Schedule schedule = ScheduleOf(config, config.jobs[j], jobs[j].start, of_job, choices);
      workers.emplace_back(config, static_cast<int>(j), worker, schedule, network, records);
    }
  }
  return jobs;
}

bool IsDone(const Job& job) {
  return std::all_of(job.workers.begin(), job.workers.end(), [](const Worker& w) { return w.done(); });
}

Spread SpreadOf(std::vector<uint32_t>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](size_t percent) { return Nanos{values[(values.size() - 1) * percent / 100]}; };
  return {.p10 = at(10), .p50 = at(50), .p90 = at(90), .p99 = at(99)};
}

void CountOpen(const Job& job, uint32_t packets, bool in_place, Open& open) {
  if (IsDone(job)) return;
  ++open.jobs;
  for (uint32_t index = 0; index < packets; ++index) {
    const auto with = std::count_if(job.workers.begin(), job.workers.end(),
                                    [&](const Worker& w) { return w.HasResult(index); });
    if (with == static_cast<int64_t>(job.workers.size())) continue;
    ++open.indices;
    if (with > 0 && in_place) ++open.hung;
  }
}

void SumUpJobs(const JobsConfig& config, const std::vector<Job>& jobs, JobsRun& run) {
  int64_t ended = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const Job& job = jobs[j];
    CountOpen(job, JobPackets(config, static_cast<int>(j)), config.in_place, run.open);
    if (!IsDone(job)) continue;
    ++ended;
    Picos end = 0;
    Picos last = 0;
    for (const Worker& worker : job.workers) {
      end = std::max(end, worker.ended());
      last = std::max(last, worker.last_result());
    }
    run.completion += WholeNanos(end - job.start);
    const double bits = 8.0 * kPartitions * static_cast<double>(config.jobs[j].partition_bytes);
    const Picos computed = config.jobs[j].layer_time * (100 - config.forward_percent) / 100;
    const double seconds = static_cast<double>(last - job.start - computed) / kPicosPerSecond;
    run.utilisation += bits / seconds / static_cast<double>(config.bits_per_second);
  }
  if (ended == 0) return;
  run.completion /= ended;
  run.utilisation /= static_cast<double>(ended);
}

void SumUpIndices(const JobsConfig& config, JobsRun& run) {
  std::vector<uint32_t> whole;
  std::vector<uint32_t> split;
  std::vector<uint32_t> rest;
  for (const auto& of_job : run.records.indices) {
    for (const IndexRecord& index : of_job) {
      ++run.types[static_cast<size_t>(TypeOf(index))];
      if (index.whole < 0) continue;
      (index.lost ? split : whole).push_back(static_cast<uint32_t>(WholeNanos(index.whole - index.first)));
      if (!index.lost) continue;
      const Picos behind = std::max<Picos>(index.whole - index.last, 0);
      rest.push_back(static_cast<uint32_t>(WholeNanos(behind)));
      if (behind >= config.least_timeout / 2) ++run.stalled;
    }
  }
  run.whole = SpreadOf(whole);
  run.split = SpreadOf(split);
  run.split_rest = SpreadOf(rest);
  run.claims = SpreadOf(run.records.claims);
  for (const Packet& p : run.records.lost_packets)
    ++run.lost_types[static_cast<size_t>(TypeOf(run.records.Of(p)))];
}

}  // namespace

JobsRun RunJobs(const JobsConfig& config) {
  JobsRun run(config);
  Records& records = run.records;
  Network network(config, records);
  Switch the_switch(config, network, records);
  std::vector<Server> servers;
  servers.reserve(config.jobs.size());
  for (int job = 0; job < network.jobs(); ++job) servers.emplace_back(config, job, network, records);
  std::vector<Job> jobs = MakeJobs(config, network, records);
  const uint32_t first_server = network.ServerHost(0);
  uint32_t working = first_server;  // workers that are not done
  while (working > 0 && network.next_time() <= config.most_time) {
    const Network::Due due = network.TakeNext();
    const bool is_server = due.host >= first_server;
    if (due.is_up) {
      is_server ? the_switch.OnFromServer(due.time, due.packet)
                : the_switch.OnFromWorker(due.time, due.packet);
    } else if (is_server) {
      Server& server = servers[due.host - first_server];
      due.is_timer ? server.OnTimer(due.time) : server.OnPacket(due.time, due.packet);
    } else {
      Worker& worker = jobs[due.host / config.workers].workers[due.host % config.workers];
      const bool was_done = worker.done();
      due.is_timer ? worker.OnTimer(due.time) : worker.OnPacket(due.time, due.packet);
      if (worker.done() && !was_done) --working;
    }
  }
  run.leaked = config.system == System::kSwitchMl ? 0 : the_switch.taken();
  SumUpJobs(config, jobs, run);
  SumUpIndices(config, run);
  return run;
}

}  // namespace epic::sim::dsa
