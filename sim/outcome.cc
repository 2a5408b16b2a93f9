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
  datagram_chunks += other.datagram_chunks;
  read_chunks += other.read_chunks;
  unposted += other.unposted;
  by_network += other.by_network;
  with_block += other.with_block;
  by_path_hosts += other.by_path_hosts;
  refused += other.refused;
  granted += other.granted;
  busy += other.busy;
  restarts += other.restarts;
  returned += other.returned;
  time += other.time;
  return *this;
}

void Counts::Add(Fate fate) {
  lost += fate == Fate::kDrop;
  cut += fate == Fate::kCut;
  corrupted += fate == Fate::kCorrupt;
  repeated += fate == Fate::kDuplicate;
  delayed += fate == Fate::kDelay || fate == Fate::kLinger;
}

std::string Describe(const Counts& counts) {
  const int64_t placed = counts.by_network + counts.with_block + counts.by_path_hosts + counts.refused;
  std::string groups;
  if (placed > 0) {
    groups = fmt::format(
        "; {} groups by the network, {} with blocks, {} between the hosts, {} refused; {} calls granted, {} "
        "busy",
        counts.by_network, counts.with_block, counts.by_path_hosts, counts.refused, counts.granted,
        counts.busy);
  }
  if (counts.datagram_chunks + counts.read_chunks > 0) {
    groups += fmt::format("; {} chunks by datagrams, {} read, {} datagrams without a receive",
                          counts.datagram_chunks, counts.read_chunks, counts.unposted);
  }
  if (counts.restarts > 0)
    groups += fmt::format("; {} restarts of the manager, to which ranks have come back {} times", counts.restarts,
                          counts.returned);
  const std::string all = fmt::format(
      "{} calls, {} packets, {} super-frames, {:.6f} virtual seconds; {} lost, {} cut, {} corrupted, {} "
      "repeated, {} delayed, {} unheard; {} crashes, {} groups failed, {} calls of ranks aborted, {} packets "
      "of failed groups; {} late timers; {} by the hosts",
      counts.calls, counts.packets, counts.super_frames, static_cast<double>(counts.time) / 1e9, counts.lost,
      counts.cut, counts.corrupted, counts.repeated, counts.delayed, counts.unheard, counts.crashes,
      counts.failed, counts.aborted, counts.old, counts.late_timers, counts.by_hosts);
  return all + groups;
}

}  // namespace epic::sim
