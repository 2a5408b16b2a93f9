#include "incmanager/policies/paths.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace epic::manager {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

uint64_t Both(uint64_t first, uint64_t second) { return first << 32 | second; }

}  // namespace

PathFinder::PathFinder(const Topology& topology, const std::vector<SwitchOffer>& offers,
                       const std::vector<NodeId>& hosts)
    : steps_(topology.nodes.size()), places_(topology.nodes.size()) {
  std::vector<bool> member(topology.nodes.size());
  for (const NodeId host : hosts) {
    member[host] = true;
    attached_.push_back(topology.Attached(host).peer);
  }
  std::ranges::sort(attached_);
  attached_.erase(std::unique(attached_.begin(), attached_.end()), attached_.end());
  for (const NodeId at : topology.switches) {
    const SwitchOffer& offer = offers[at];
    if (!offer.unusable.empty()) continue;
    member[at] = true;
    const uint64_t lacks = !offer.lacks.empty() || offer.small_payload ? 1 : 0;
    const uint64_t missing = offer.abilities.Lacking(Abilities::All()).Count();
    places_[at].passing[static_cast<size_t>(Spare::kLinks)] = {Both(0, 1), Both(lacks, missing)};
    places_[at].passing[static_cast<size_t>(Spare::kLacks)] = {Both(0, lacks), Both(1, missing)};
    nothing_lacks_ = nothing_lacks_ && lacks == 0;
  }
  for (NodeId at = 0; at < member.size(); ++at) {
    if (!member[at]) continue;
    members_.push_back(at);
    if (!topology.IsSwitch(at)) continue;
    const std::vector<Hop>& hops = topology.nodes[at].hops;
    for (uint32_t i = 0; i < hops.size(); ++i) {
      if (hops[i].state == LinkState::kGone || !member[hops[i].peer]) continue;
      steps_[at].push_back({.to = hops[i].peer, .hop = i, .down = hops[i].state == LinkState::kUp ? 0U : 1U});
    }
  }
}

// Dijkstra's algorithm.
const Paths& PathFinder::From(NodeId root, Spare spare) {
  const size_t count = steps_.size();
  paths_.distance.assign(count, UINT32_MAX);
  paths_.parent.assign(count, kNoNode);
  paths_.down_hop.assign(count, 0);
  for (const NodeId node : members_) places_[node].best = {kNever, kNever};
  paths_.distance[root] = 0;
  places_[root].best = {};
  uint32_t found = 0;
  queue_.assign(1, {{}, found, root});
  while (!queue_.empty()) {
    std::ranges::pop_heap(queue_, std::greater());
    const Waiting next = queue_.back();
    queue_.pop_back();
    if (next.cost != places_[next.at].best) continue;  // a better path has been found since
    for (const Step& step : steps_[next.at]) {
      Costs& place = places_[step.to];
      const Cost& passing = place.passing[static_cast<size_t>(spare)];
      const Cost beyond = {next.cost[0] + Both(step.down, 0) + passing[0], next.cost[1] + passing[1]};
      if (beyond >= place.best) continue;
      place.best = beyond;
      paths_.distance[step.to] = paths_.distance[next.at] + 1;
      paths_.parent[step.to] = next.at;
      paths_.down_hop[step.to] = step.hop;
      if (steps_[step.to].empty()) continue;
      queue_.push_back({beyond, ++found, step.to});
      std::ranges::push_heap(queue_, std::greater());
    }
  }
  return paths_;
}

std::vector<uint32_t> PathFinder::LeastDepths() const {
  std::vector<uint32_t> depths(steps_.size(), 0);
  std::vector<uint32_t> distance;
  std::vector<NodeId> queue;
  for (const NodeId source : attached_) {
    distance.assign(steps_.size(), UINT32_MAX);
    distance[source] = 1;  // the link of its host
    queue.assign(1, source);
    for (size_t i = 0; i < queue.size(); ++i) {
      const NodeId at = queue[i];
      for (const Step& step : steps_[at]) {
        if (distance[step.to] != UINT32_MAX) continue;
        distance[step.to] = distance[at] + 1;
        queue.push_back(step.to);
      }
    }
    for (size_t node = 0; node < depths.size(); ++node) depths[node] = std::max(depths[node], distance[node]);
  }
  return depths;
}

}  // namespace epic::manager
