// Groups with a scale, which sum FP32 as INT32 (docs/DEPLOY.md, "FP32 over integers").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/check.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/groups/group_life_testing.h"

namespace epic::manager {
namespace {

using testing::GroupWorldFixture;
using ::testing::HasSubstr;

GroupSpec Scaled(float scale) {
  GroupSpec spec;
  spec.name = "g";
  spec.world_size = 4;
  spec.path = Path::kNetwork;
  spec.scale = scale;
  return spec;
}

// It needs INT32 and the sum that stays at its limits, and not what its calls are of.
TEST(GroupScale, AGroupWithAScaleNeedsIntegersInPlaceOfFloat32) {
  GroupSpec spec = Scaled(0);
  EPIC_CHECK(AddTypes("float32,float64", &spec.needs).empty() && AddOps("min", &spec.needs).empty());
  EXPECT_EQ(NamesOf(NeedsOf(spec)), "types float32 and float64, operation min");
  spec.scale = 1e6f;
  EXPECT_EQ(NamesOf(NeedsOf(spec)), "types int32 and float64, operations min and saturating_sum");
  for (const char* const types : {"int32", "float32"}) {
    GroupWorldFixture w(testing::Tree32());
    Abilities has;
    EPIC_CHECK(AddTypes(types, &has).empty());
    for (const OpInfo& row : kReduceOps) has.Add(row.op);
    EngineReport report = w.Report(w.Id("leaf1"));
    report.abilities = has;
    ASSERT_TRUE(w.switches.Heartbeat(w.now, "leaf1", &report).ok());
    ASSERT_TRUE(w.groups()->Create(Scaled(1e6f)).ok());
    w.JoinAll(4);
    w.AnswerInstalls();
    if (has.Has(DataType::kInt32)) {
      const auto* joined = w.Last<JoinedReply>(103);
      ASSERT_NE(joined, nullptr);
      EXPECT_EQ(joined->scale, 1e6f);
    } else {
      const auto* refused = w.Last<Failure>(103);
      ASSERT_NE(refused, nullptr);
      EXPECT_THAT(refused->message, HasSubstr("type int32 is not in leaf1"));
    }
  }
}

TEST(GroupScale, AllRanksHaveTheGroupsScale) {
  GroupWorldFixture w(testing::Tree32());
  const auto join = [&w](uint32_t rank, float scale) {
    JoinRequest request = w.Request("h" + std::to_string(rank), rank, 4, "g");
    request.scale = scale;
    w.groups()->OnJoin(w.now, 100 + rank, request);
    const auto* refused = w.Last<Failure>(100 + rank);
    return refused == nullptr ? std::string() : refused->message;
  };
  EXPECT_EQ(join(0, 1000), "");
  EXPECT_EQ(join(1, 0), "quantise: rank 1 has the scale none, the group g has 1000");
  EXPECT_EQ(w.Last<Failure>(101)->code, ErrorCode::kMismatch);
  EXPECT_EQ(join(2, 10), "quantise: rank 2 has the scale 10, the group g has 1000");
  EXPECT_EQ(join(3, -1), "quantise: -1 is not a number from 1e-20 to 1e+20");
  GroupWorldFixture operators(testing::Tree32());
  GroupSpec spec = Scaled(1000);
  ASSERT_TRUE(operators.groups()->Create(spec).ok());
  JoinRequest request = operators.Request("h0", 0, 4, "g");
  operators.groups()->OnJoin(operators.now, 100, request);
  EXPECT_EQ(operators.Last<Failure>(100), nullptr) << "who says nothing takes it";
  request = operators.Request("h1", 1, 4, "g");
  request.scale = 10;
  operators.groups()->OnJoin(operators.now, 101, request);
  ASSERT_NE(operators.Last<Failure>(101), nullptr);
  EXPECT_EQ(operators.Last<Failure>(101)->message, "quantise: rank 1 has the scale 10, the group g has 1000");
  spec.name = "other";
  spec.scale = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(operators.groups()->Create(spec).message()),
              HasSubstr("quantise: nan is not a number"));
}

GroupSpec WithBlocks() {
  GroupSpec spec = Scaled(0);
  spec.int8 = true;
  return spec;
}

// Blocks are summed in four times their bytes. What was declared is needed beside them.
TEST(GroupScale, AGroupWithBlocksNeedsThemAndRoomForTheirSums) {
  GroupSpec spec = WithBlocks();
  EXPECT_EQ(NamesOf(NeedsOf(spec)), "type block8, operation sum");
  EPIC_CHECK(AddTypes("float32", &spec.needs).empty());
  EXPECT_EQ(NamesOf(NeedsOf(spec)), "types float32 and block8, operation sum");
  EXPECT_EQ(AccumulatorMtus(spec), 4u);
  for (const bool has : {true, false}) {
    GroupWorldFixture w(testing::Tree32());
    EngineReport report = w.Report(w.Id("leaf1"));
    report.abilities = has ? Abilities::All() : Abilities::All().Within(2);
    ASSERT_TRUE(w.switches.Heartbeat(w.now, "leaf1", &report).ok());
    ASSERT_TRUE(w.groups()->Create(WithBlocks()).ok());
    w.JoinAll(4);
    w.AnswerInstalls();
    if (has) {
      const auto* joined = w.Last<JoinedReply>(103);
      ASSERT_NE(joined, nullptr);
      EXPECT_TRUE(joined->int8);
      EXPECT_TRUE(joined->abilities.Has(DataType::kBlock8));
      EXPECT_EQ(joined->levels, 2u);
      for (const ContextPlan& context : w.groups()->Find("g")->plan.contexts)
        EXPECT_EQ(context.accumulator_mtus, 4u);
    } else {
      const auto* refused = w.Last<Failure>(103);
      ASSERT_NE(refused, nullptr);
      EXPECT_THAT(refused->message, HasSubstr("type block8 is not in leaf1"));
    }
  }
}

TEST(GroupScale, AGroupWithoutBlocksDoesNotHaveThem) {
  GroupWorldFixture w(testing::Tree32());
  ASSERT_TRUE(w.groups()->Create(Scaled(0)).ok());
  w.JoinAll(4);
  w.AnswerInstalls();
  const auto* joined = w.Last<JoinedReply>(103);
  ASSERT_NE(joined, nullptr);
  EXPECT_FALSE(joined->int8);
  EXPECT_FALSE(joined->abilities.Has(DataType::kBlock8));
  EXPECT_TRUE(joined->lacks.empty()) << "no program asks for them";
}

TEST(GroupScale, BlocksAndAScaleAreTwoWays) {
  const auto join = [](GroupWorldFixture& w, uint32_t rank, float scale, bool int8) {
    JoinRequest request = w.Request("h" + std::to_string(rank), rank, 4, "g");
    request.scale = scale;
    request.int8 = int8;
    w.groups()->OnJoin(w.now, 100 + rank, request);
    const auto* refused = w.Last<Failure>(100 + rank);
    return refused == nullptr ? std::string() : refused->message;
  };
  GroupWorldFixture w(testing::Tree32());
  EXPECT_EQ(join(w, 0, 0, true), "");
  EXPECT_EQ(join(w, 1, 0, false), "quantise: rank 1 has none, the group g has int8");
  EXPECT_EQ(w.Last<Failure>(101)->code, ErrorCode::kMismatch);
  EXPECT_EQ(join(w, 2, 10, false), "quantise: rank 2 has the scale 10, the group g has int8");
  EXPECT_EQ(join(w, 3, 10, true), "quantise: a scale and int8 are two ways, and a group has one");
  GroupWorldFixture operators(testing::Tree32());
  ASSERT_TRUE(operators.groups()->Create(WithBlocks()).ok());
  EXPECT_EQ(join(operators, 0, 0, false), "") << "who says nothing takes it";
  EXPECT_EQ(join(operators, 1, 0, true), "");
  GroupWorldFixture scaled(testing::Tree32());
  ASSERT_TRUE(scaled.groups()->Create(Scaled(1000)).ok());
  EXPECT_EQ(join(scaled, 0, 0, true), "quantise: rank 0 has int8, the group g has the scale 1000");
  GroupSpec both = WithBlocks();
  both.name = "other";
  both.scale = 1000;
  EXPECT_THAT(std::string(scaled.groups()->Create(both).message()), HasSubstr("a group has one"));
}

// All ranks are told the same, the one with that input as well. Without a scale there is no such thing.
TEST(GroupScale, AnInputThatIsNotFiniteIsToldToAll) {
  for (const bool scale : {true, false}) {
    GroupWorldFixture w(testing::Star(3));
    GroupSpec spec = Scaled(scale ? 1e6f : 0);
    spec.world_size = 3;
    ASSERT_TRUE(w.groups()->Create(spec).ok());
    w.JoinAll(3);
    w.AnswerInstalls();
    w.groups()->OnNotFinite(w.now, 999, "nobody's");
    w.groups()->OnNotFinite(w.now, 101, "rank 1 called AllReduce with nan as element 3");
    w.groups()->OnNotFinite(w.now, 102, "rank 2 called AllReduce with inf as element 0");
    for (SessionId session = 100; session < 103; ++session) {
      const auto* failure = w.Last<Failure>(session);
      ASSERT_NE(failure, nullptr) << session;
      EXPECT_EQ(failure->code, scale ? ErrorCode::kNotFinite : ErrorCode::kAborted);
      EXPECT_EQ(failure->rank, 1);
      EXPECT_THAT(failure->message, HasSubstr("rank 1 called AllReduce with nan as element 3"));
    }
  }
}

}  // namespace
}  // namespace epic::manager
