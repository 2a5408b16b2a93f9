// Groups and what their switches can do: types, operations and payloads (docs/DEPLOY.md, "Types and
// operations").
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::GroupWorldFixture;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

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

GroupSpec Needing(const std::string& types, const std::string& operations, uint32_t world_size = 4) {
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = world_size;
  spec.path = Path::kNetwork;
  if (!types.empty()) EPIC_CHECK(AddTypes(types, &spec.needs).empty());
  if (!operations.empty()) EPIC_CHECK(AddOps(operations, &spec.needs).empty());
  return spec;
}

TEST(GroupAbilities, ATreeOfSwitchesThatHaveEverythingComesFirst) {
  GroupWorldFixture w(testing::TwoSpines());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine1"));

  GroupWorldFixture around(testing::TwoSpines());
  State(&around, "spine1", Abilities::First());
  around.JoinAll(4);
  EXPECT_THAT(Placed(&around), Contains("spine2"));
  around.AnswerInstalls();
  EXPECT_EQ(around.Last<JoinedReply>(100)->abilities, Abilities::All().Within(2));
  EXPECT_TRUE(around.Last<JoinedReply>(100)->lacks.empty());
}

// One that does not would refuse the header of a call with turns, or with a priority.
TEST(GroupAbilities, PartsTakeTurnsAndCallsHavePrioritiesWhereAllSwitchesOfTheTreeKnowOfThem) {
  Abilities without = Abilities::All();
  without.turns = without.priorities = false;
  for (const bool all : {true, false}) {
    GroupWorldFixture w(testing::Tree32());
    if (!all) State(&w, "leaf2", without);
    w.JoinAll(4);
    w.AnswerInstalls();
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const auto* joined = w.Last<JoinedReply>(100 + rank);
      ASSERT_NE(joined, nullptr);
      EXPECT_EQ(joined->abilities.turns, all);
      EXPECT_EQ(joined->abilities.priorities, all);
      EXPECT_TRUE(joined->lacks.empty()) << "no call needs them";
    }
  }
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
    EXPECT_EQ(joined->lacks.size(), 8u + 7u) << "each once";
  }
  EXPECT_THAT(w.world.notes,
              Contains(HasSubstr("operations product, band, bor, bxor, land, lor and saturating_sum go by "
                                 "the hosts: not in leaf1 (version 0.1.0)")));
  EXPECT_EQ(w.groups()->Find("g")->lacks.size(), 15u);
  EXPECT_TRUE(w.Last<JoinedReply>(100)->hosts_reach);

  GroupWorldFixture network(testing::Tree32());
  State(&network, "leaf1", Abilities::First());
  network.path = Path::kNetwork;
  network.JoinAll(4);
  network.AnswerInstalls();
  EXPECT_THAT(network.world.notes, Contains(HasSubstr("are refused: not in leaf1 (version 0.1.0)")));
  EXPECT_FALSE(network.Last<JoinedReply>(100)->hosts_reach);
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

// What ranks declare when they make a group is what their operator would, and the same for all of them.
TEST(GroupAbilities, RanksThatMakeAGroupSayWhatItIsFor) {
  GroupWorldFixture w(testing::Tree32());
  const auto join = [&w](uint32_t rank, uint64_t max_bytes, const std::string& types) {
    JoinRequest request = w.Request("h" + std::to_string(rank), rank, 4, "g");
    request.max_bytes = max_bytes;
    if (!types.empty()) EPIC_CHECK(AddTypes(types, &request.needs).empty());
    w.groups()->OnJoin(w.now, 100 + rank, request);
  };
  join(0, 1024, "int32,float32");
  join(1, 0, "float32,int32");
  const auto* refused = w.Last<Failure>(101);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, ErrorCode::kMismatch);
  EXPECT_EQ(refused->rank, 1);
  EXPECT_EQ(refused->message,
            "max_bytes: rank 1 has calls of any length, the group g is for calls of up to 1024 bytes");
  join(2, 1024, "");
  refused = w.Last<Failure>(102);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->message,
            "types: rank 2 has calls of any type, the group g is for types float32 and int32");
  for (const uint32_t rank : {1, 2, 3}) join(rank, 1024, "float32,int32");
  w.AnswerInstalls();
  const auto group = w.groups()->Find("g");
  ASSERT_TRUE(group && !group->plan.contexts.empty());
  for (const ContextPlan& context : group->plan.contexts) {
    EXPECT_EQ(context.accumulator_mtus, 1U);
    EXPECT_LE(context.slots, 8U) << "for calls of one packet";
  }
}

TEST(GroupAbilities, InAGroupOfItsOperatorNothingIsDeclared) {
  GroupWorldFixture w(testing::Tree32());
  ASSERT_TRUE(w.groups()->Create(Needing("float32,bfloat16", "")).ok());
  JoinRequest request = w.Request("h0", 0, 4, "g");
  request.max_bytes = 1;
  w.groups()->OnJoin(w.now, 100, request);
  EXPECT_EQ(w.Last<Failure>(100), nullptr);
  EXPECT_EQ(w.groups()->Find("g")->spec.max_bytes, 0U);
}

// Of a group that says which types it has, and none that is combined in more bytes, switches keep no memory
// for that; ranks know what it cannot have.
TEST(GroupAbilities, AGroupOfTypesThatAreNotWidenedIsNarrow) {
  for (const bool widened : {false, true}) {
    GroupWorldFixture w(testing::Tree32());
    ASSERT_TRUE(w.groups()->Create(Needing(widened ? "float32,bfloat16" : "float32,int64", "")).ok());
    w.JoinAll(4);
    w.AnswerInstalls();
    const auto group = w.groups()->Find("g");
    ASSERT_TRUE(group && !group->plan.contexts.empty());
    for (const ContextPlan& context : group->plan.contexts)
      EXPECT_EQ(context.accumulator_mtus, widened ? 2U : 1U);
    const auto* joined = w.Last<JoinedReply>(100);
    ASSERT_NE(joined, nullptr);
    EXPECT_EQ(joined->abilities.Has(DataType::kFloat16), widened);
    EXPECT_TRUE(joined->abilities.Has(DataType::kUint8)) << "not declared, and takes no more memory";
    const auto lack = std::ranges::find(joined->lacks, "type float16", &Lack::what);
    ASSERT_EQ(lack == joined->lacks.end(), widened);
    if (widened) continue;
    EXPECT_EQ(lack->where, "the types that the group was created for");
  }
}

TEST(GroupAbilities, WhatAGroupNeedsIsHadOrTheRefusalSaysWhy) {
  GroupWorldFixture w(testing::Tree32());
  State(&w, "leaf1", Abilities::First());
  ASSERT_TRUE(w.groups()->Create(Needing("float32", "product")).ok());
  w.JoinAll(4);
  const auto* failure = w.Last<Failure>(100);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, ErrorCode::kNoTree);
  EXPECT_EQ(failure->switch_name, "leaf1");
  EXPECT_THAT(failure->message, HasSubstr("operation product is not in leaf1 (version 0.1.0)"));

  GroupWorldFixture both(testing::Tree32());
  State(&both, "leaf1", Abilities::First());
  ASSERT_TRUE(both.groups()->Create(Needing("float64,int8", "")).ok());
  both.JoinAll(4);
  EXPECT_THAT(both.Last<Failure>(100)->message,
              HasSubstr("types float64 and int8 are not in leaf1 (version 0.1.0)"));

  GroupWorldFixture has(testing::Tree32());
  State(&has, "leaf1", Abilities::First());
  ASSERT_TRUE(has.groups()->Create(Needing("float16", "max")).ok());
  has.JoinAll(4);
  EXPECT_EQ(has.Phase(), "installing");
}

// spine2 has all but INT8, spine1 the first only.
TEST(GroupAbilities, WhereNoTreeHasEverythingOneHasWhatIsNeeded) {
  GroupWorldFixture w(testing::TwoSpines());
  State(&w, "spine1", Abilities::First());
  Abilities int8;
  int8.Add(DataType::kInt8);
  State(&w, "spine2", int8.Lacking(Abilities::All()));
  ASSERT_TRUE(w.groups()->Create(Needing("float64,float16", "product")).ok());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine2"));
  w.AnswerInstalls();
  ASSERT_EQ(w.Last<JoinedReply>(100)->lacks.size(), 1u);
  EXPECT_EQ(w.Last<JoinedReply>(100)->lacks[0].what, "type int8");
}

TEST(GroupAbilities, AGroupGoesAroundASwitchWithASmallerPayload) {
  GroupWorldFixture w(testing::TwoSpines());
  State(&w, "spine1", Abilities::All(), 1024);
  GroupSpec spec = Needing("", "");
  spec.path_mtu = 4096;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine2"));

  // Where there is none, who is in the way is named, as ever.
  GroupWorldFixture tree(testing::Tree32());
  State(&tree, "leaf1", Abilities::All(), 1024);
  ASSERT_TRUE(tree.groups()->Create(spec).ok());
  tree.JoinAll(4);
  EXPECT_EQ(tree.Last<Failure>(100)->code, ErrorCode::kMtu);
  EXPECT_THAT(tree.Last<Failure>(100)->message, HasSubstr("the engine of leaf1"));
}

// The ranks of group "g" join, one on each of these hosts.
void JoinFrom(GroupWorldFixture* w, const std::vector<std::string>& hosts) {
  const auto size = static_cast<uint32_t>(hosts.size());
  for (uint32_t rank = 0; rank < size; ++rank)
    w->groups()->OnJoin(w->now, 100 + rank, w->Request(hosts[rank], rank, size));
}

// Leaf1 has one rank, whose packets it passes on to root.
TEST(GroupAbilities, WhoOnlyForwardsMayLackWhatTheGroupNeeds) {
  GroupWorldFixture w(testing::Tree32());
  State(&w, "leaf1", Abilities::First(), 1024);
  GroupSpec spec = Needing("float64,float16", "product", 3);
  spec.path_mtu = 4096;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  JoinFrom(&w, {"h0", "h2", "h3"});
  EXPECT_THAT(Placed(&w), ElementsAre("root", "leaf2"));
  w.AnswerInstalls();
  ASSERT_NE(w.Last<JoinedReply>(100), nullptr);
  EXPECT_EQ(w.Last<JoinedReply>(100)->abilities, Abilities::All().Within(2));
}

TEST(GroupAbilities, OfAFatTreeWithOneRankBelowEachEdgeTheEdgesMayLack) {
  GroupWorldFixture w(testing::FatTree4());
  for (int edge = 1; edge <= 8; ++edge) State(&w, fmt::format("edge{}", edge), Abilities::First());
  State(&w, "agg1", Abilities::First());
  ASSERT_TRUE(w.groups()->Create(Needing("", "product", 8)).ok());
  JoinFrom(&w, {"h0", "h2", "h4", "h6", "h8", "h10", "h12", "h14"});
  EXPECT_THAT(Placed(&w), UnorderedElementsAre("core3", "agg2", "agg4", "agg6", "agg8"))
      << "the aggregation switch that lacks it is none of them";
}

// a and b with two hosts each, and mid between them.
TEST(GroupAbilities, ALongerWayIsGoneForWhatTheGroupNeedsOnly) {
  testing::TopologyBuilder chain;
  chain.Switch("a").Switch("mid").Switch("b").Host("h0").Host("h1").Host("h2").Host("h3");
  chain.Link("a", "mid").Link("mid", "b");
  chain.Link("a", "h0").Link("a", "h1").Link("b", "h2").Link("b", "h3");

  GroupWorldFixture needing(chain);
  State(&needing, "mid", Abilities::First());
  ASSERT_TRUE(needing.groups()->Create(Needing("", "product")).ok());
  needing.JoinAll(4);
  EXPECT_THAT(Placed(&needing), ElementsAre("a", "b"));

  GroupWorldFixture any(chain);
  State(&any, "mid", Abilities::First());
  any.JoinAll(4);
  EXPECT_THAT(Placed(&any), ElementsAre("mid", "a", "b"));
}

// From r to both leaves: by a, which is the shortest way, or by d1 and d2 to the one and e1 and e2 to the
// other.
TEST(GroupAbilities, ALongerWayMayBeThatOfSeveralLinks) {
  testing::TopologyBuilder builder;
  for (const char* name : {"a", "d1", "d2", "e1", "e2", "leaf1", "leaf2", "r"}) builder.Switch(name);
  builder.Host("h0").Host("h1").Host("h2").Link("r", "h0").Link("leaf1", "h1").Link("leaf2", "h2");
  builder.Link("r", "a").Link("a", "leaf1").Link("a", "leaf2");
  builder.Link("r", "d1").Link("d1", "d2").Link("d2", "leaf1");
  builder.Link("r", "e1").Link("e1", "e2").Link("e2", "leaf2");
  GroupWorldFixture w(builder);
  State(&w, "a", Abilities::First());
  ASSERT_TRUE(w.groups()->Create(Needing("", "product", 3)).ok());
  w.JoinAll(3);
  EXPECT_THAT(Placed(&w), ElementsAre("r"));
}

// Below core two pods: that of leaf1 and leaf2 has a or c, which are as near, the other one has x.
TEST(GroupAbilities, OfEqualPathsThatOverASwitchThatHasMoreIsTaken) {
  testing::TopologyBuilder builder;
  for (const char* name : {"a", "c", "core", "leaf1", "leaf2", "leaf3", "leaf4", "x"}) builder.Switch(name);
  for (uint32_t host = 0; host < 8; ++host) builder.Host(fmt::format("h{}", host));
  for (const char* middle : {"a", "c", "x"}) builder.Link("core", middle);
  for (const char* leaf : {"leaf1", "leaf2"}) builder.Link("a", leaf).Link("c", leaf);
  for (const char* leaf : {"leaf3", "leaf4"}) builder.Link("x", leaf);
  for (uint32_t host = 0; host < 8; ++host)
    builder.Link(fmt::format("leaf{}", 1 + host / 2), fmt::format("h{}", host));
  for (const char* operations : {"", "product"}) {
    GroupWorldFixture w(builder);
    State(&w, "a", Abilities::First());
    ASSERT_TRUE(w.groups()->Create(Needing("", operations, 8)).ok());
    w.JoinAll(8);
    EXPECT_THAT(Placed(&w), UnorderedElementsAre("c", "core", "leaf1", "leaf2", "leaf3", "leaf4", "x"))
        << operations;
  }
}

// Leaf1 can not be avoided, and has all but INT8.
TEST(GroupAbilities, OneLackThatCannotBeAvoidedLeavesAllOtherWishes) {
  GroupWorldFixture w(testing::TwoSpines());
  Abilities int8;
  int8.Add(DataType::kInt8);
  State(&w, "leaf1", int8.Lacking(Abilities::All()));
  State(&w, "spine1", Abilities::First());
  w.JoinAll(4);
  EXPECT_THAT(Placed(&w), Contains("spine2"));
  w.AnswerInstalls();
  ASSERT_EQ(w.Last<JoinedReply>(100)->lacks.size(), 1u);
  EXPECT_EQ(w.Last<JoinedReply>(100)->lacks[0].what, "type int8");
}

// Leaf1 has one rank, so that the payload which it takes is nothing to the choice between the spines.
TEST(GroupAbilities, TheSmallPayloadOfWhoOnlyForwardsDoesNotCount) {
  GroupWorldFixture w(testing::TwoSpines());
  State(&w, "leaf1", Abilities::All(), 1024);
  State(&w, "spine1", Abilities::All(), 1024);
  GroupSpec spec = Needing("", "", 3);
  spec.path_mtu = 4096;
  ASSERT_TRUE(w.groups()->Create(spec).ok());
  JoinFrom(&w, {"h0", "h2", "h3"});
  EXPECT_THAT(Placed(&w), ElementsAre("spine2", "leaf2"));
}

TEST(GroupAbilities, EverySwitchThatMustAggregateAndLacksIsNamed) {
  GroupWorldFixture w(testing::Tree32());
  State(&w, "leaf1", Abilities::First());
  State(&w, "leaf2", Abilities::First());
  ASSERT_TRUE(w.groups()->Create(Needing("", "product")).ok());
  w.JoinAll(4);
  ASSERT_NE(w.Last<Failure>(100), nullptr);
  EXPECT_EQ(w.Last<Failure>(100)->message,
            "operation product is not in leaf1 (version 0.1.0); operation product is not in leaf2 "
            "(version 0.1.0)");
}

// As many as engines take (the fixture's): one more goes by the hosts, all of them on two hosts.
TEST(GroupAbilities, OneRankMoreThanASwitchHasChildren) {
  for (const uint32_t ranks : {64u, 65u}) {
    GroupWorldFixture w(testing::Star(2));
    for (uint32_t rank = 0; rank < ranks; ++rank)
      w.groups()->OnJoin(w.now, 100 + rank, w.Request(rank % 2 == 0 ? "h0" : "h1", rank, ranks));
    w.AnswerInstalls();
    const auto* joined = w.Last<JoinedReply>(100 + ranks - 1);
    ASSERT_NE(joined, nullptr);
    EXPECT_EQ(joined->path, ranks == 64 ? Path::kNetwork : Path::kHosts);
    EXPECT_EQ(joined->path_reason,
              ranks == 64 ? "" : "s1 would have 65 children in this group; it takes at most 64");
  }
}

}  // namespace
}  // namespace epic::manager
