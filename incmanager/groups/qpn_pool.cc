#include "incmanager/groups/qpn_pool.h"

#include <algorithm>

#include "base/check.h"

namespace epic::manager {

std::optional<std::vector<uint32_t>> QpnPool::TakeOf(Switch* at, uint32_t low_byte, size_t count) {
  Tag& tag = at->tags[low_byte];
  if (kQpnsPerTag - tag.taken < count) return std::nullopt;
  std::vector<uint32_t> qpns;
  while (qpns.size() < count) {
    const uint32_t qpn = kFirstQpn + tag.next * kTags + low_byte;
    tag.next = (tag.next + 1) % kQpnsPerTag;
    if (at->used.insert(qpn).second) qpns.push_back(qpn);
  }
  tag.taken += static_cast<uint32_t>(count);
  return qpns;
}

void QpnPool::EndRests(NodeId node, Nanos now) {
  Switch& at = switches_[node];
  for (; !at.resting.empty() && at.resting.front().first <= now; at.resting.pop_front()) {
    const uint32_t qpn = at.resting.front().second;
    at.used.erase(qpn);
    const auto borne = at.borne.find(qpn);
    if (borne == at.borne.end()) {
      --at.tags[qpn % kTags].taken;
    } else {
      borne_to_.erase({borne->second, qpn});
      at.borne.erase(borne);
    }
  }
}

std::optional<std::vector<uint32_t>> QpnPool::TakeBorne(NodeId node, const std::vector<Ipv4>& remotes,
                                                        Nanos now) {
  Switch& at = switches_[node];
  // Also of the others, which may have had a host that has moved here.
  for (NodeId any = 0; any < switches_.size(); ++any) EndRests(any, now);
  std::vector<uint32_t> qpns;
  uint32_t next = at.next_borne;
  std::vector<uint32_t> passed_over;  // in use for one host elsewhere, and free for the next
  for (const Ipv4 remote : remotes) {
    const auto free = [&](uint32_t qpn) {
      return !at.used.contains(qpn) && (remote == Ipv4{} || !borne_to_.contains({remote, qpn}));
    };
    auto found = std::ranges::find_if(passed_over, free);
    if (found != passed_over.end()) {
      qpns.push_back(*found);
      passed_over.erase(found);
      continue;
    }
    for (;;) {
      if (next - at.next_borne == kBorneQpnsPerSwitch) return std::nullopt;
      const uint32_t qpn = kFirstBorneQpn + next++ % kBorneQpnsPerSwitch * kTags;
      if (free(qpn)) {
        qpns.push_back(qpn);
        break;
      }
      if (!at.used.contains(qpn)) passed_over.push_back(qpn);
    }
  }
  at.next_borne = next % kBorneQpnsPerSwitch;
  for (size_t i = 0; i < qpns.size(); ++i) {
    at.used.insert(qpns[i]);
    at.borne[qpns[i]] = remotes[i];
    if (remotes[i] != Ipv4{}) borne_to_.insert({remotes[i], qpns[i]});
  }
  return qpns;
}

std::optional<std::vector<uint32_t>> QpnPool::Take(NodeId node, size_t count, Nanos now,
                                                   std::optional<uint8_t> tag) {
  EndRests(node, now);
  Switch& at = switches_[node];
  if (tag) return TakeOf(&at, *tag, count);
  for (uint32_t looked_at = 0; looked_at < kTags; ++looked_at) {
    const uint32_t low_byte = at.next_tag;
    at.next_tag = (at.next_tag + 1) % kTags;
    if (auto qpns = TakeOf(&at, low_byte, count)) return qpns;
  }
  return std::nullopt;
}

bool QpnPool::Adopt(NodeId node, const std::vector<uint32_t>& qpns, const std::vector<Ipv4>& remotes) {
  Switch& at = switches_[node];
  for (const uint32_t qpn : qpns) {
    if (at.used.contains(qpn) || std::ranges::count(qpns, qpn) != 1) return false;
  }
  for (size_t i = 0; i < qpns.size(); ++i) {
    at.used.insert(qpns[i]);
    if (qpns[i] < kFirstBorneQpn) {
      ++at.tags[qpns[i] % kTags].taken;
      continue;
    }
    at.borne[qpns[i]] = remotes[i];
    if (remotes[i] != Ipv4{}) borne_to_.insert({remotes[i], qpns[i]});
  }
  return true;
}

void QpnPool::StartElsewhere(uint64_t seed) {
  random_.emplace(seed);
  for (Switch& at : switches_) StartElsewhere(&at);
}

void QpnPool::StartElsewhere(Switch* at) {
  at->next_tag = static_cast<uint32_t>((*random_)() % kTags);
  for (Tag& tag : at->tags) tag.next = static_cast<uint32_t>((*random_)() % kQpnsPerTag);
  at->next_borne = static_cast<uint32_t>((*random_)() % kBorneQpnsPerSwitch);
}

void QpnPool::Grow(size_t nodes) {
  size_t known = switches_.size();
  switches_.resize(nodes);
  for (; random_ && known < nodes; ++known) StartElsewhere(&switches_[known]);
}

void QpnPool::CheckInvariants() const {
  size_t for_hosts = 0;
  for (const Switch& at : switches_) {
    std::array<uint32_t, kTags> taken{};
    for (const uint32_t qpn : at.used) {
      if (qpn < kFirstBorneQpn) {
        ++taken[qpn % kTags];
      } else {
        EPIC_CHECK(at.borne.contains(qpn));
      }
    }
    for (uint32_t tag = 0; tag < kTags; ++tag) EPIC_CHECK(at.tags[tag].taken == taken[tag]);
    for (const auto& [qpn, host] : at.borne) {
      EPIC_CHECK(at.used.contains(qpn) && (host == Ipv4{} || borne_to_.contains({host, qpn})));
      if (host != Ipv4{}) ++for_hosts;
    }
    EPIC_CHECK(std::ranges::is_sorted(at.resting, {}, &std::pair<Nanos, uint32_t>::first));
    std::set<uint32_t> resting;
    for (const auto& [until, qpn] : at.resting)
      EPIC_CHECK(at.used.contains(qpn) && resting.insert(qpn).second);
  }
  // No two switches have one for the same host.
  EPIC_CHECK(for_hosts == borne_to_.size());
}

void QpnPool::GiveBack(NodeId node, uint32_t qpn, Nanos now) {
  EPIC_CHECK(switches_[node].used.contains(qpn));
  switches_[node].resting.emplace_back(now + kQuarantine, qpn);
}

}  // namespace epic::manager
