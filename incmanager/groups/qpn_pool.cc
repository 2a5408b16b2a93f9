#include "incmanager/groups/qpn_pool.h"

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

std::optional<std::vector<uint32_t>> QpnPool::Take(NodeId node, size_t count, Nanos now,
                                                   std::optional<uint8_t> tag) {
  Switch& at = switches_[node];
  while (!at.resting.empty() && at.resting.front().first <= now) {
    const uint32_t qpn = at.resting.front().second;
    at.used.erase(qpn);
    --at.tags[qpn % kTags].taken;
    at.resting.pop_front();
  }
  if (tag) return TakeOf(&at, *tag, count);
  for (uint32_t looked_at = 0; looked_at < kTags; ++looked_at) {
    const uint32_t low_byte = at.next_tag;
    at.next_tag = (at.next_tag + 1) % kTags;
    if (auto qpns = TakeOf(&at, low_byte, count)) return qpns;
  }
  return std::nullopt;
}

void QpnPool::GiveBack(NodeId node, uint32_t qpn, Nanos now) {
  switches_[node].resting.emplace_back(now + kQuarantine, qpn);
}

}  // namespace epic::manager
