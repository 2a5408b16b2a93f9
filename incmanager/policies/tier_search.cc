#include "incmanager/policies/tier_search.h"

#include <algorithm>
#include <limits>
#include <map>

#include "incmanager/policies/modes.h"

namespace epic::manager {

TierSearch::TierSearch(const Topology& topology, const Load& load, const std::vector<SwitchOffer>& offers,
                       const PlaceRequest& request, const std::vector<uint32_t>& tiers,
                       const Relaxed& relaxed)
    : topology_(topology),
      load_(load),
      offers_(offers),
      request_(request),
      tiers_(tiers),
      relaxed_(relaxed),
      ranks_at_(topology.nodes.size()),
      up_(topology.nodes.size()),
      down_(topology.nodes.size()),
      hop_us_(topology.nodes.size()),
      best_(topology.nodes.size()) {
  std::map<NodeId, std::vector<uint32_t>> leaves;
  for (uint32_t rank = 0; rank < request.rank_hosts.size(); ++rank) {
    const NodeId host = request.rank_hosts[rank];
    const Hop& hop = topology.Attached(host);
    leaves[hop.peer].push_back(rank);
    ++ranks_at_[hop.peer];
    hosts_width_ = std::min(hosts_width_, WidthOfLink(topology, load, Lesser(topology_.AttachedEnd(host))));
    hosts_us_ = std::max(hosts_us_, hop.delay_us);
    hop_us_[hop.peer] = std::max(hop_us_[hop.peer], hop.delay_us);
  }
  for (auto& [node, ranks] : leaves) leaves_.push_back({node, std::move(ranks)});
  words_ = leaves_.size() / 64 + 1;
  covers_.resize(topology.nodes.size() * words_);
  for (NodeId node = 0; node < topology.nodes.size(); ++node) {
    const bool blocks = request.policy == Policy::kTemporal && topology.IsSwitch(node);
    most_usable_.push_back(blocks ? MostUsable(load.at(node).blocks, WishAt(node, 0, 0)) : offers[node].room);
  }
  usable_ = most_usable_;
  Climb();
}

bool TierSearch::LinkIsFree(LinkEnd lesser) const {
  if (!topology_.Carries(lesser)) return false;
  if (request_.policy == Policy::kEdt) return load_.link(lesser).exclusive == 0;
  return WidthOfLink(topology_, load_, lesser) >= std::max<uint64_t>(request_.rate_kbps, 1);
}

bool TierSearch::Covers(NodeId node) const {
  for (size_t word = 0; word < words_; ++word) {
    if (covers_[node * words_ + word] != 0) return true;
  }
  return false;
}

// From the leaves up, over what is not in the way: the edges, and which leaves each switch reaches.
void TierSearch::Climb() {
  by_tier_.emplace_back();
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    const auto link_ok = [this](uint32_t rank) {
      return LinkOk(Lesser(topology_.AttachedEnd(request_.rank_hosts[rank])));
    };
    // Else its only hosts are where they no longer are.
    if (tiers_[leaf.node] != 0) continue;
    if (!SwitchOk(leaf.node) || leaf.ranks.size() > MostChildren(leaf.node) ||
        !std::ranges::all_of(leaf.ranks, link_ok))
      continue;
    covers_[leaf.node * words_ + i / 64] |= uint64_t{1} << i % 64;
    by_tier_[0].push_back(leaf.node);
  }
  for (uint32_t tier = 0; !by_tier_[tier].empty(); ++tier) {
    std::vector<NodeId> above;
    tier_us_.push_back(0);
    for (const NodeId lower : by_tier_[tier]) AddEdges(lower, &above);
    std::ranges::sort(above);
    by_tier_.push_back(std::move(above));
  }
}

void TierSearch::AddEdges(NodeId lower, std::vector<NodeId>* above) {
  const std::vector<Hop>& hops = topology_.nodes[lower].hops;
  for (uint32_t i = 0; i < hops.size(); ++i) {
    const NodeId upper = hops[i].peer;
    if (!topology_.IsSwitch(upper) || tiers_[upper] != tiers_[lower] + 1 || !SwitchOk(upper)) continue;
    const LinkEnd across = topology_.Across({lower, i});
    const LinkEnd lesser = std::min(across, LinkEnd{lower, i});
    if (!LinkOk(lesser)) continue;
    if (!Covers(upper)) above->push_back(upper);
    for (size_t word = 0; word < words_; ++word)
      covers_[upper * words_ + word] |= covers_[lower * words_ + word];
    up_[lower].push_back(static_cast<uint32_t>(edges_.size()));
    down_[upper].push_back(static_cast<uint32_t>(edges_.size()));
    // What is not to be in the way has no width, but it has to be reached.
    const uint64_t width = std::max<uint64_t>(WidthOfLink(topology_, load_, lesser), 1);
    edges_.push_back({lower, upper, i, across.hop, width});
    hop_us_[lower] = std::max(hop_us_[lower], hops[i].delay_us);
    hop_us_[upper] = std::max(hop_us_[upper], hops[i].delay_us);
    tier_us_.back() = std::max(tier_us_.back(), hops[i].delay_us);
  }
}

std::vector<NodeId> TierSearch::RootsAt(uint32_t tier) const {
  std::vector<NodeId> roots;
  for (const NodeId node : by_tier_[tier]) {
    if (!Unreached(node)) roots.push_back(node);
  }
  return roots;
}

std::optional<uint32_t> TierSearch::Unreached(NodeId node) const {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if ((covers_[node * words_ + i / 64] >> i % 64 & 1) == 0) return leaves_[i].ranks.front();
  }
  return std::nullopt;
}

uint64_t TierSearch::Sustained(NodeId node, double path_us, double hop_us, uint64_t children,
                               uint64_t usable_bytes) const {
  const SwitchOffer& offer = offers_[node];
  if (offer.arena_bytes == 0) return UINT64_MAX;
  return RateOfBuffer({.mode = offer.mode,
                       .reproducible = request_.reproducible,
                       .hop_us = hop_us,
                       .path_us = path_us,
                       .children = static_cast<uint32_t>(children)},
                      usable_bytes);
}

// Of what is known before there is a tree: with the slowest links and all children that it may get, so never
// more than in a tree.
uint64_t TierSearch::WidthAt(NodeId node, uint32_t root_tier, uint64_t usable_bytes) const {
  double path_us = hosts_us_;
  for (uint32_t tier = 0; tier < root_tier; ++tier) path_us += tier_us_[tier];
  const uint64_t children = down_[node].size() + ranks_at_[node];
  return std::max<uint64_t>(Sustained(node, path_us, hop_us_[node], children, usable_bytes), 1);
}

// Leaves in best_ how wide the widest way from the root to each switch is, and returns the least of the
// leaves and their hosts; 0 if one is not reached.
uint64_t TierSearch::Descend(NodeId root, const std::vector<bool>& without) {
  std::ranges::fill(best_, 0);
  const auto is_out = [&without](NodeId node) { return !without.empty() && without[node]; };
  const uint32_t root_tier = tiers_[root];
  const uint64_t at_root = WidthAt(root, root_tier, usable_[root]);
  if (is_out(root) || !SustainOk(root, at_root)) return 0;
  best_[root] = at_root;
  std::vector<NodeId> level{root};
  for (uint32_t tier = root_tier; tier > 0; --tier) {
    std::vector<NodeId> below;
    for (const NodeId upper : level) {
      for (const uint32_t i : down_[upper]) {
        const Edge& edge = edges_[i];
        if (is_out(edge.lower)) continue;
        const uint64_t own = WidthAt(edge.lower, root_tier, usable_[edge.lower]);
        if (!SustainOk(edge.lower, own)) continue;
        uint64_t& best = best_[edge.lower];
        if (best == 0) below.push_back(edge.lower);
        best = std::max(best, std::min({best_[upper], edge.width, own}));
      }
    }
    level = std::move(below);
  }
  uint64_t least = std::max<uint64_t>(hosts_width_, 1);
  for (const Leaf& leaf : leaves_) least = std::min(least, best_[leaf.node]);
  return least;
}

// For each switch below the root that the tree has, the edge to its parent: at every tier the switches of
// which most of those below find a way as wide as that. overfull: who stands in the way, if there is no such
// tree.
std::optional<std::vector<const TierSearch::Edge*>> TierSearch::Join(NodeId root, uint64_t width,
                                                                     const std::vector<bool>& without,
                                                                     Constraint* overfull) {
  std::vector<const Edge*> up(topology_.nodes.size(), nullptr);
  std::vector<NodeId> level;
  for (const Leaf& leaf : leaves_) level.push_back(leaf.node);
  for (uint32_t tier = 0; tier < tiers_[root]; ++tier) {
    std::map<NodeId, std::vector<const Edge*>> ways;  // by the upper end
    for (const NodeId lower : level) {
      for (const uint32_t i : up_[lower]) {
        const Edge& edge = edges_[i];
        if (edge.width < width || best_[edge.upper] < width || (!without.empty() && without[edge.upper]))
          continue;
        ways[edge.upper].push_back(&edge);
      }
    }
    std::vector<NodeId> above;
    size_t left = level.size();
    while (left > 0) {
      NodeId most = kNoNode;
      size_t most_new = 0;
      for (const auto& [upper, edges] : ways) {
        std::set<NodeId> fresh;
        for (const Edge* edge : edges) {
          if (up[edge->lower] == nullptr) fresh.insert(edge->lower);
        }
        if (fresh.size() > most_new) {
          most = upper;
          most_new = fresh.size();
        }
      }
      if (most == kNoNode) return std::nullopt;
      uint64_t taken = 0;
      for (const Edge* edge : ways[most]) {
        const Edge*& mine = up[edge->lower];
        if (mine != nullptr && mine->upper == most) {
          if (edge->width > mine->width) mine = edge;  // of parallel links
        } else if (mine == nullptr && taken < MostChildren(most)) {
          mine = edge;
          ++taken;
          --left;
        }
      }
      if (taken < most_new && overfull->node == kNoNode) *overfull = TooManyChildren(most, most_new);
      ways.erase(most);
      above.push_back(most);
    }
    std::ranges::sort(above);
    level = std::move(above);
  }
  return up;
}

std::optional<Placed> TierSearch::TreeAt(NodeId root, std::string* why, Failure* excluded) {
  std::vector<bool> without(topology_.nodes.size(), false);
  usable_ = most_usable_;
  for (;;) {
    const uint64_t width = Descend(root, without);
    if (width == 0) {
      if (why->empty()) *why = "its free memory, or that of switches below it, sustains less than the rate";
      return std::nullopt;
    }
    Constraint overfull;
    const auto up = Join(root, width, without, &overfull);
    if (!up) {
      if (why->empty()) *why = overfull.text;
      return std::nullopt;
    }
    Placed placed = Grow(root, *up);
    auto bytes = request_.bytes_of(placed.tree);
    if (!bytes.ok()) {
      *excluded = bytes.failure();
      *why = bytes.failure().Brief();
      return std::nullopt;
    }
    placed.bytes = *std::move(bytes);
    const Memory memory = GiveMemory(&placed, &without, why);
    placed.width_kbps = WidthOf(placed);
    // Where a switch gives less than it might have, another tree may be wider.
    if (memory.all_give && (!memory.some_give_less || placed.width_kbps >= width)) return placed;
  }
}

// What each switch of the tree gives for it. Who gives nothing is put into `without` and, if that is the
// first, into why.
TierSearch::Memory TierSearch::GiveMemory(Placed* placed, std::vector<bool>* without, std::string* why) {
  Memory out;
  for (size_t i = 0; i < placed->bytes.size(); ++i) {
    const NodeId node = placed->tree.inner[i].node;
    auto memory = MemoryAt(*placed, i);
    const auto* blocked = std::get_if<Constraint>(&memory);
    if (blocked != nullptr && !IsRelaxed(*blocked)) {
      if (why->empty()) *why = blocked->text;
      (*without)[node] = true;
      out.all_give = false;
    }
    placed->blocks.push_back(blocked == nullptr ? std::get<BlockChoice>(memory)
                                                : BlockChoice{.usable_bytes = usable_[node]});
    const uint64_t usable = placed->blocks.back().usable_bytes;
    out.some_give_less |= usable < usable_[node];
    usable_[node] = std::min(usable_[node], usable);
  }
  return out;
}

Placed TierSearch::Grow(NodeId root, const std::vector<const Edge*>& up) const {
  std::map<NodeId, std::vector<const Edge*>> below;
  std::map<NodeId, uint32_t> lowest;  // rank below each switch
  std::map<NodeId, const Leaf*> leaf_at;
  Placed out;
  double rate = std::numeric_limits<double>::max();
  for (const Leaf& leaf : leaves_) {
    leaf_at[leaf.node] = &leaf;
    for (NodeId at = leaf.node;; at = up[at]->upper) {
      const auto [entry, added] = lowest.emplace(at, leaf.ranks.front());
      if (!added) entry->second = std::min(entry->second, leaf.ranks.front());
      if (at == root) break;
      if (added) below[up[at]->upper].push_back(up[at]);
    }
  }
  Tree& tree = out.tree;
  tree.depth_links = tiers_[root] + 1;
  tree.inner.push_back({.node = root});
  std::vector<double> delay_us{0};  // from the root, by Tree::inner
  for (uint32_t i = 0; i < tree.inner.size(); ++i) {
    const NodeId at = tree.inner[i].node;
    std::vector<const Edge*>& edges = below[at];
    std::ranges::sort(edges, {}, [&lowest](const Edge* edge) { return lowest[edge->lower]; });
    for (const Edge* edge : edges) {
      const Hop& down = topology_.nodes[at].hops[edge->upper_hop];
      const std::string& back = topology_.nodes[edge->lower].hops[edge->lower_hop].port;
      const auto inner = static_cast<uint32_t>(tree.inner.size());
      tree.inner[i].children.push_back({false, lowest[edge->lower], inner, down.port, down.port});
      tree.inner[i].hop_us = std::max(tree.inner[i].hop_us, down.delay_us);
      tree.inner.push_back({edge->lower, i, back, back, {}, down.delay_us});
      delay_us.push_back(delay_us[i] + down.delay_us);
      rate = std::min(rate, down.rate_gbps);
      out.links.push_back(Lesser({at, edge->upper_hop}));
    }
    const auto leaf = leaf_at.find(at);
    if (leaf == leaf_at.end()) continue;
    for (const uint32_t rank : leaf->second->ranks) {
      const LinkEnd end = topology_.Across(topology_.AttachedEnd(request_.rank_hosts[rank]));
      const Hop& down = topology_.nodes[at].hops[end.hop];
      tree.inner[i].children.push_back({true, rank, 0, down.port, down.port});
      tree.inner[i].hop_us = std::max(tree.inner[i].hop_us, down.delay_us);
      tree.delay_us = std::max(tree.delay_us, delay_us[i] + down.delay_us);
      rate = std::min(rate, down.rate_gbps);
      out.links.push_back(Lesser(end));
    }
  }
  tree.rate_gbps = rate;
  std::ranges::sort(out.links);
  out.links.erase(std::unique(out.links.begin(), out.links.end()), out.links.end());
  return out;
}

uint64_t TierSearch::WidthOf(const Placed& placed) const {
  uint64_t width = UINT64_MAX;
  for (const LinkEnd& link : placed.links) width = std::min(width, WidthOfLink(topology_, load_, link));
  for (size_t i = 0; i < placed.blocks.size(); ++i) {
    const TreeInner& inner = placed.tree.inner[i];
    width = std::min(width, Sustained(inner.node, placed.tree.delay_us, inner.hop_us, inner.children.size(),
                                      placed.blocks[i].usable_bytes));
  }
  return width;
}

}  // namespace epic::manager
