#include "sim/dsa/switch.h"

#include <algorithm>
#include <bit>

namespace epic::sim::dsa {
namespace {

// The finaliser of SplitMix64: each bit of the result depends on each of the value.
uint64_t Mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Switch::Switch(const JobsConfig& config, Network& network, Records& records)
    : config_(config),
      network_(network),
      records_(records),
      whole_bitmap_(WholeBitmap(config.workers)),
      places_(Places(config)) {
  if (!config.last_at_once) return;
  for (int job = 0; job < network.jobs(); ++job) arrived_.emplace_back(JobPackets(config, job));
}

int64_t Switch::taken() const {
  return std::count_if(places_.begin(), places_.end(), [](const SwitchPlace& place) { return place.taken; });
}

bool Switch::Holds(uint32_t job, uint32_t index) const {
  return std::any_of(places_.begin(), places_.end(), [&](const SwitchPlace& place) {
    return place.taken && place.job == job && place.index == index;
  });
}

size_t Switch::NumberOf(uint32_t job, uint32_t index) const {
  if (config_.system == System::kSwitchMl) {
    const size_t region = RegionPlaces(config_);
    return job * region + index % region;
  }
  return Mixed(Mixed(config_.seed + job) + index) % places_.size();
}

void Switch::OnFromWorker(Picos now, const Packet& p) {
  if (p.kind != Kind::kGradient) {
    ToServer(now, p);
    return;
  }
  IndexRecord& record = records_.Of(p);
  if (record.first < 0) record.first = now;
  if (!p.repeated) record.last = now;
  if (config_.system == System::kSwitchMl) {
    InRegion(now, p);
  } else if (config_.system == System::kAtp && p.repeated) {
    Repeated(now, p);
  } else {
    InPool(now, p);
  }
}

void Switch::OnFromServer(Picos now, const Packet& p) {
  SwitchPlace& place = places_[NumberOf(p.job, p.index)];
  // A result of ATP frees the place that it passes; a request takes what there is with it.
  if (p.kind == Kind::kRequest && IsOf(place, p)) Spill(now, place);
  if (p.kind == Kind::kResult && config_.system == System::kAtp && IsOf(place, p)) Free(now, place);
  ToWorkers(now, p);
}

// Who sends this index has the result of that a window before, so all have sent that, and so all have the
// result of that two windows before, which lies here.
void Switch::InRegion(Picos now, const Packet& p) {
  SwitchPlace& place = places_[NumberOf(p.job, p.index)];
  if (place.taken && place.index > p.index) return;  // a late repetition of what all have
  if (!IsOf(place, p)) {
    Claim(now, place, p);
  } else if (place.whole) {
    Packet again = ContentOf(place, Kind::kResult);
    again.only = static_cast<uint16_t>(p.bitmap);
    ToWorkers(now, again);
    return;
  } else if (!Add(place, p)) {
    return;
  }
  if (place.bitmap == whole_bitmap_) Complete(now, place);
}

void Switch::InPool(Picos now, const Packet& p) {
  SwitchPlace& place = places_[NumberOf(p.job, p.index)];
  if (!place.taken) {
    Claim(now, place, p);
  } else if (!IsOf(place, p)) {
    Collide(now, place, p);
  } else if (!Add(place, p)) {
    return;
  }
  if (config_.last_at_once) arrived_[p.job][p.index] |= static_cast<uint16_t>(p.bitmap);
  if (!IsOf(place, p)) return;
  if (place.bitmap == whole_bitmap_ && !place.whole) {
    Complete(now, place);
  } else if (config_.last_at_once && records_.Of(p).lost && arrived_[p.job][p.index] == whole_bitmap_) {
    Spill(now, place);
  }
}

// Of ATP: a packet that is sent again takes what there is to the server, and goes there itself.
void Switch::Repeated(Picos now, const Packet& p) {
  SwitchPlace& place = places_[NumberOf(p.job, p.index)];
  if (IsOf(place, p)) Spill(now, place);
  ToServer(now, p);
}

void Switch::Collide(Picos now, SwitchPlace& place, const Packet& p) {
  IndexRecord& mine = records_.Of(p);
  IndexRecord& other = records_.indices[place.job][place.index];
  mine.met = other.met = true;
  if (place.job == p.job) ++records_.own_collisions;
  if (Wins(place, p)) {
    ++records_.evictions;
    other.lost = true;
    Spill(now, place);
    Claim(now, place, p);
    return;
  }
  if (config_.system == System::kDsa) place.priority /= 2;
  mine.lost = true;
  ToServer(now, p);
}

bool Switch::Wins(const SwitchPlace& place, const Packet& p) {
  switch (config_.system) {
    case System::kDsa:
      return p.priority > place.priority;
    case System::kAlways:
      return true;
    case System::kCoin:
      return Mixed(config_.seed + ++tosses_ * 0x9e3779b97f4a7c15) % 2 == 0;
    case System::kAtp:
    case System::kSwitchMl:
      return false;
  }
  return false;
}

void Switch::Claim(Picos now, SwitchPlace& place, const Packet& p) {
  place = {.taken = true,
           .marked = p.marked,
           .job = p.job,
           .index = p.index,
           .bitmap = p.bitmap,
           .tally = p.tally,
           .priority = p.priority,
           .since = now};
}

bool Switch::Add(SwitchPlace& place, const Packet& p) {
  if (HasOverlap(place.bitmap, p.bitmap)) {
    ++records_.duplicates;
    return false;
  }
  place.bitmap |= p.bitmap;
  place.tally += p.tally;
  place.marked = place.marked || p.marked;
  return true;
}

void Switch::Complete(Picos now, SwitchPlace& place) {
  if (config_.system == System::kAtp) {
    place.whole = true;
    ToServer(now, ContentOf(place, Kind::kPart));
    return;
  }
  ToWorkers(now, ContentOf(place, Kind::kResult));
  if (config_.system == System::kSwitchMl) {
    place.whole = true;
    records_.claims.push_back(static_cast<uint32_t>(WholeNanos(now - place.since)));
  } else {
    Free(now, place);
  }
}

void Switch::Spill(Picos now, SwitchPlace& place) {
  ToServer(now, ContentOf(place, Kind::kPart));
  Free(now, place);
}

void Switch::Free(Picos now, SwitchPlace& place) {
  records_.claims.push_back(static_cast<uint32_t>(WholeNanos(now - place.since)));
  place.taken = false;
}

Packet Switch::ContentOf(const SwitchPlace& place, Kind kind) const {
  return {.kind = kind,
          .marked = place.marked,
          .job = place.job,
          .index = place.index,
          .bitmap = place.bitmap,
          .tally = place.tally};
}

void Switch::ToWorkers(Picos now, const Packet& p) {
  if (p.kind == Kind::kResult) {
    IndexRecord& record = records_.Of(p);
    if (record.whole < 0) record.whole = now;
  }
  for (int worker = 0; worker < config_.workers; ++worker) {
    if (p.only == 0 || (p.only >> worker & 1) != 0)
      network_.ToHost(now, network_.WorkerHost(p.job, worker), p);
  }
}

}  // namespace epic::sim::dsa
