#include "incmanager/policies/explain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Roots {
 public:
  explicit Roots(const testing::TopologyBuilder& builder)
      : topology(builder.Build()),
        tables(ComputeForwarding(topology)),
        offers(topology.switches.size()),
        hosts(topology.nodes.size() - topology.switches.size()) {
    for (size_t i = 0; i < hosts.size(); ++i) hosts[i] = fmt::format("h{}", i);
  }

  Result<Tree> Build(std::vector<RootChoice>* choices) const {
    std::vector<NodeId> ids;
    for (const std::string& host : hosts) ids.push_back(*topology.FindNode(host));
    std::vector<RootCandidate> candidates;
    auto tree = BuildTree(topology, tables, offers, ids, &candidates);
    *choices = ExplainRoots(topology, offers, candidates);
    return tree;
  }
  RootChoice Of(const std::string& name) const {
    std::vector<RootChoice> choices;
    static_cast<void>(Build(&choices));
    return choices[*topology.FindSwitch(name)];
  }
  // "chosen", or why not.
  std::string StateOf(const std::string& name) const {
    const RootChoice choice = Of(name);
    EXPECT_EQ(choice.chosen, choice.why.empty());
    return choice.chosen ? "chosen" : choice.why;
  }
  // "leaf1 (3), leaf2 (2)".
  std::string SwitchesOf(const std::string& name) const {
    std::string out;
    for (const Aggregator& inner : Of(name).switches)
      out +=
          fmt::format("{}{} ({})", out.empty() ? "" : ", ", topology.nodes[inner.node].name, inner.children);
    return out;
  }
  SwitchOffer& Offer(const std::string& name) { return offers[*topology.FindSwitch(name)]; }

  Topology topology;
  std::vector<Forwarding> tables;
  std::vector<SwitchOffer> offers;
  std::vector<std::string> hosts;
};

TEST(ExplainRoots, SaysWhatATreeFromEachSwitchWouldBe) {
  const Roots tree(testing::Tree32ButOneLink().Link("root", "leaf2", ", rate_gbps: 1, delay_us: 30"));
  EXPECT_EQ(tree.StateOf("root"), "chosen");
  EXPECT_EQ(tree.SwitchesOf("root"), "root (2), leaf1 (2), leaf2 (2)");
  EXPECT_EQ(tree.Of("root").depth_links, 2U);
  EXPECT_EQ(tree.Of("root").rate_gbps, 1);
  EXPECT_EQ(tree.Of("root").delay_us, 50);
  EXPECT_EQ(tree.StateOf("leaf1"), "deeper: 3 links, root has 2");
  EXPECT_EQ(tree.SwitchesOf("leaf1"), "leaf1 (3), leaf2 (2)") << "root has one child, and is left out";
  EXPECT_EQ(tree.Of("leaf1").delay_us, 70);
}

TEST(ExplainRoots, ASwitchAboveTheOnlyOneThatAllWaysGoThroughIsDeeper) {
  Roots tree(testing::Tree32());
  tree.hosts = {"h0", "h1"};
  EXPECT_EQ(tree.StateOf("leaf1"), "chosen");
  EXPECT_EQ(tree.StateOf("root"), "deeper: 2 links, leaf1 has 1");
  EXPECT_EQ(tree.SwitchesOf("root"), "leaf1 (2)");
  EXPECT_EQ(tree.StateOf("leaf2"), "deeper: 3 links, leaf1 has 1");
}

// Each with all that is looked at before the same, in the order of the cost.
TEST(ExplainRoots, NamesTheFirstThingInWhichTheChosenOneIsBetter) {
  Roots spines(testing::TwoSpines());
  EXPECT_EQ(spines.StateOf("spine1"), "chosen");
  EXPECT_EQ(spines.StateOf("spine2"), "equal to spine1, which comes first");
  spines.Offer("spine1").groups = 1;
  EXPECT_EQ(spines.StateOf("spine2"), "chosen");
  EXPECT_EQ(spines.StateOf("spine1"), "busier: 1 group on the root, spine2 has 0");
  spines.Offer("spine1").groups = 3;
  spines.Offer("spine2").groups = 2;
  EXPECT_EQ(spines.StateOf("spine1"), "busier: 3 groups on the root, spine2 has 2");
  spines.Offer("spine2").abilities = Abilities::First();
  EXPECT_EQ(spines.StateOf("spine1"), "chosen");
  EXPECT_THAT(spines.StateOf("spine2"),
              AllOf(HasSubstr("lacks more: types "), HasSubstr(" and saturating_sum; spine1 lacks nothing")));
  spines.Offer("leaf1").abilities = Abilities::First();
  spines.Offer("spine2").abilities = Abilities();
  EXPECT_THAT(spines.StateOf("spine2"), HasSubstr("; spine1 lacks types ")) << "by leaf1";
  spines.Offer("spine1").small_payload = true;
  EXPECT_EQ(spines.StateOf("spine2"), "chosen");
  EXPECT_EQ(spines.StateOf("spine1"), "the payload that is asked for is too large for spine1");
}

TEST(ExplainRoots, AmongEquallyDeepTreesThatWithFewestSwitchesIsChosen) {
  // From a one switch more has two children than from b.
  testing::TopologyBuilder builder;
  for (const char* name : {"a", "b", "m1", "m2", "m3", "m4", "m5", "l1", "l2", "l3"}) builder.Switch(name);
  for (int i = 0; i < 6; ++i) {
    builder.Host(fmt::format("h{}", i)).Link(fmt::format("l{}", i / 2 + 1), fmt::format("h{}", i));
  }
  builder.Link("a", "m1").Link("a", "m2").Link("m1", "l1").Link("m1", "l2").Link("m2", "l3");
  builder.Link("b", "m3").Link("b", "m4").Link("b", "m5").Link("m3", "l1").Link("m4", "l2").Link("m5", "l3");
  const Roots roots(builder);
  EXPECT_EQ(roots.StateOf("b"), "chosen");
  EXPECT_EQ(roots.StateOf("a"), "more switches: 5, b has 4");
}

TEST(ExplainRoots, WhatExcludesATreeIsSaidOfItAlsoWhenNoneIsLeft) {
  Roots spines(testing::TwoSpines());
  spines.Offer("spine1").lacks = "type int8 is not in spine1";
  EXPECT_EQ(spines.StateOf("spine1"), "type int8 is not in spine1");
  EXPECT_EQ(spines.StateOf("spine2"), "chosen");
  spines.Offer("leaf1").lacks = "type int8 is not in leaf1";
  EXPECT_EQ(spines.StateOf("spine1"), "type int8 is not in spine1; type int8 is not in leaf1");
  EXPECT_EQ(spines.StateOf("spine2"), "type int8 is not in leaf1");

  Roots small(testing::TwoSpines());
  small.Offer("leaf2").max_children = 1;
  EXPECT_EQ(small.StateOf("spine1"), "leaf2 would have 2 children in this group; it takes at most 1");
  EXPECT_EQ(small.StateOf("leaf2"), "leaf2 would have 3 children in this group; it takes at most 1");
}

TEST(ExplainRoots, SwitchesWithoutATreeSayWhatIsInTheWay) {
  Roots spines(testing::TwoSpines());
  spines.Offer("leaf2").unusable = "its agent is lost";
  EXPECT_EQ(spines.StateOf("leaf2"), "its agent is lost");
  EXPECT_EQ(spines.StateOf("spine1"), "it does not reach h2 over usable switches");
  EXPECT_EQ(spines.SwitchesOf("spine1") + spines.SwitchesOf("leaf2"), "");
  EXPECT_EQ(spines.Of("spine1").rate_gbps + spines.Of("leaf2").delay_us, 0);
}

// The explanation is of the tree that BuildTree returns: one root at most is chosen, and that one if there is
// a tree.
TEST(ExplainRoots, TheChosenRootIsThatOfTheTree) {
  int trees = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(fmt::format("trial {}, which is the seed", trial));
    std::mt19937 random(static_cast<uint32_t>(trial));
    Roots roots(trial % 2 == 0 ? testing::FatTree4() : testing::TwoSpines());
    for (SwitchOffer& offer : roots.offers) {
      if (random() % 20 == 0) offer.unusable = "its engine is down";
      if (random() % 8 == 0) offer.lacks = "something";
      if (random() % 8 == 0) offer.small_payload = true;
      if (random() % 4 == 0) offer.abilities = Abilities::First();
      if (random() % 20 == 0) offer.max_children = 1;
      offer.groups = static_cast<uint32_t>(random() % 3);
    }
    std::ranges::shuffle(roots.hosts, random);
    roots.hosts.resize(2 + random() % (roots.hosts.size() - 1));
    std::vector<RootChoice> choices;
    const auto tree = roots.Build(&choices);
    ASSERT_EQ(choices.size(), roots.topology.switches.size());
    const auto chosen = std::ranges::count(choices, true, &RootChoice::chosen);
    for (const RootChoice& choice : choices) EXPECT_EQ(choice.chosen, choice.why.empty());
    if (tree.ok()) {
      ++trees;
      ASSERT_EQ(chosen, 1);
      const RootChoice& choice = *std::ranges::find(choices, true, &RootChoice::chosen);
      ASSERT_EQ(choice.switches.size(), tree->inner.size());
      for (size_t i = 0; i < tree->inner.size(); ++i) {
        EXPECT_EQ(choice.switches[i].node, tree->inner[i].node);
        EXPECT_EQ(choice.switches[i].children, tree->inner[i].children.size());
      }
      EXPECT_EQ(choice.depth_links, tree->depth_links);
      EXPECT_EQ(choice.rate_gbps, tree->rate_gbps);
      EXPECT_EQ(choice.delay_us, tree->delay_us);
    } else {
      EXPECT_EQ(chosen, 0);
    }
  }
  EXPECT_GT(trees, 30);
  EXPECT_LT(trees, 300);
}

}  // namespace
}  // namespace epic::manager
