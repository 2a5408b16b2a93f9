#include "incmanager/policies/place.h"

#include <gtest/gtest.h>

#include "incmanager/policies/place_testing.h"

namespace epic::manager {
namespace {

class FatTree : public ::testing::Test {
 protected:
  std::vector<NodeId> Hosts(const std::vector<std::string>& names) const {
    std::vector<NodeId> out;
    for (const std::string& name : names) out.push_back(*topology.FindNode(name));
    return out;
  }
  NodeId Id(const std::string& name) const { return *topology.FindNode(name); }
  std::variant<Placed, Refusal> Put(const PlaceRequest& request) {
    auto outcome = Place(topology, load, offers, request, &choices);
    if (const auto* placed = std::get_if<Placed>(&outcome)) {
      load.Apply(testing::AllocationOf(*placed, request));
      testing::Fill(load, &offers);
    }
    return outcome;
  }
  std::string Root(const PlaceRequest& request) {
    const auto outcome = Put(request);
    const auto* placed = std::get_if<Placed>(&outcome);
    return placed == nullptr ? std::get<Refusal>(outcome).failure.message
                             : topology.nodes[placed->tree.inner[0].node].name;
  }

  Topology topology = testing::FatTree4().Build();
  std::vector<SwitchOffer> offers = testing::AllAlike(topology);
  Load load;
  std::vector<RootChoice> choices;
};

TEST_F(FatTree, HasItsTiers) {
  const std::vector<uint32_t> tiers = TiersOf(topology);
  EXPECT_EQ(tiers[Id("edge1")], 0U);
  EXPECT_EQ(tiers[Id("agg8")], 1U);
  EXPECT_EQ(tiers[Id("core4")], 2U);
  EXPECT_EQ(tiers[Id("h0")], UINT32_MAX);
}

TEST_F(FatTree, EdtTreesShareNoLink) {
  EXPECT_EQ(Root(testing::Request(Hosts({"h0", "h1"}), Policy::kEdt)), "edge1");
  EXPECT_EQ(Root(testing::Request(Hosts({"h2", "h4"}), Policy::kEdt)), "core1");
  EXPECT_EQ(Root(testing::Request(Hosts({"h3", "h5"}), Policy::kEdt)), "core3");
  // All links up from edge2 are taken now.
  EXPECT_EQ(
      Root(testing::Request(Hosts({"h2", "h6"}), Policy::kEdt)),
      "policy edt finds no tree: the link between edge2:swp1 and h2 is in another tree of policy edt; and 1 "
      "more in the way");
  EXPECT_EQ(choices[Id("core1")].why, "no free way leads up to it from h2");
  // A tree of another policy is in nobody's way.
  EXPECT_EQ(Root(testing::Request(Hosts({"h2", "h6"}), Policy::kSpatial)), "core2");
}

TEST_F(FatTree, EdtTakesTheLowestTierThenTheLeastLoadedRoot) {
  EXPECT_EQ(Root(testing::Request(Hosts({"h0", "h2"}), Policy::kEdt)), "agg1");
  EXPECT_EQ(choices[Id("agg2")].why, "equal to agg1, which comes first");
  EXPECT_EQ(choices[Id("core1")].why, "deeper: 3 links, agg1 has 2");
  EXPECT_EQ(choices[Id("agg3")].why, "no free way leads up to it from h0");
  EXPECT_EQ(Root(testing::Request(Hosts({"h1", "h3"}), Policy::kEdt)), "agg2");
}

TEST_F(FatTree, SpatialTakesTheWidestUnlessLessDepthIsPreferred) {
  PlaceRequest request = testing::Request(Hosts({"h0", "h2"}), Policy::kSpatial);
  EXPECT_EQ(Root(request), "agg1");
  // A group on each of these links halves what the next would have, of hosts' links as well.
  EXPECT_EQ(choices[Id("agg1")].width_kbps, 10'000'000U);
  request.rank_hosts = Hosts({"h1", "h3"});
  EXPECT_EQ(Root(request), "agg2");
  EXPECT_EQ(choices[Id("agg1")].why, "narrower: 5 Gbit/s, agg2 has 10");
}

TEST_F(FatTree, ARateIsReservedAndLeavesOthersTheRest) {
  PlaceRequest request = testing::Request(Hosts({"h0", "h2"}), Policy::kSpatial);
  request.rate_kbps = 6'000'000;
  EXPECT_EQ(Root(request), "agg1");
  EXPECT_EQ(Root(request),
            "policy spatial finds no tree: the link between edge1:swp1 and h0 has 4 Gbit/s for the "
            "group, 6 needed; and 1 more in the way");
  request.rank_hosts = Hosts({"h1", "h3"});
  EXPECT_EQ(Root(request), "agg2");
  EXPECT_EQ(choices[Id("agg1")].why, "no free way leads up to it from h1");
}

TEST_F(FatTree, MemoryIsAsMuchWidthAsItSustains) {
  for (SwitchOffer& offer : offers) offer.room = 100'000;
  // III holds 4BL, of 20 us: 10 Gbit/s.
  PlaceRequest request = testing::Request(Hosts({"h0", "h2"}), Policy::kSpatial, 1'000);
  offers[Id("agg1")].room = 50'000;
  const auto outcome = Place(topology, load, offers, request, &choices);
  ASSERT_EQ(outcome.index(), 0U);
  EXPECT_EQ(choices[Id("agg2")].width_kbps, 10'000'000U);
  EXPECT_EQ(choices[Id("agg1")].why, "narrower: 5 Gbit/s, agg2 has 10");
}

TEST_F(FatTree, ASwitchWithTooLittleMemoryIsGoneRoundOrNamed) {
  offers[Id("agg1")].room = 90'000;
  EXPECT_EQ(Root(testing::Request(Hosts({"h0", "h2"}), Policy::kEdt)), "agg2");
  EXPECT_EQ(choices[Id("agg1")].why, "agg1 has 87.9 of 1024.0 KiB free, 97.7 needed");
  offers[Id("edge3")].room = 0;
  const auto outcome = Put(testing::Request(Hosts({"h4", "h6"}), Policy::kEdt));
  ASSERT_EQ(outcome.index(), 1U);
  EXPECT_EQ(std::get<Refusal>(outcome).failure.code, ErrorCode::kNoResource);
  EXPECT_EQ(std::get<Refusal>(outcome).failure.switch_name, "edge3");
  EXPECT_EQ(std::get<Refusal>(outcome).failure.brief, "edge3 has 0.0 of 1.0 MiB free, 0.1 needed");
}

TEST_F(FatTree, WhoLacksSomethingIsNamed) {
  offers[Id("edge1")].lacks = "operation product is not in edge1 (version 1)";
  const auto outcome = Put(testing::Request(Hosts({"h0", "h1"}), Policy::kSpatial));
  ASSERT_EQ(outcome.index(), 1U);
  EXPECT_EQ(std::get<Refusal>(outcome).failure.code, ErrorCode::kNoTree);
  EXPECT_EQ(std::get<Refusal>(outcome).failure.brief, "operation product is not in edge1 (version 1)");
}

TEST(Place, NeedsTiers) {
  // A host at the root makes it one of the lowest tier.
  testing::TopologyBuilder builder;
  builder.Switch("root")
      .Switch("leaf")
      .Host("h0")
      .Host("h1")
      .Link("root", "h0")
      .Link("leaf", "h1")
      .Link("root", "leaf");
  const Topology topology = builder.Build();
  const auto outcome =
      Place(topology, {}, testing::AllAlike(topology), testing::Request({2, 3}, Policy::kEdt));
  ASSERT_EQ(outcome.index(), 1U);
  EXPECT_EQ(std::get<Refusal>(outcome).failure.code, ErrorCode::kNoTree);
  EXPECT_TRUE(std::get<Refusal>(outcome).constraints.empty());
  EXPECT_EQ(
      std::get<Refusal>(outcome).failure.brief,
      "no switch lies above all hosts by links that lead from tier to tier, which policy edt needs; policy "
      "shortest does not");
}

TEST(Policies, HaveTheirNames) {
  EXPECT_EQ(PolicyNamed("edt"), Policy::kEdt);
  EXPECT_EQ(PolicyNamed("temporal"), Policy::kTemporal);
  EXPECT_EQ(PolicyNamed("luck"), std::nullopt);
  EXPECT_EQ(PolicyNamed("unspecified"), std::nullopt);
  EXPECT_EQ(PreferNamed("bandwidth"), Prefer::kBandwidth);
  EXPECT_EQ(PreferNamed(""), std::nullopt);
}

}  // namespace
}  // namespace epic::manager
