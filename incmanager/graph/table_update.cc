#include "incmanager/graph/table_update.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "incmanager/policies/flooding.h"

namespace epic::manager {
namespace {

constexpr uint32_t kNoHop = Forwarding::kNoHop;

bool Contains(const std::vector<std::string>& ports, const std::string& port) {
  return std::ranges::find(ports, port) != ports.end();
}

// Whether a table has no ways but wanted ones. Ports of multicast groups are flood ports: what goes by them
// ends if what is flooded does.
bool IsPart(const Forwarding& table, const Forwarding& wanted) {
  for (NodeId target = 0; target < table.hop_to.size(); ++target) {
    if (table.hop_to[target] != kNoHop && table.hop_to[target] != wanted.HopTo(target)) return false;
  }
  return std::ranges::all_of(table.flood_ports,
                             [&](const std::string& port) { return Contains(wanted.flood_ports, port); });
}

}  // namespace

void TableUpdate::Want(std::vector<Forwarding> tables) {
  want_ = std::move(tables);
  switches_.resize(std::max(switches_.size(), want_.size()));
  FollowAddresses();
  if (phase_ == Phase::kDraining) drain_ = true;
  phase_ = Phase::kWithdrawing;
  settled_ = false;
  for (const NodeId node : Known()) switches_[node].fits = Fits(node);
}

// An order under way was made with those before.
void TableUpdate::FollowAddresses() {
  std::vector<std::pair<Ipv4, Mac>> now;
  for (const Node& node : topology_->nodes) now.emplace_back(node.address, node.mac);
  if (!std::equal(addresses_.begin(), addresses_.end(), now.begin())) {
    for (Switch& at : switches_) at.must_send = true;
  }
  addresses_ = std::move(now);
}

void TableUpdate::OnReady(NodeId node, bool empty) {
  if (node >= switches_.size()) switches_.resize(node + 1);
  Switch& at = switches_[node];
  at.reachable = true;
  at.failed = false;
  at.must_send = true;
  at.done = false;
  settled_ = false;
  // What it has been sent since it was gone it may have. Before that, only if it was not.
  if (!empty) at.uncertain.insert(at.uncertain.end(), at.lost.begin(), at.lost.end());
  at.lost.clear();
  Judge(node);
}

void TableUpdate::OnGone(NodeId node) {
  if (node >= switches_.size()) return;
  Switch& at = switches_[node];
  at.reachable = false;
  if (at.has != Forwarding{}) at.lost.push_back(std::exchange(at.has, {}));
  at.lost.insert(at.lost.end(), at.uncertain.begin(), at.uncertain.end());
  at.uncertain.clear();
  Judge(node);
}

void TableUpdate::OnUnreachable(NodeId node) {
  if (node < switches_.size()) switches_[node].reachable = false;
}

void TableUpdate::OnAnswer(NodeId node, bool ok) {
  if (node >= switches_.size() || !switches_[node].asked) return;
  Switch& at = switches_[node];
  Forwarding table = std::move(*at.asked);
  at.asked.reset();
  if (ok) {
    at.has = std::move(table);
    at.uncertain.clear();
  } else {
    at.failed = true;
    if (std::ranges::find(at.uncertain, table) == at.uncertain.end())
      at.uncertain.push_back(std::move(table));
  }
  at.done = false;
  settled_ = false;
  Judge(node);
}

// One that did not fit when the others were set has held up what would not end with it.
void TableUpdate::Judge(NodeId node) {
  Switch& at = switches_[node];
  const bool fitted = std::exchange(at.fits, Fits(node));
  if ((fitted && at.fits) || phase_ != Phase::kSetting) return;
  phase_ = Phase::kWithdrawing;
  settled_ = false;
}

std::span<const NodeId> TableUpdate::Known() const {
  const auto end = std::ranges::lower_bound(topology_->switches, want_.size());
  return {topology_->switches.begin(), end};
}

std::vector<const Forwarding*> TableUpdate::MayHave(const Switch& at) {
  std::vector<const Forwarding*> tables{&at.has};
  if (at.asked) tables.push_back(&*at.asked);
  for (const Forwarding& table : at.uncertain) tables.push_back(&table);
  return tables;
}

bool TableUpdate::Fits(NodeId node) const {
  return node >= want_.size() || std::ranges::all_of(MayHave(switches_[node]), [&](const Forwarding* table) {
           return IsPart(*table, want_[node]);
         });
}

Forwarding TableUpdate::Withdrawn(NodeId node) {
  Forwarding table = switches_[node].has;
  for (NodeId target = 0; target < table.hop_to.size(); ++target) {
    if (table.hop_to[target] != want_[node].HopTo(target)) table.hop_to[target] = kNoHop;
  }
  std::erase_if(table.flood_ports,
                [&](const std::string& port) { return !Contains(want_[node].flood_ports, port); });
  KeepWithinFloodPorts(&table);
  return table;
}

bool TableUpdate::EndsAt(NodeId target) const {
  // Depth first over all ways that there may be; one that comes back to where it has been does not end.
  enum class Mark : uint8_t { kNew, kOpen, kEnds };
  std::vector<Mark> marks(topology_->nodes.size(), Mark::kNew);
  std::vector<std::pair<NodeId, bool>> stack;  // true: all behind it has been looked at
  for (const NodeId start : Known()) {
    stack.emplace_back(start, false);
    while (!stack.empty()) {
      const NodeId at = stack.back().first;
      const bool left = stack.back().second;
      stack.pop_back();
      if (left) {
        marks[at] = Mark::kEnds;
        continue;
      }
      if (marks[at] == Mark::kEnds) continue;
      if (marks[at] == Mark::kOpen) return false;
      marks[at] = Mark::kOpen;
      stack.emplace_back(at, true);
      const auto follow = [&](uint32_t hop) {
        if (hop == kNoHop || at == target) return true;
        const NodeId next = topology_->nodes[at].hops[hop].peer;
        if (!topology_->IsSwitch(next) || next >= want_.size() || marks[next] == Mark::kEnds) return true;
        if (marks[next] == Mark::kOpen) return false;
        stack.emplace_back(next, false);
        return true;
      };
      const Switch& here = switches_[at];
      if (here.fits && !follow(want_[at].HopTo(target))) return false;
      for (const Forwarding* table : MayHave(here)) {
        if (!here.fits && !follow(table->HopTo(target))) return false;
      }
    }
  }
  return true;
}

bool TableUpdate::FloodsEnd() const {
  std::vector<NodeId> root(topology_->nodes.size());
  std::iota(root.begin(), root.end(), 0u);
  const auto root_of = [&root](NodeId node) {
    while (root[node] != node) node = root[node] = root[root[node]];
    return node;
  };
  const auto floods = [&](LinkEnd end) {
    const Switch& at = switches_[end.node];
    const std::string& port = topology_->nodes[end.node].hops[end.hop].port;
    if (at.fits) return Contains(want_[end.node].flood_ports, port);
    return std::ranges::any_of(MayHave(at),
                               [&](const Forwarding* table) { return Contains(table->flood_ports, port); });
  };
  for (const NodeId node : Known()) {
    for (uint32_t hop = 0; hop < topology_->nodes[node].hops.size(); ++hop) {
      const LinkEnd end{node, hop};
      const LinkEnd there = topology_->Across(end);
      if (there < end || !topology_->IsSwitch(there.node) || there.node >= want_.size() || !floods(end) ||
          !floods(there))
        continue;
      const NodeId a = root_of(node);
      const NodeId b = root_of(there.node);
      if (a == b) return false;
      root[a] = b;
    }
  }
  return true;
}

void TableUpdate::ChooseTarget() {
  target_ = want_;
  std::vector<NodeId> held;
  for (const NodeId node : Known()) {
    if (!switches_[node].fits) held.push_back(node);
    switches_[node].done = false;
  }
  if (held.empty()) return;
  // What would not end stays as it is, which does.
  for (NodeId target = 0; target < want_.size(); ++target) {
    const bool differs = std::ranges::any_of(held, [&](NodeId node) {
      return std::ranges::any_of(MayHave(switches_[node]), [&](const Forwarding* table) {
        const uint32_t hop = table->HopTo(target);
        return hop != kNoHop && hop != want_[node].HopTo(target);
      });
    });
    if (!differs || EndsAt(target)) continue;
    for (const NodeId node : Known()) {
      if (target < target_[node].hop_to.size())
        target_[node].hop_to[target] = switches_[node].has.HopTo(target);
    }
  }
  if (FloodsEnd()) return;
  for (const NodeId node : Known()) {
    target_[node].flood_ports = switches_[node].has.flood_ports;
    KeepWithinFloodPorts(&target_[node]);
  }
}

void TableUpdate::Send(Nanos now, NodeId node, Forwarding table, std::vector<Order>* orders) {
  Switch& at = switches_[node];
  at.asked = table;
  at.asked_at = now;
  at.must_send = false;
  orders->push_back({node, std::move(table)});
}

bool TableUpdate::Withdraw(Nanos now, std::vector<Order>* orders) {
  bool waits = false;
  for (const NodeId node : Known()) {
    Switch& at = switches_[node];
    if (at.fits) continue;
    if (CanBeSent(at)) {
      Forwarding table = Withdrawn(node);
      drain_ |= table.flood_ports != at.has.flood_ports || !at.uncertain.empty();
      Send(now, node, std::move(table), orders);
    }
    waits |= at.asked && now - at.asked_at < kPatience;
  }
  return waits;
}

void TableUpdate::Set(Nanos now, std::vector<Order>* orders) {
  settled_ = true;
  for (const NodeId node : Known()) {
    Switch& at = switches_[node];
    if (!at.reachable || at.done) continue;
    if (at.fits && CanBeSent(at)) {
      at.done = !at.must_send && at.has == target_[node];
      if (!at.done) Send(now, node, target_[node], orders);
    }
    settled_ &= at.done;
  }
}

std::vector<TableUpdate::Order> TableUpdate::Due(Nanos now) {
  std::vector<Order> orders;
  if (settled_) return orders;
  if (phase_ == Phase::kWithdrawing) {
    if (Withdraw(now, &orders)) return orders;
    phase_ = Phase::kDraining;
    drained_at_ = std::exchange(drain_, false) ? now + kDrain : now;
  }
  if (phase_ == Phase::kDraining) {
    if (now < drained_at_) return orders;
    // One may have come that has something else.
    if (Withdraw(now, &orders)) {
      phase_ = Phase::kWithdrawing;
      return orders;
    }
    ChooseTarget();
    phase_ = Phase::kSetting;
  }
  Set(now, &orders);
  return orders;
}

}  // namespace epic::manager
