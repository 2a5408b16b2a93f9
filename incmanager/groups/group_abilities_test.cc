// Groups and what their switches can do: types, operations and payloads (docs/DEPLOY.md, "Types and
// operations").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"
#include "incmanager/groups/group_table.h"
#include "incmanager/groups/group_table_testing.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;

// Two leaves with two hosts each, and two spines that join them; the tree takes spine1 if both are as good.
testing::TopologyBuilder TwoSpines() {
  testing::TopologyBuilder builder;
  builder.Switch("spine1").Switch("spine2").Switch("leaf1").Switch("leaf2");
  for (const char* host : {"h0", "h1", "h2", "h3"}) builder.Host(host);
  for (const char* leaf : {"leaf1", "leaf2"}) builder.Link("spine1", leaf).Link("spine2", leaf);
  return builder.Link("leaf1", "h0").Link("leaf1", "h1").Link("leaf2", "h2").Link("leaf2", "h3");
}

// The switch states these abilities from now on.
void State(GroupWorldFixture* w, const std::string& name, const Abilities& abilities,
           uint32_t max_path_mtu = 4096) {
  EngineReport report = w->Report(w->Id(name));
  report.abilities = abilities;
  report.version = "0.1.0";
  report.max_path_mtu = max_path_mtu;
  ASSERT_TRUE(w->switches.Heartbeat(w->now, name, &report).ok());
}

// The switches of the tree that group "g" is being installed in.
std::vector<std::string> Placed(GroupWorldFixture* w) {
  std::vector<std::string> names;
  for (const auto& [node, context] : w->world.installs) names.push_back(w->topology.nodes[node].name);
  return names;
}

GroupSpec Needing(const std::string& types, const std::string& operations) {
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = 4;
  if (!types.empty()) EPIC_CHECK(AddTypes(types, &spec.needs).empty());
  if (!operations.empty()) EPIC_CHECK(AddOps(operations, &spec.needs).empty());
  return spec;
}

TEST(GroupAbilities, ATreeOfSwitchesThatHaveEverythingComesFirst) {
  GroupWorldFixture w(TwoSpines());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine1"));

  GroupWorldFixture around(TwoSpines());
  State(&around, "spine1", Abilities::First());
  around.JoinAll(4);
  EXPECT_THAT(Placed(&around), Contains("spine2"));
  around.AnswerInstalls();
  EXPECT_EQ(around.Last<JoinedReply>(100)->abilities, Abilities::All());
  EXPECT_TRUE(around.Last<JoinedReply>(100)->lacks.empty());
}

TEST(GroupAbilities, WithoutAnotherTreeRanksAreToldWhatIsMissingWhere) {
  GroupWorldFixture w(testing::Tree32());
  State(&w, "leaf1", Abilities::First());
  w.JoinAll(4);
  w.AnswerInstalls();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto* joined = w.Last<JoinedReply>(100 + rank);
    ASSERT_NE(joined, nullptr);
    EXPECT_EQ(joined->abilities, Abilities::First());
    const auto lack = std::ranges::find(joined->lacks, "operation product", &Lack::what);
    ASSERT_NE(lack, joined->lacks.end());
    EXPECT_EQ(lack->where, "leaf1 (version 0.1.0)");
    EXPECT_EQ(joined->lacks.size(), 8u + 6u) << "each once";
  }
  EXPECT_THAT(w.world.notes,
              Contains(HasSubstr("operations product, band, bor, bxor, land and lor are refused: "
                                 "not in leaf1 (version 0.1.0)")));
  EXPECT_EQ(w.table.Find("g")->lacks.size(), 14u);
}

TEST(GroupAbilities, EachLackIsTheFirstSwitchs) {
  GroupWorldFixture w(testing::Tree32());
  Abilities no_types;
  for (const OpInfo& row : kReduceOps) no_types.Add(row.op);
  no_types.Add(DataType::kFloat32);
  State(&w, "leaf1", no_types);
  State(&w, "leaf2", Abilities::First());
  w.JoinAll(4);
  w.AnswerInstalls();
  const auto* joined = w.Last<JoinedReply>(100);
  ASSERT_NE(joined, nullptr);
  const auto where = [&](const char* what) {
    const auto lack = std::ranges::find(joined->lacks, what, &Lack::what);
    return lack == joined->lacks.end() ? "" : lack->where;
  };
  EXPECT_EQ(where("type int32"), "leaf1 (version 0.1.0)");
  EXPECT_EQ(where("operation lor"), "leaf2 (version 0.1.0)");
  EXPECT_EQ(where("type float32"), "");
  EXPECT_TRUE(joined->abilities.Has(DataType::kFloat32) && joined->abilities.Has(ReduceOp::kMax));
  EXPECT_FALSE(joined->abilities.Has(DataType::kInt32) || joined->abilities.Has(ReduceOp::kLogicalOr));
}

TEST(GroupAbilities, WhatAGroupNeedsIsHadOrTheRefusalSaysWhy) {
  GroupWorldFixture w(testing::Tree32());
  State(&w, "leaf1", Abilities::First());
  ASSERT_TRUE(w.table.Create(Needing("float32", "product")).ok());
  w.JoinAll(4);
  const auto* failure = w.Last<Failure>(100);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kNoTree);
  EXPECT_EQ(failure->switch_name, "leaf1");
  EXPECT_THAT(failure->message, HasSubstr("operation product is not in leaf1 (version 0.1.0)"));

  GroupWorldFixture both(testing::Tree32());
  State(&both, "leaf1", Abilities::First());
  ASSERT_TRUE(both.table.Create(Needing("float64,int8", "")).ok());
  both.JoinAll(4);
  EXPECT_THAT(both.Last<Failure>(100)->message,
              HasSubstr("types float64 and int8 are not in leaf1 (version 0.1.0)"));

  GroupWorldFixture has(testing::Tree32());
  State(&has, "leaf1", Abilities::First());
  ASSERT_TRUE(has.table.Create(Needing("float16", "max")).ok());
  has.JoinAll(4);
  EXPECT_EQ(has.Phase(), "installing");
}

// spine2 has all but INT8, spine1 the first only.
TEST(GroupAbilities, WhereNoTreeHasEverythingOneHasWhatIsNeeded) {
  GroupWorldFixture w(TwoSpines());
  State(&w, "spine1", Abilities::First());
  Abilities int8;
  int8.Add(DataType::kInt8);
  State(&w, "spine2", int8.Lacking(Abilities::All()));
  ASSERT_TRUE(w.table.Create(Needing("float64", "product")).ok());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine2"));
  w.AnswerInstalls();
  ASSERT_EQ(w.Last<JoinedReply>(100)->lacks.size(), 1u);
  EXPECT_EQ(w.Last<JoinedReply>(100)->lacks[0].what, "type int8");
}

TEST(GroupAbilities, AGroupGoesAroundASwitchWithASmallerPayload) {
  GroupWorldFixture w(TwoSpines());
  State(&w, "spine1", Abilities::All(), 1024);
  GroupSpec spec = Needing("", "");
  spec.path_mtu = 4096;
  ASSERT_TRUE(w.table.Create(spec).ok());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine2"));

  // Where there is none, who is in the way is named, as ever.
  GroupWorldFixture tree(testing::Tree32());
  State(&tree, "leaf1", Abilities::All(), 1024);
  ASSERT_TRUE(tree.table.Create(spec).ok());
  tree.JoinAll(4);
  EXPECT_EQ(tree.Last<Failure>(100)->code, ErrorCode::kMtu);
  EXPECT_THAT(tree.Last<Failure>(100)->message, HasSubstr("the engine of leaf1"));
}

}  // namespace
}  // namespace epic::manager
