// What comes of runs, in words and in sums.
#include <fmt/format.h>

#include "sim/trial.h"

namespace epic::sim {

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kWrong:
      return "wrong";
    case Verdict::kHung:
      return "hung";
  }
  return "other";
}

Counts& Counts::operator+=(const Counts& other) {
  runs += other.runs;
  calls += other.calls;
  by_hosts += other.by_hosts;
  packets += other.packets;
  super_frames += other.super_frames;
  lost += other.lost;
  cut += other.cut;
  corrupted += other.corrupted;
  repeated += other.repeated;
  delayed += other.delayed;
  unheard += other.unheard;
  crashes += other.crashes;
  failed += other.failed;
  aborted += other.aborted;
  old += other.old;
  late_timers += other.late_timers;
  time += other.time;
  return *this;
}

std::string Describe(const Counts& counts) {
  return fmt::format(
      "{} calls, {} packets, {} super-frames, {:.6f} virtual seconds; {} lost, {} cut, {} corrupted, {} "
      "repeated, {} delayed, {} unheard; {} crashes, {} groups failed, {} calls of ranks aborted, {} packets "
      "of failed groups; {} late timers; {} by the hosts",
      counts.calls, counts.packets, counts.super_frames, static_cast<double>(counts.time) / 1e9, counts.lost,
      counts.cut, counts.corrupted, counts.repeated, counts.delayed, counts.unheard, counts.crashes,
      counts.failed, counts.aborted, counts.old, counts.late_timers, counts.by_hosts);
}

}  // namespace epic::sim
