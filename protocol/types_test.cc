#include "protocol/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "protocol/block_bound.h"
#include "protocol/quantise_word.h"

namespace epic {
namespace {

constexpr DataType kNoType{99};
constexpr ReduceOp kNoOp{99};

// A number that is given again would be read as something else by an earlier version.
TEST(TypesTest, NumbersOnTheWireStay) {
  const std::vector<std::string_view> types = {"float32", "int32", "float16", "bfloat16", "byte",
                                               "float64", "int64", "uint64",  "uint32",   "int8",
                                               "uint8",   "int16", "uint16",  "block8"};
  ASSERT_GE(kDataTypes.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(NameOf(static_cast<DataType>(i + 1)), types[i]);
  const std::vector<std::string_view> ops = {"sum", "min",  "max",  "product", "band",
                                             "bor", "bxor", "land", "lor",     "saturating_sum"};
  ASSERT_GE(kReduceOps.size(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(NameOf(static_cast<ReduceOp>(i + 1)), ops[i]);
}

TEST(TypesTest, NoNameIsThatOfTwo) {
  std::set<std::string_view> names;
  for (const TypeInfo& row : kDataTypes) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(TypeNamed(row.name), row.type);
  }
  for (const OpInfo& row : kReduceOps) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(OpNamed(row.name), row.op);
  }
  for (const char* text : {"", "float", "FLOAT32", "float32 ", "none", "unknown"}) {
    EXPECT_FALSE(TypeNamed(text).has_value()) << text;
    EXPECT_FALSE(OpNamed(text).has_value()) << text;
  }
}

TEST(TypesTest, WhatIsNoneHasNoRow) {
  for (const DataType none : {DataType::kNone, kNoType}) {
    EXPECT_EQ(FindType(none), nullptr);
    EXPECT_EQ(ElementBytes(none), 0u);
    for (const OpInfo& op : kReduceOps) EXPECT_FALSE(CanReduce(op.op, none));
  }
  for (const ReduceOp none : {ReduceOp::kNone, kNoOp}) {
    EXPECT_EQ(FindOp(none), nullptr);
    for (const TypeInfo& type : kDataTypes) EXPECT_FALSE(CanReduce(none, type.type));
  }
  EXPECT_EQ(NameOf(DataType::kNone), "none");
  EXPECT_EQ(NameOf(kNoType), "unknown");
  EXPECT_EQ(NameOf(ReduceOp::kNone), "none");
  EXPECT_EQ(NameOf(kNoOp), "unknown");
}

TEST(TypesTest, IntegersHaveAllOperationsAndFloatsNoBits) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    for (const TypeInfo& type : kCallerTypes)
      EXPECT_EQ(CanReduce(op, type.type), type.type != DataType::kByte) << NameOf(op) << " " << type.name;
  }
  for (const ReduceOp op : {ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor, ReduceOp::kLogicalAnd,
                            ReduceOp::kLogicalOr}) {
    EXPECT_TRUE(CanReduce(op, DataType::kInt8) && CanReduce(op, DataType::kUint64));
    for (const DataType type :
         {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64, DataType::kByte})
      EXPECT_FALSE(CanReduce(op, type)) << NameOf(op) << " " << NameOf(type);
  }
}

TEST(TypesTest, BlocksHaveASumAndNothingElse) {
  for (const OpInfo& op : kReduceOps)
    EXPECT_EQ(CanReduce(op.op, DataType::kBlock8), op.op == ReduceOp::kSum) << op.name;
}

TEST(TypesTest, WhatIsCombinedInFloat32TakesItsBytes) {
  for (const TypeInfo& type : kDataTypes) {
    const bool half = type.type == DataType::kFloat16 || type.type == DataType::kBFloat16;
    EXPECT_EQ(AccumulatorFactor(type.type), type.type == DataType::kBlock8 ? 4u
                                            : half                         ? 2u
                                                                           : 1u)
        << type.name;
    EXPECT_TRUE(IsAccumulatorFactor(AccumulatorFactor(type.type)));
  }
  for (const uint32_t none : {0u, 3u, 5u, 8u}) EXPECT_FALSE(IsAccumulatorFactor(none)) << none;
}

TEST(TypesTest, OneTypeHasASumThatSaturates) {
  for (const TypeInfo& type : kDataTypes)
    EXPECT_EQ(CanReduce(ReduceOp::kSaturatingSum, type.type), type.type == DataType::kInt32) << type.name;
}

TEST(TypesTest, AScaleOrBlocksAreReadByTheirWord) {
  float scale = 0;
  bool int8 = false;
  EXPECT_EQ(ReadQuantise("1e6", &scale, &int8), "");
  EXPECT_EQ(scale, 1e6f);
  EXPECT_FALSE(int8);
  scale = 0;
  EXPECT_EQ(ReadQuantise("int8", &scale, &int8), "");
  EXPECT_EQ(scale, 0);
  EXPECT_TRUE(int8);
  int8 = false;
  for (const char* text : {"", "0", "-1", "nan", "inf", "1e30", "1e6x", "INT8", "int8 ", "int4"})
    EXPECT_EQ(ReadQuantise(text, &scale, &int8),
              std::string(text) + " is not a number from 1e-20 to 1e+20, nor int8");
  EXPECT_EQ(scale, 0);
  EXPECT_FALSE(int8);
}

TEST(TypesTest, ScalesHaveBounds) {
  for (const float scale : {kLeastScale, 1.0f, 65536.0f, kLargestScale}) EXPECT_TRUE(IsScale(scale)) << scale;
  for (const float scale : {0.0f, -1.0f, 1e-21f, 1e21f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
    EXPECT_FALSE(IsScale(scale)) << scale;
}

// Of judges of results, apart from the kernels.
TEST(TypesTest, WhatANumberOfABlockIs) {
  EXPECT_EQ(NumberOf(DataType::kFloat32, 0xc0200000), -2.5);
  EXPECT_EQ(NumberOf(DataType::kBFloat16, 0xc020), -2.5);
  EXPECT_EQ(NumberOf(DataType::kFloat16, 0xc100), -2.5);
  EXPECT_EQ(NumberOf(DataType::kFloat16, 0x7bff), 65504) << "the largest";
  EXPECT_EQ(NumberOf(DataType::kFloat16, 0x0400), 0x1p-14) << "the least normal one";
  EXPECT_EQ(NumberOf(DataType::kFloat16, 0x0001), 0x1p-24) << "and below these";
  EXPECT_EQ(NumberOf(DataType::kFloat16, 0x8000), 0);
  for (const uint32_t bits : {0x7c00u, 0xfc00u, 0x7e00u})
    EXPECT_TRUE(std::isnan(NumberOf(DataType::kFloat16, bits))) << bits;
}

}  // namespace
}  // namespace epic
