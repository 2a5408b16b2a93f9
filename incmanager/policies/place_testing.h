// For tests of Place: networks in tiers, requests, and what can be said of every tree.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "incmanager/policies/place.h"
#include "incmanager/topology_testing.h"

namespace epic::manager::testing {

using Random = std::mt19937;
inline uint32_t Roll(Random* random, uint32_t sides) { return static_cast<uint32_t>((*random)() % sides); }

// Of each trial that fails the seed is printed; EPIC_PLACE_SEED=n runs that alone.
inline void ForSeeds(const std::function<void(Random*)>& trial) {
  constexpr uint32_t kSeeds = 350;
  const char* only = std::getenv("EPIC_PLACE_SEED");
  const uint32_t first = only == nullptr ? 0 : static_cast<uint32_t>(std::atoi(only));
  for (uint32_t seed = first; seed < (only == nullptr ? kSeeds : first + 1); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}; EPIC_PLACE_SEED={} runs it alone", seed, seed));
    Random random(seed);
    trial(&random);
    if (::testing::Test::HasFailure()) return;
  }
}

// Up to 12 switches in up to three tiers, with links that are missing, twice there, or inside a tier.
inline Topology RandomTiers(Random* random) {
  const std::vector<uint32_t> sizes{2 + Roll(random, 4), 1 + Roll(random, 4), Roll(random, 4)};
  TopologyBuilder builder;
  std::vector<std::vector<std::string>> tiers(3);
  for (size_t tier = sizes.size(); tier-- > 0;) {
    for (uint32_t i = 0; i < sizes[tier]; ++i) {
      tiers[tier].push_back(fmt::format("t{}s{}", tier, i));
      builder.Switch(tiers[tier].back());
    }
  }
  uint32_t hosts = 0;
  std::vector<std::pair<std::string, std::string>> links;
  for (const std::string& leaf : tiers[0]) {
    for (uint32_t i = 0; i <= Roll(random, 2); ++i) {
      const std::string host = fmt::format("h{}", hosts++);
      builder.Host(host);
      links.emplace_back(leaf, host);
    }
  }
  for (size_t tier = 0; tier + 1 < tiers.size(); ++tier) {
    for (const std::string& lower : tiers[tier]) {
      for (const std::string& upper : tiers[tier + 1]) {
        for (uint32_t i = 0; i < Roll(random, 5) / 2; ++i) links.emplace_back(upper, lower);
      }
    }
    if (tiers[tier].size() > 1 && Roll(random, 4) == 0) links.emplace_back(tiers[tier][0], tiers[tier][1]);
  }
  for (const auto& [a, b] : links) {
    const bool slow = Roll(random, 4) == 0;
    builder.Link(a, b, slow ? ", rate_gbps: 2.5" : "");
  }
  return builder.Build();
}

// The same, or now and then a fat tree of 12 or 20 switches.
inline Topology AnyTiers(Random* random) {
  const uint32_t roll = Roll(random, 12);
  return roll < 2 ? FatTree4(roll == 0 ? 2 : 4).Build() : RandomTiers(random);
}

// All switches alike: mode III, 1 MiB, nothing taken.
inline std::vector<SwitchOffer> AllAlike(const Topology& topology, Mode mode = Mode::kAugmented) {
  SwitchOffer offer;
  offer.mode = mode;
  offer.arena_bytes = offer.room = 1 << 20;
  return std::vector<SwitchOffer>(topology.nodes.size(), offer);
}

inline PlaceRequest Request(std::vector<NodeId> hosts, Policy policy, uint64_t bytes = 100'000) {
  PlaceRequest request;
  request.policy = policy;
  request.rank_hosts = std::move(hosts);
  request.bytes_of = [bytes](const Tree& tree) -> Result<std::vector<uint64_t>> {
    return std::vector<uint64_t>(tree.inner.size(), bytes);
  };
  return request;
}

inline Allocation AllocationOf(const Placed& placed, const PlaceRequest& request) {
  Allocation out;
  out.links = placed.links;
  for (size_t i = 0; i < placed.bytes.size(); ++i)
    out.switches.push_back({placed.tree.inner[i].node, placed.blocks[i].bytes, placed.blocks[i].number});
  out.reserved_kbps = request.rate_kbps;
  out.exclusive = request.policy == Policy::kEdt;
  out.tenant = request.tenant;
  out.share = request.share;
  return out;
}

// Everything that it says.
inline std::string AllOf(const Placed& placed) {
  std::string out = fmt::format("width {}, {} links deep, {} us, {} Gbit/s, {} down;", placed.width_kbps,
                                placed.tree.depth_links, placed.tree.delay_us, placed.tree.rate_gbps,
                                placed.tree.down_links);
  for (const TreeInner& inner : placed.tree.inner) {
    out += fmt::format(" {} below {} by {} from {} after {} us:", inner.node, inner.parent, inner.parent_port,
                       inner.parent_ingress_port, inner.hop_us);
    for (const TreeChild& child : inner.children)
      out += fmt::format(" {} {} {} {} {}", child.is_host, child.rank, child.inner, child.port,
                         child.ingress_port);
  }
  for (const uint64_t bytes : placed.bytes) out += fmt::format(" {} bytes", bytes);
  for (const BlockChoice& block : placed.blocks)
    out += fmt::format(" block {} {}", block.number, block.bytes);
  for (const LinkEnd& link : placed.links) out += fmt::format(" link {} {}", link.node, link.hop);
  return out;
}

// What is free of the switches, as a load says.
inline void Fill(const Load& load, std::vector<SwitchOffer>* offers) {
  for (NodeId node = 0; node < offers->size(); ++node) {
    SwitchOffer& offer = (*offers)[node];
    ASSERT_LE(load.at(node).bytes, offer.arena_bytes) << "overcommitted";
    offer.room = offer.arena_bytes - load.at(node).bytes;
  }
}

// What owners take of a block's time, counted by what each of them has: by the number of its switch and its
// own. Of each job the fullest phase.
inline std::map<std::pair<NodeId, uint32_t>, uint64_t> TimeTaken(const std::vector<Allocation>& taken) {
  std::map<std::pair<NodeId, uint32_t>, uint64_t> out;
  std::map<std::tuple<NodeId, uint32_t, std::string>, std::map<std::string, uint64_t>> scheduled;
  for (const Allocation& allocation : taken) {
    const auto& [duty, job, phase] = allocation.share;
    for (const Allocation::Region& region : allocation.switches) {
      if (region.block == 0) continue;
      if (phase.empty()) {
        out[{region.node, region.block}] += duty;
      } else {
        scheduled[{region.node, region.block, job}][phase] += duty;
      }
    }
  }
  for (const auto& [of, phases] : scheduled) {
    uint64_t most = 0;
    for (const auto& [phase, duty] : phases) most = std::max(most, duty);
    out[{std::get<0>(of), std::get<1>(of)}] += most;
  }
  return out;
}

// The bytes by which the width of a switch is counted that has to give so many, by another way than Place's:
// of temporal each block is tried with the group in it. 0 if it has none. sustains: whether so many do.
inline uint64_t UsableAnew(const Load& load, const SwitchOffer& offer, NodeId node, uint64_t bytes,
                           const PlaceRequest& request, const std::function<bool(uint64_t)>& sustains) {
  if (request.policy != Policy::kTemporal) return offer.room >= bytes ? offer.room : 0;
  if (offer.room >= bytes && sustains(offer.room)) return offer.room;
  uint64_t most_left = 0;
  uint64_t usable = 0;
  for (const auto& [number, block] : load.at(node).blocks) {
    BlockLoad with = block;
    with.Add(request.share);
    if (block.tenant != request.tenant || block.bytes < bytes || with.Taken() > kWholeTime) continue;
    // As much more as would fit.
    uint64_t least = request.share.duty, most = kWholeTime;
    while (least < most) {
      const uint64_t middle = (least + most + 1) / 2;
      TimeShare more = request.share;
      more.duty = static_cast<uint32_t>(middle);
      BlockLoad other = block;
      other.Add(more);
      other.Taken() <= kWholeTime ? least = middle : most = middle - 1;
    }
    const uint64_t its = block.bytes * least / kWholeTime;
    if (!sustains(its) || least <= most_left) continue;
    most_left = least;
    usable = its;
  }
  return usable;
}

// By another way than Place's: link for link, switch for switch.
inline uint64_t WidthAnew(const Topology& topology, const Load& load, const std::vector<SwitchOffer>& offers,
                          const Placed& placed, const PlaceRequest& request) {
  const Tree& tree = placed.tree;
  uint64_t width = UINT64_MAX;
  for (const TreeInner& inner : tree.inner) {
    double hop_us = 0;
    std::vector<std::string> ports;
    for (const TreeChild& child : inner.children) ports.push_back(child.port);
    if (!inner.parent_port.empty()) ports.push_back(inner.parent_port);
    for (const std::string& port : ports) {
      const LinkEnd end = *topology.EndAt(inner.node, port);
      const Hop& hop = topology.nodes[end.node].hops[end.hop];
      const LinkLoad taken = load.link(std::min(end, topology.Across(end)));
      const auto rate = static_cast<uint64_t>(hop.rate_gbps * 1e6 + 0.5);
      width = std::min(width, (rate - taken.reserved_kbps) / (taken.sharing + 1));
      hop_us = std::max(hop_us, hop.delay_us);
    }
    const SwitchOffer& offer = offers[inner.node];
    if (offer.arena_bytes == 0) continue;
    // EPIC paper, F.3: III holds 4BL, II 4(H-1)BL.
    const double us = 4 * (offer.mode == Mode::kTranslated ? tree.delay_us : hop_us);
    const auto rate = [us](uint64_t usable) {
      return static_cast<uint64_t>(static_cast<double>(usable) * 8e3 / us);
    };
    const uint64_t bytes = request.bytes_of(Tree{.inner = {TreeInner{}}})->front();
    const uint64_t usable = UsableAnew(load, offer, inner.node, bytes, request,
                                       [&](uint64_t its) { return rate(its) >= request.rate_kbps; });
    width = std::min(width, rate(usable));
  }
  return width;
}

// It has every rank once, goes up tier by tier over links that are there, and names both their ends.
inline void ExpectValid(const Topology& topology, const Placed& placed,
                        const std::vector<NodeId>& rank_hosts) {
  const std::vector<uint32_t> tiers = TiersOf(topology);
  const Tree& tree = placed.tree;
  std::set<NodeId> nodes;
  std::set<uint32_t> ranks;
  std::set<LinkEnd> links;
  double deepest_us = 0;
  std::vector<double> us{0};
  for (size_t i = 0; i < tree.inner.size(); ++i) {
    const TreeInner& inner = tree.inner[i];
    EXPECT_TRUE(nodes.insert(inner.node).second) << "a switch is there twice";
    EXPECT_EQ(i == 0, inner.parent == TreeInner::kNoParent);
    us.resize(tree.inner.size());
    EXPECT_FALSE(inner.children.empty());
    for (const TreeChild& child : inner.children) {
      const auto end = topology.EndAt(inner.node, child.port);
      ASSERT_TRUE(end);
      EXPECT_EQ(child.port, child.ingress_port);
      const LinkEnd other = topology.Across(*end);
      const double delay_us = topology.nodes[inner.node].hops[end->hop].delay_us;
      links.insert(std::min(*end, other));
      if (child.is_host) {
        EXPECT_TRUE(ranks.insert(child.rank).second);
        EXPECT_EQ(other.node, rank_hosts[child.rank]);
        deepest_us = std::max(deepest_us, us[i] + delay_us);
        continue;
      }
      ASSERT_GT(child.inner, i);
      const TreeInner& below = tree.inner[child.inner];
      us[child.inner] = us[i] + delay_us;
      EXPECT_EQ(below.parent, i);
      EXPECT_EQ(below.node, other.node);
      EXPECT_EQ(below.parent_port, topology.nodes[other.node].hops[other.hop].port);
      EXPECT_EQ(tiers[below.node] + 1, tiers[inner.node]);
    }
  }
  EXPECT_EQ(ranks.size(), rank_hosts.size());
  EXPECT_EQ(tree.depth_links, tiers[tree.inner[0].node] + 1);
  EXPECT_DOUBLE_EQ(tree.delay_us, deepest_us);
  EXPECT_TRUE(std::ranges::equal(placed.links, links));
  EXPECT_EQ(placed.bytes.size(), tree.inner.size());
  ASSERT_EQ(placed.blocks.size(), tree.inner.size());
  for (size_t i = 0; i < placed.blocks.size(); ++i) EXPECT_GE(placed.blocks[i].bytes, placed.bytes[i]);
}

}  // namespace epic::manager::testing
