// What holds of policies edt, spatial and temporal in any network and under any load. Each failure prints the
// seed; EPIC_PLACE_SEED=n runs that alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "incmanager/policies/place.h"
#include "incmanager/policies/place_testing.h"

namespace epic::manager {
namespace {

using testing::ForSeeds;
using testing::Random;
using testing::Roll;

// A network with groups in it.
struct Trial {
  explicit Trial(Random* random)
      : topology(testing::AnyTiers(random)),
        offers(testing::AllAlike(topology, Roll(random, 2) == 0 ? Mode::kTranslated : Mode::kAugmented)) {
    for (const NodeId node : topology.switches) {
      SwitchOffer& offer = offers[node];
      if (Roll(random, 10) == 0) offer.unusable = "its agent is lost";
      if (Roll(random, 10) == 0) offer.lacks = "operation product is not in it";
      if (Roll(random, 6) == 0) offer.arena_bytes = 150'000;
    }
    testing::Fill(load, &offers);
    if (Roll(random, 3) == 0) Crowd();
  }
  // Links are no obstacle, and all groups are of policy temporal: many share blocks.
  void Crowd() {
    crowded = true;
    for (Node& node : topology.nodes) {
      for (Hop& hop : node.hops) hop.rate_gbps *= 100;
    }
  }

  std::vector<NodeId> Hosts(Random* random) const {
    const auto switches = static_cast<uint32_t>(topology.switches.size());
    const uint32_t all = static_cast<uint32_t>(topology.nodes.size()) - switches;
    std::vector<NodeId> hosts;
    for (uint32_t i = 0; i < 2 + Roll(random, 4); ++i) hosts.push_back(switches + Roll(random, all));
    return hosts;
  }
  PlaceRequest Any(Random* random) const {
    constexpr std::array kPolicies{Policy::kEdt, Policy::kSpatial, Policy::kTemporal, Policy::kTemporal};
    const uint64_t bytes = 50'000 + 1'000 * Roll(random, crowded ? 500 : 200);
    const Policy policy = crowded ? Policy::kTemporal : kPolicies[Roll(random, kPolicies.size())];
    PlaceRequest request = testing::Request(Hosts(random), policy, bytes);
    if (request.policy == Policy::kEdt) return request;
    if (request.policy == Policy::kTemporal) {
      request.share.duty = 1 + Roll(random, Roll(random, 3) == 0 ? kWholeTime : kWholeTime / 2);
      if (Roll(random, 2) == 0) request.share.job = fmt::format("job{}", Roll(random, 2));
      if (!request.share.job.empty() && Roll(random, 4) != 0)
        request.share.phase = fmt::format("phase{}", Roll(random, 2));
      if (Roll(random, 6) == 0) request.tenant = "red";
    }
    request.prefer = static_cast<Prefer>(1 + Roll(random, 3));
    if (Roll(random, 2) == 0) request.rate_kbps = 500'000 + 1'000 * Roll(random, crowded ? 30'000 : 3'000);
    return request;
  }
  std::variant<Placed, Refusal> Place(const PlaceRequest& request) const {
    return manager::Place(topology, load, offers, request);
  }
  void Take(const Placed& placed, const PlaceRequest& request) {
    taken.push_back(testing::AllocationOf(placed, request));
    load.Apply(taken.back());
    testing::Fill(load, &offers);
  }

  Topology topology;
  std::vector<SwitchOffer> offers;
  Load load;
  std::vector<Allocation> taken;
  bool crowded = false;
};

// Some trees that are there before, and no more than fit.
Trial Loaded(Random* random) {
  Trial trial(random);
  const uint32_t groups = trial.crowded ? 12 + Roll(random, 12) : Roll(random, 5);
  for (uint32_t i = 0; i < groups; ++i) {
    const PlaceRequest request = trial.Any(random);
    const auto outcome = trial.Place(request);
    if (const auto* placed = std::get_if<Placed>(&outcome)) trial.Take(*placed, request);
  }
  return trial;
}

// Every tree that goes strictly upwards, by the tier of its root: the widest that nothing is in the way of.
class BruteForce {
 public:
  BruteForce(const Trial& trial, const PlaceRequest& request)
      : trial_(trial), request_(request), tiers_(TiersOf(trial.topology)) {
    std::set<NodeId> leaves;
    bool hosts_free = true;
    for (const NodeId host : request.rank_hosts) {
      leaves.insert(trial.topology.nodes[host].hops[0].peer);
      hosts_free = hosts_free && Free({host, 0});
    }
    if (hosts_free) Level(leaves, 0);
  }
  std::map<uint32_t, uint64_t> widest;  // by tier

 private:
  bool Free(LinkEnd end) const {
    const LinkEnd link = std::min(end, trial_.topology.Across(end));
    if (request_.policy == Policy::kEdt) return trial_.load.link(link).exclusive == 0;
    return WidthOfLink(trial_.topology, trial_.load, link) >= std::max<uint64_t>(request_.rate_kbps, 1);
  }
  // 0 of one that has not what it would have to give.
  uint64_t WidthOfSwitch(NodeId node, uint32_t root_tier) const {
    const SwitchOffer& offer = trial_.offers[node];
    const uint64_t bytes = request_.bytes_of(Tree{.inner = {TreeInner{}}})->front();
    const double us = 4 * 20.0 * (offer.mode == Mode::kTranslated ? root_tier + 1 : 1);
    const auto rate = [us](uint64_t usable) {
      return static_cast<uint64_t>(static_cast<double>(usable) * 8e3 / us);
    };
    return rate(testing::UsableAnew(trial_.load, offer, node, bytes, request_,
                                    [&](uint64_t its) { return rate(its) >= request_.rate_kbps; }));
  }

  // Every way in which these switches, all of one tier, may have their parents.
  void Level(const std::set<NodeId>& nodes, uint32_t tier) {
    for (const NodeId node : nodes) {
      const SwitchOffer& offer = trial_.offers[node];
      if (!offer.unusable.empty() || !offer.lacks.empty()) return;
    }
    for (const NodeId node : nodes) switches_.push_back(node);
    if (nodes.size() == 1) Count(tier);
    std::vector<NodeId> below(nodes.begin(), nodes.end());
    Choose(below, 0, {}, tier);
    switches_.resize(switches_.size() - nodes.size());
  }
  void Choose(const std::vector<NodeId>& below, size_t at, const std::set<NodeId>& above, uint32_t tier) {
    if (at == below.size()) return Level(above, tier + 1);
    const std::vector<Hop>& hops = trial_.topology.nodes[below[at]].hops;
    for (uint32_t i = 0; i < hops.size(); ++i) {
      if (!trial_.topology.IsSwitch(hops[i].peer) || tiers_[hops[i].peer] != tier + 1) continue;
      if (!Free({below[at], i})) continue;
      links_.push_back({below[at], i});
      std::set<NodeId> more = above;
      more.insert(hops[i].peer);
      Choose(below, at + 1, more, tier);
      links_.pop_back();
    }
  }
  void Count(uint32_t tier) {
    uint64_t width = UINT64_MAX;
    const auto narrow = [&](LinkEnd end) {
      width = std::min(width,
                       WidthOfLink(trial_.topology, trial_.load, std::min(end, trial_.topology.Across(end))));
    };
    for (const LinkEnd& end : links_) narrow(end);
    for (const NodeId host : request_.rank_hosts) narrow({host, 0});
    for (const NodeId node : switches_) width = std::min(width, WidthOfSwitch(node, tier));
    if (width == 0 || (HasWidths(request_.policy) && width < request_.rate_kbps)) return;
    uint64_t& best = widest[tier];
    best = std::max(best, width);
  }

  const Trial& trial_;
  const PlaceRequest& request_;
  const std::vector<uint32_t> tiers_;
  std::vector<NodeId> switches_;
  std::vector<LinkEnd> links_;
};

TEST(PlaceProperty, TreesAreValidAndAsWideAsTheyClaim) {
  int trees = 0;
  ForSeeds([&](Random* random) {
    const Trial trial = Loaded(random);
    const PlaceRequest request = trial.Any(random);
    const auto outcome = trial.Place(request);
    const auto* placed = std::get_if<Placed>(&outcome);
    if (placed == nullptr) return;
    ++trees;
    testing::ExpectValid(trial.topology, *placed, request.rank_hosts);
    EXPECT_EQ(placed->width_kbps,
              testing::WidthAnew(trial.topology, trial.load, trial.offers, *placed, request));
    EXPECT_GE(placed->width_kbps, request.rate_kbps);
  });
  if (std::getenv("EPIC_PLACE_SEED") != nullptr) return;
  EXPECT_GT(trees, 40);
}

TEST(PlaceProperty, TierAndFrontierAreThoseOfTryingEveryTree) {
  int trees = 0;
  int fat_trees = 0;
  int refusals = 0;
  ForSeeds([&](Random* random) {
    Trial trial = Loaded(random);
    if (trial.topology.switches.size() > 12) return;
    fat_trees += trial.topology.FindSwitch("core1").has_value() ? 1 : 0;
    PlaceRequest request = trial.Any(random);
    const BruteForce every(trial, request);
    // What is wider than everything on the tiers below.
    std::map<uint32_t, uint64_t> frontier;
    uint64_t widest = 0;
    for (const auto& [tier, width] : every.widest) {
      if (width > widest || frontier.empty()) frontier[tier] = width;
      widest = std::max(widest, width);
    }
    for (const Prefer prefer : {Prefer::kLatency, Prefer::kBandwidth, Prefer::kAuto}) {
      request.prefer = prefer;
      const auto outcome = trial.Place(request);
      const auto* placed = std::get_if<Placed>(&outcome);
      ASSERT_EQ(placed != nullptr, !frontier.empty());
      ++(placed == nullptr ? refusals : trees);
      if (placed == nullptr) continue;
      const uint32_t tier = placed->tree.depth_links - 1;
      const bool first = request.policy == Policy::kEdt || prefer == Prefer::kLatency ||
                         (prefer == Prefer::kAuto && request.rate_kbps != 0);
      EXPECT_EQ(tier, first ? frontier.begin()->first : frontier.rbegin()->first);
      if (request.policy == Policy::kEdt) continue;
      EXPECT_EQ(placed->width_kbps, frontier[tier]);
    }
  });
  if (std::getenv("EPIC_PLACE_SEED") != nullptr) return;
  EXPECT_GT(trees, 150);
  EXPECT_GT(fat_trees, 10);
  EXPECT_GT(refusals, 50);
}

TEST(PlaceProperty, NothingIsTakenTwiceAndAllIsGivenBack) {
  int blocks = 0;
  int shared = 0;
  ForSeeds([&](Random* random) {
    Trial trial(random);
    for (int step = 0; step < 24; ++step) {
      const PlaceRequest request = trial.Any(random);
      const Load before = trial.load;
      const auto outcome = trial.Place(request);
      if (const auto* placed = std::get_if<Placed>(&outcome)) {
        trial.Take(*placed, request);  // and looks at memory
        Load after = trial.load;
        after.Undo(trial.taken.back());
        EXPECT_TRUE(after == before);
      }
      for (const auto& [block, duty] : testing::TimeTaken(trial.taken)) {
        EXPECT_LE(duty, kWholeTime);
        EXPECT_EQ(trial.load.at(block.first).blocks.at(block.second).Taken(), duty);
        ++blocks;
        if (trial.load.at(block.first).blocks.at(block.second).owners > 1) ++shared;
      }
      for (NodeId node = 0; node < trial.topology.nodes.size(); ++node) {
        for (uint32_t hop = 0; hop < trial.topology.nodes[node].hops.size(); ++hop) {
          const LinkLoad link = trial.load.link({node, hop});
          EXPECT_LE(link.exclusive, 1U);
          EXPECT_LE(static_cast<double>(link.reserved_kbps),
                    trial.topology.nodes[node].hops[hop].rate_gbps * 1e6);
        }
      }
    }
    std::shuffle(trial.taken.begin(), trial.taken.end(), *random);
    for (const Allocation& allocation : trial.taken) trial.load.Undo(allocation);
    EXPECT_TRUE(trial.load == Load{});
  });
  if (std::getenv("EPIC_PLACE_SEED") != nullptr) return;
  EXPECT_GT(blocks, 1'000);
  EXPECT_GT(shared, 500);
}

TEST(PlaceProperty, WhatAGroupGivesBackNeverTurnsYesIntoNo) {
  int yes = 0;
  ForSeeds([&](Random* random) {
    Trial trial(random);
    for (int step = 0; step < 16; ++step) {
      const PlaceRequest request = trial.Any(random);
      const auto outcome = trial.Place(request);
      if (const auto* placed = std::get_if<Placed>(&outcome)) trial.Take(*placed, request);
    }
    const PlaceRequest request = trial.Any(random);
    const bool before = trial.Place(request).index() == 0;
    std::shuffle(trial.taken.begin(), trial.taken.end(), *random);
    for (; !trial.taken.empty(); trial.taken.pop_back()) {
      trial.load.Undo(trial.taken.back());
      testing::Fill(trial.load, &trial.offers);
      if (before) {
        EXPECT_EQ(trial.Place(request).index(), 0U);
      }
    }
    yes += before ? 1 : 0;
  });
  if (std::getenv("EPIC_PLACE_SEED") != nullptr) return;
  EXPECT_GT(yes, 30);
}

TEST(PlaceProperty, TheSameAgainAndNeverNoForMoreMemory) {
  ForSeeds([](Random* random) {
    Trial trial = Loaded(random);
    const PlaceRequest request = trial.Any(random);
    const auto one = trial.Place(request);
    const auto other = trial.Place(request);
    ASSERT_EQ(one.index(), other.index());
    if (const auto* refusal = std::get_if<Refusal>(&one)) {
      EXPECT_EQ(refusal->failure.message, std::get<Refusal>(other).failure.message);
      return;
    }
    const auto& [a, b] = std::pair{std::get<Placed>(one), std::get<Placed>(other)};
    EXPECT_EQ(testing::AllOf(a), testing::AllOf(b));
    for (const NodeId node : trial.topology.switches) {
      if (Roll(random, 3) == 0) trial.offers[node].room += 1'000 * Roll(random, 1'000);
    }
    EXPECT_EQ(trial.Place(request).index(), 0U);
  });
}

// What is left of a constraint when it is taken away from the world.
void TakeAway(const Constraint& constraint, Trial* trial) {
  if (constraint.kind == Constraint::Kind::kLink) {
    for (const LinkEnd& end : {constraint.link, trial->topology.Across(constraint.link)})
      trial->topology.nodes[end.node].hops[end.hop].rate_gbps = 1'000;
    for (Allocation& allocation : trial->taken) std::erase(allocation.links, constraint.link);
    return;
  }
  if (constraint.kind == Constraint::Kind::kDuty) {
    // Time there, and nothing else: whoever has a part of a block there has next to none.
    std::vector<Allocation> there;
    for (Allocation& allocation : trial->taken) {
      const auto region = std::ranges::find(allocation.switches, constraint.node, &Allocation::Region::node);
      if (region == allocation.switches.end()) continue;
      there.push_back({.switches = {*region}, .tenant = allocation.tenant, .share = allocation.share});
      there.back().share.duty = 1;
      allocation.switches.erase(region);
    }
    trial->taken.insert(trial->taken.end(), there.begin(), there.end());
    return;
  }
  SwitchOffer& offer = trial->offers[constraint.node];
  offer.unusable = offer.lacks = "";
  offer.max_children = 1'000;
  offer.arena_bytes = 0;
  offer.room = UINT64_MAX;
}

TEST(PlaceProperty, WhatARefusalNamesIsInTheWay) {
  std::map<Constraint::Kind, int> seen;
  ForSeeds([&](Random* random) {
    Trial trial = Loaded(random);
    for (const NodeId node : trial.topology.switches)
      trial.offers[node].max_children = Roll(random, 4) == 0 ? 1 : 64;
    const PlaceRequest request = trial.Any(random);
    const auto outcome = trial.Place(request);
    const auto* refusal = std::get_if<Refusal>(&outcome);
    if (refusal == nullptr || refusal->constraints.empty()) return;
    EXPECT_NE(refusal->failure.message.find(refusal->constraints[0].text), std::string::npos);
    const auto without = [&](size_t kept) {
      Trial other = trial;
      for (size_t i = 0; i < refusal->constraints.size(); ++i) {
        const Constraint& one = refusal->constraints[i];
        const bool same = kept < refusal->constraints.size() && one.node == refusal->constraints[kept].node &&
                          one.link == refusal->constraints[kept].link;
        if (!same) TakeAway(one, &other);
      }
      other.load = Load{};
      for (const Allocation& allocation : other.taken) other.load.Apply(allocation);
      return other.Place(request).index() == 0;
    };
    EXPECT_TRUE(without(SIZE_MAX)) << refusal->failure.message;
    for (size_t i = 0; i < refusal->constraints.size(); ++i) {
      ++seen[refusal->constraints[i].kind];
      EXPECT_FALSE(without(i)) << refusal->constraints[i].text;
    }
  });
  if (std::getenv("EPIC_PLACE_SEED") != nullptr) return;
  for (const Constraint::Kind kind :
       {Constraint::Kind::kLink, Constraint::Kind::kAbility, Constraint::Kind::kChildren,
        Constraint::Kind::kMemory, Constraint::Kind::kDuty, Constraint::Kind::kSustain})
    EXPECT_GT(seen[kind], 3) << static_cast<int>(kind);
}

}  // namespace
}  // namespace epic::manager
