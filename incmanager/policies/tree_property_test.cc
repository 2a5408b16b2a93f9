// BuildTree leaves out roots that cannot be better: the tree is that of having looked at all of them. Each
// failure prints the seed; EPIC_TREE_SEED=n runs that alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "incmanager/policies/place_testing.h"
#include "incmanager/policies/tree.h"

namespace epic::manager {
namespace {

using testing::Random;
using testing::Roll;

constexpr uint32_t kSeeds = 2000;

std::string OutcomeText(const Result<Tree>& outcome) {
  if (!outcome.ok()) return outcome.failure().message;
  const Tree& tree = *outcome;
  std::string out = fmt::format("{} deep, {} us, {} Gbit/s, {} down\n", tree.depth_links, tree.delay_us,
                                tree.rate_gbps, tree.down_links);
  for (const TreeInner& inner : tree.inner) {
    out += fmt::format("{} below {} by {}/{}, {} us:", inner.node, inner.parent, inner.parent_port,
                       inner.parent_ingress_port, inner.hop_us);
    for (const TreeChild& child : inner.children)
      out += fmt::format(" {}{}({}) {}/{}", child.is_host ? "rank " : "inner ", child.rank, child.inner,
                         child.port, child.ingress_port);
    out += "\n";
  }
  return out;
}

struct TreeTrial {
  explicit TreeTrial(Random* random)
      : topology(Roll(random, 8) == 0 ? testing::FatTree4().Build() : testing::RandomTiers(random)),
        offers(testing::AllAlike(topology)) {
    // Of most networks all switches have everything, or all links are up: else few trees would be equal.
    const bool alike = Roll(random, 2) == 0;
    for (const NodeId node : topology.switches) {
      SwitchOffer& offer = offers[node];
      offer.groups = Roll(random, 3);
      if (Roll(random, 12) == 0) offer.unusable = "its agent is lost";
      if (alike) continue;
      if (Roll(random, 6) == 0) offer.lacks = "operation product is not in it";
      if (Roll(random, 6) == 0) offer.small_payload = true;
      if (Roll(random, 6) == 0) offer.max_children = 1 + Roll(random, 3);
      if (Roll(random, 6) == 0) offer.abilities = Abilities{};
    }
    if (Roll(random, 2) == 0) CutLinks(random);
    tables = ComputeForwarding(topology);
    const auto switches = static_cast<uint32_t>(topology.switches.size());
    for (uint32_t i = 0; i < 1 + Roll(random, 6); ++i)
      hosts.push_back(switches + Roll(random, static_cast<uint32_t>(topology.nodes.size()) - switches));
  }
  void CutLinks(Random* random) {
    for (const NodeId node : topology.switches) {
      for (uint32_t i = 0; i < topology.nodes[node].hops.size(); ++i) {
        if (Roll(random, 10) != 0) continue;
        const LinkEnd there = topology.Across({node, i});
        const LinkState state =
            Roll(random, 4) == 0 && topology.IsSwitch(there.node) ? LinkState::kGone : LinkState::kDown;
        topology.nodes[node].hops[i].state = topology.nodes[there.node].hops[there.hop].state = state;
      }
    }
  }

  Topology topology;
  std::vector<SwitchOffer> offers;
  std::vector<Forwarding> tables;
  std::vector<NodeId> hosts;
};

TEST(TreeProperty, TheTreeIsThatOfHavingLookedAtAllRoots) {
  const char* only = std::getenv("EPIC_TREE_SEED");
  const uint32_t first = only == nullptr ? 0 : static_cast<uint32_t>(std::atoi(only));
  for (uint32_t seed = first; seed < (only == nullptr ? kSeeds : first + 1); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}; EPIC_TREE_SEED={} runs it alone", seed, seed));
    Random random(seed);
    const TreeTrial trial(&random);
    std::vector<RootCandidate> all;
    const auto slowly = BuildTree(trial.topology, trial.tables, trial.offers, trial.hosts, &all);
    EXPECT_EQ(all.size(), trial.topology.switches.size());
    ASSERT_EQ(OutcomeText(BuildTree(trial.topology, trial.tables, trial.offers, trial.hosts)),
              OutcomeText(slowly));
  }
}

}  // namespace
}  // namespace epic::manager
