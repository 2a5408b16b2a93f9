#include "protocol/abilities.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(AbilitiesTest, AllHasEveryRowAndNoneHasNone) {
  for (const TypeInfo& row : kDataTypes) {
    EXPECT_TRUE(Abilities::All().Has(row.type)) << row.name;
    EXPECT_FALSE(Abilities().Has(row.type)) << row.name;
  }
  for (const OpInfo& row : kReduceOps) {
    EXPECT_TRUE(Abilities::All().Has(row.op)) << row.name;
    EXPECT_FALSE(Abilities().Has(row.op)) << row.name;
  }
  EXPECT_FALSE(Abilities::All().Has(DataType::kNone) || Abilities::All().Has(ReduceOp::kNone));
  EXPECT_FALSE(Abilities::All().Has(DataType{40}) || Abilities::All().Has(ReduceOp{40}));
  Abilities none;
  none.Add(DataType::kNone);
  none.Add(ReduceOp{40});
  EXPECT_TRUE(none.empty());
}

// What switches had that stated no operations.
TEST(AbilitiesTest, TheFirst) {
  EXPECT_EQ(NamesOf(Abilities::First()),
            "types float32, int32, float16, bfloat16 and byte, operations sum, min and max");
  EXPECT_EQ(Abilities::All().With(Abilities::First()), Abilities::First());
  EXPECT_TRUE(Abilities::All().Lacking(Abilities::First()).empty());
  EXPECT_EQ(NamesOf(Abilities::First().Lacking(Abilities::All())),
            "types float64, int64, uint64, uint32, int8, uint8, int16, uint16 and block8, operations "
            "product, band, "
            "bor, bxor, land, lor and saturating_sum");
}

TEST(AbilitiesTest, WithinARoomAreTypesThatTakeNoMore) {
  for (const uint32_t factor : {1u, 2u, 4u}) {
    for (const TypeInfo& row : kDataTypes)
      EXPECT_EQ(Abilities::All().Within(factor).Has(row.type), AccumulatorFactor(row.type) <= factor)
          << row.name;
  }
  EXPECT_EQ(Abilities::All().Within(4), Abilities::All());
  EXPECT_EQ(Abilities::First().Within(2), Abilities::First());
}

TEST(AbilitiesTest, ACallNeedsItsTypeAndIfItReducesItsOperation) {
  const Abilities first = Abilities::First();
  ControlHeader call{
      .collective = Collective::kAllReduce, .op = ReduceOp::kSum, .type = DataType::kInt32, .count = 1};
  EXPECT_EQ(LackOf(first, call), "");
  EXPECT_TRUE(CanServe(first, call));
  call.op = ReduceOp::kProduct;
  EXPECT_EQ(LackOf(first, call), "operation product");
  EXPECT_FALSE(CanServe(first, call));
  call.type = DataType::kFloat64;
  EXPECT_EQ(LackOf(first, call), "type float64");
  call.count = 0;
  EXPECT_EQ(LackOf(first, call), "");
  EXPECT_TRUE(CanServe(first, call));
  call = {.collective = Collective::kBroadcast, .type = DataType::kInt8, .count = 1};
  EXPECT_EQ(LackOf(first, call), "type int8");
  EXPECT_EQ(LackOf(Abilities::All(), call), "");
  EXPECT_TRUE(CanServe(first, {}));
}

TEST(AbilitiesTest, ACallByTheHostsNeedsNothing) {
  const ControlHeader call{.collective = Collective::kAllReduce,
                           .op = ReduceOp::kProduct,
                           .type = DataType::kFloat64,
                           .count = 1,
                           .flags = kByHostsFlag};
  for (const Abilities& abilities : {Abilities{}, Abilities::First()}) {
    EXPECT_EQ(LackOf(abilities, call), "");
    EXPECT_TRUE(CanServe(abilities, call));
  }
}

TEST(AbilitiesTest, APairThatThereIsNotIsServedByNobody) {
  const ControlHeader call{
      .collective = Collective::kReduce, .op = ReduceOp::kBitOr, .type = DataType::kFloat32, .count = 1};
  EXPECT_EQ(LackOf(Abilities::All(), call), "") << "it has both";
  EXPECT_FALSE(CanServe(Abilities::All(), call));
}

TEST(AbilitiesTest, ListsAreNamesBetweenCommas) {
  Abilities abilities;
  EXPECT_EQ(AddTypes("float64,uint8", &abilities), "");
  EXPECT_EQ(AddOps("product", &abilities), "");
  EXPECT_EQ(NamesOf(abilities), "types float64 and uint8, operation product");
  for (const char* bad : {"", "float64,", ",", "float31", "float64, uint8", "sum"}) {
    EXPECT_NE(AddTypes(bad, &abilities), "") << bad;
  }
  EXPECT_EQ(AddOps("sum,avg", &abilities),
            "'avg' is not an operation: sum, min, max, product, band, bor, bxor, land, lor, "
            "saturating_sum");
}

}  // namespace
}  // namespace epic
