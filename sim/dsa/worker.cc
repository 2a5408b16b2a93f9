#include "sim/dsa/worker.h"

#include <algorithm>

namespace epic::sim::dsa {
namespace {

uint32_t WindowOf(const JobsConfig& config) {
  const auto window = static_cast<uint32_t>(config.window_bytes / PacketBytes(config));
  return config.system == System::kSwitchMl ? std::min(window, RegionPlaces(config) / 2) : window;
}

Nanos TimeOf(const JobsConfig& config, int64_t bytes) { return bytes * 8 * kSecond / config.bits_per_second; }

}  // namespace

uint64_t PriorityOf(const JobsConfig& config, int job, uint32_t index) {
  constexpr int kFraction = 20;  // bits
  const Dnn& dnn = config.jobs[static_cast<size_t>(job)];
  const uint32_t packets = PartitionPackets(config, job);
  const int partition = static_cast<int>(index / packets);
  const Nanos communication = TimeOf(config, kPartitions * dnn.partition_bytes);
  const Nanos computation = std::max<Nanos>(WholeNanos(2 * dnn.layer_time), 1);
  const Nanos to_send = TimeOf(config, PacketBytes(config) * (kPartitions * packets - index));
  const Nanos to_compute =
      partition == 0 ? WholeNanos(dnn.layer_time) * (100 - config.forward_percent) / 100 : 0;
  const auto ratio =
      static_cast<uint64_t>((communication << kFraction) * 2 / (LayerOf(partition) * computation));
  return (ratio << kFraction) / static_cast<uint64_t>(std::max<Nanos>(to_send + to_compute, 1));
}

Worker::Worker(const JobsConfig& config, int job, int worker, const Schedule& schedule, Network& network,
               Records& records)
    : config_(config),
      job_(static_cast<uint16_t>(job)),
      worker_(static_cast<uint8_t>(worker)),
      network_(network),
      records_(records),
      host_(network.WorkerHost(job, worker)),
      schedule_(schedule),
      partition_packets_(PartitionPackets(config, job)),
      indices_(JobPackets(config, job)),
      open_(JobPackets(config, job)),
      window_(WindowOf(config)),
      timeout_(config.least_timeout) {
  SetTimer();
}

Picos Worker::ended() const {
  const Picos forward = config_.jobs[job_].layer_time * config_.forward_percent / 100;
  return std::max(layer_ended_[0] + forward, layer_ended_[1]) + forward;
}

void Worker::OnPacket(Picos now, const Packet& p) {
  if (p.kind == Kind::kResult) OnResult(now, p);
  if (p.kind == Kind::kRequest) OnRequest(now, p.index);
}

void Worker::OnResult(Picos now, const Packet& p) {
  OfIndex& of = indices_[p.index];
  if (of.has_result) return;
  of.has_result = true;
  --open_;
  Check(p);
  last_result_ = now;
  layer_ended_[static_cast<size_t>(LayerOf(static_cast<int>(p.index / partition_packets_)) - 1)] = now;
  if (of.repeats == 0) timeout_.Add(now - of.sent);
  if (p.index == oldest_) {
    while (oldest_ < next_ && indices_[oldest_].has_result) ++oldest_;
    beyond_ = 0;
  } else if (++beyond_ == config_.repeat_after) {
    ++records_.repeats;
    ++indices_[oldest_].repeats;
    Send(now, oldest_, Kind::kGradient, true);
  }
  if (config_.aimd) Adapt(p);
  SendMore(now);
}

void Worker::Check(const Packet& p) {
  bool twice = false;
  bool missing = false;
  for (int worker = 0; worker < config_.workers; ++worker) {
    const Tally times = p.tally >> (kTallyBits * worker) & ((Tally{1} << kTallyBits) - 1);
    twice = twice || times > 1;
    missing = missing || times == 0;
  }
  if (twice) ++records_.twice;
  if (missing) ++records_.missing;
}

// A packet more for each window of results; half for a mark, once in a round trip.
void Worker::Adapt(const Packet& p) {
  if (p.marked) {
    if (p.index < recovered_) return;
    window_ = std::max(window_ / 2, 1U);
    recovered_ = next_;
    grown_ = 0;
    return;
  }
  if (++grown_ < window_) return;
  grown_ = 0;
  window_ = std::min(window_ + 1, static_cast<uint32_t>(config_.most_window / PacketBytes(config_)));
}

// Who has the results in place of the gradients has no original any more.
void Worker::OnRequest(Picos now, uint32_t index) {
  if (index >= next_) return;  // it is still to be sent
  if (config_.in_place && indices_[index].has_result) {
    ++records_.gone;
    return;
  }
  Send(now, index, Kind::kOriginal, true);
}

void Worker::SendMore(Picos now) {
  const uint32_t ready = static_cast<uint32_t>(ready_) * partition_packets_;
  while (next_ < ready && next_ - oldest_ < window_) {
    Send(now, next_, Kind::kGradient, false);
    ++next_;
  }
}

void Worker::Send(Picos now, uint32_t index, Kind kind, bool repeated) {
  const Packet packet = {.kind = kind,
                         .repeated = repeated,
                         .worker = worker_,
                         .job = job_,
                         .index = index,
                         .bitmap = uint32_t{1} << worker_,
                         .tally = TallyOf(worker_),
                         .priority = config_.system == System::kDsa ? PriorityOf(config_, job_, index) : 0};
  const Picos left = network_.FromHost(now, host_, packet);
  if (repeated) return;
  indices_[index].sent = left;
  Wait(left, index);
}

void Worker::Wait(Picos since, uint32_t index) {
  waiting_.push_back({.since = since, .index = index});
  if (timer_ == kEndOfTime) SetTimer();
}

void Worker::TimeOut(Picos now, uint32_t index) {
  OfIndex& of = indices_[index];
  const bool has_server = config_.system != System::kSwitchMl && config_.system != System::kAtp;
  if (has_server && of.repeats >= kRepeatsBeforeReminder) {
    network_.FromHost(now, host_, {.kind = Kind::kReminder, .worker = worker_, .job = job_, .index = index});
  } else {
    ++records_.repeats;
    of.repeats = static_cast<uint8_t>(std::min(of.repeats + 1, 255));
    Send(now, index, Kind::kGradient, true);
  }
  Wait(now, index);
}

void Worker::SetTimer() {
  timer_ = waiting_.empty() ? kEndOfTime : waiting_.front().since + timeout_.timeout();
  if (ready_ < kPartitions) timer_ = std::min(timer_, schedule_[static_cast<size_t>(ready_)]);
  network_.SetTimer(host_, timer_);
}

void Worker::OnTimer(Picos now) {
  timer_ = kEndOfTime;
  const int before = ready_;
  while (ready_ < kPartitions && schedule_[static_cast<size_t>(ready_)] <= now) ++ready_;
  if (ready_ != before) SendMore(now);
  while (!waiting_.empty()) {
    const Waiting oldest = waiting_.front();
    const bool open = !indices_[oldest.index].has_result;
    if (open && oldest.since + timeout_.timeout() > now) break;
    waiting_.pop_front();
    if (open) TimeOut(now, oldest.index);
  }
  SetTimer();
}

}  // namespace epic::sim::dsa
