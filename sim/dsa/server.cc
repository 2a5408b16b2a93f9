#include "sim/dsa/server.h"

#include <bit>

namespace epic::sim::dsa {

Server::Server(const JobsConfig& config, int job, Network& network, Records& records)
    : config_(config),
      job_(job),
      network_(network),
      records_(records),
      entries_(JobPackets(config, job)),
      timeout_(config.least_timeout) {}

void Server::OnPacket(Picos now, const Packet& p) {
  if (p.kind == Kind::kReminder) {
    EntryOf(now, p.index);
    Remind(now, p.index);
    return;
  }
  Entry& entry = EntryOf(now, p.index);
  if (entry.whole) {
    if (p.repeated) SendResult(now, p.index, p.bitmap);
    return;
  }
  Add(entry, p);
  if (entry.bitmap == WholeBitmap(config_.workers)) Finish(now, p.index);
}

// What comes of an index that is finished makes a new entry: the paper's server keeps nothing of it.
Server::Entry& Server::EntryOf(Picos now, uint32_t index) {
  Entry& entry = entries_[index];
  if (entry.is_there) return entry;
  entry = {.is_there = true, .made = now, .since = now};
  if (config_.system != System::kAtp) {
    waiting_.push_back({.since = now, .index = index});
    StartTimer();
  }
  return entry;
}

void Server::Add(Entry& entry, const Packet& p) {
  entry.marked = entry.marked || p.marked;
  if (p.bitmap == WholeBitmap(config_.workers)) {  // nothing else is needed
    entry.bitmap = p.bitmap;
    entry.tally = p.tally;
    return;
  }
  if (HasOverlap(entry.bitmap, p.bitmap)) {
    if (std::popcount(p.bitmap) == 1) {
      ++records_.duplicates;
      return;
    }
    ++records_.overlaps;
    if (!config_.adds_overlaps) return;
  }
  entry.bitmap |= p.bitmap;
  entry.tally += p.tally;
}

void Server::Finish(Picos now, uint32_t index) {
  Entry& entry = entries_[index];
  if (!entry.reminded) timeout_.Add(now - entry.made);  // as TCP takes no packet that was sent twice
  SendResult(now, index, 0);
  entry.whole = config_.system == System::kAtp;
  entry.is_there = entry.whole;
}

void Server::SendResult(Picos now, uint32_t index, uint32_t only) {
  const Entry& entry = entries_[index];
  network_.FromHost(now, network_.ServerHost(job_),
                    {.kind = Kind::kResult,
                     .marked = entry.marked,
                     .job = static_cast<uint16_t>(job_),
                     .only = static_cast<uint16_t>(only),
                     .index = index,
                     .bitmap = entry.bitmap,
                     .tally = entry.tally});
}

void Server::Remind(Picos now, uint32_t index) {
  ++records_.reminders;
  network_.FromHost(now, network_.ServerHost(job_),
                    {.kind = Kind::kRequest, .job = static_cast<uint16_t>(job_), .index = index});
  entries_[index].reminded = true;
  entries_[index].since = now;
  waiting_.push_back({.since = now, .index = index});
  StartTimer();
}

void Server::StartTimer() {
  if (timer_runs_ || waiting_.empty()) return;
  timer_runs_ = true;
  network_.SetTimer(network_.ServerHost(job_), waiting_.front().since + timeout_.timeout());
}

void Server::OnTimer(Picos now) {
  timer_runs_ = false;
  while (!waiting_.empty()) {
    const Waiting oldest = waiting_.front();
    const Entry& entry = entries_[oldest.index];
    const bool still = entry.is_there && entry.since == oldest.since;
    if (still && oldest.since + timeout_.timeout() > now) break;
    waiting_.pop_front();
    if (still) Remind(now, oldest.index);
  }
  StartTimer();
}

}  // namespace epic::sim::dsa
