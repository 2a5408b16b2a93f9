#include "incmanager/graph/host_search.h"

#include <algorithm>
#include <utility>

namespace epic::manager {

void HostSearch::Want(Nanos now, const std::set<Ipv4>& addresses) {
  std::erase_if(searches_, [&](const auto& entry) { return !addresses.contains(entry.first); });
  for (const Ipv4 ip : addresses)
    searches_.try_emplace(ip, Search{.give_up = now + kAtMost, .until = {}, .asks = {}});
}

std::vector<HostSearch::Order> HostSearch::Due(Nanos now, const std::vector<NodeId>& switches) {
  std::vector<Order> orders;
  for (auto& [ip, search] : searches_) {
    const auto has_asked = [&asks = search.asks](NodeId node) { return asks[node].granted; };
    if (!search.until && std::ranges::all_of(switches, has_asked)) search.until = now + kFindWithin;
  }
  for (const NodeId node : switches) AskAt(now, node, &orders);
  return orders;
}

// Who has waited longest comes first.
void HostSearch::AskAt(Nanos now, NodeId node, std::vector<Order>* orders) {
  std::vector<std::pair<Nanos, Ipv4>> due;
  for (const auto& [ip, search] : searches_) {
    const auto ask = search.asks.find(node);
    if (ask == search.asks.end() || ask->second.at == 0) {
      due.emplace_back(0, ip);
    } else if (!ask->second.under_way && now - ask->second.at >= kAskEvery) {
      due.emplace_back(ask->second.at, ip);
    }
  }
  std::ranges::sort(due);
  Nanos& full_at = full_at_[node];
  for (const auto& [at, ip] : due) {
    if (full_at > now + (kAtOnce - 1) * kPerAsk) return;
    full_at = std::max(full_at, now) + kPerAsk;
    Ask& ask = searches_[ip].asks[node];
    ask.at = now;
    ask.under_way = true;
    orders->push_back({node, ip});
  }
}

void HostSearch::OnAnswer(Nanos now, NodeId node, Ipv4 ip, bool asked) {
  // Others may ask the same engine.
  if (!asked) full_at_[node] = now + kAtOnce * kPerAsk;
  const auto search = searches_.find(ip);
  if (search == searches_.end()) return;
  Ask& ask = search->second.asks[node];
  ask.under_way = false;
  ask.granted |= asked;
  if (!asked) ask.at = 0;
}

bool HostSearch::IsOver(Nanos now, Ipv4 ip) const {
  const Search& search = searches_.at(ip);
  return now >= search.give_up || (search.until && now >= *search.until);
}

}  // namespace epic::manager
