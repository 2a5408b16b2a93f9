#include "incmanager/groups/qpn_pool.h"

namespace epic::manager {

std::optional<uint32_t> QpnPool::Take(NodeId node, Nanos now) {
  Switch& at = switches_[node];
  while (!at.resting.empty() && at.resting.front().first <= now) {
    at.used.erase(at.resting.front().second);
    at.resting.pop_front();
  }
  if (at.used.size() == kQpnsPerSwitch) return std::nullopt;
  for (;;) {
    const uint32_t qpn = kFirstQpn + at.next;
    at.next = (at.next + 1) % kQpnsPerSwitch;
    if (at.used.insert(qpn).second) return qpn;
  }
}

void QpnPool::GiveBack(NodeId node, uint32_t qpn, Nanos now) {
  switches_[node].resting.emplace_back(now + kQuarantine, qpn);
}

}  // namespace epic::manager
