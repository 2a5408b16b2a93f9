#include <gtest/gtest.h>

#include <string>

#include "epic/epic.h"
#include "epic/epic_c.h"

namespace epic {
namespace {

TEST(NamesTest, WhatAProgramChoosesFromHasNames) {
  EXPECT_STREQ(PathName(PathChoice::kDefault), "default");
  EXPECT_STREQ(PathName(PathChoice::kHosts), "hosts");
  EXPECT_STREQ(DatatypeName(Datatype::kFloat32), "float32");
  EXPECT_STREQ(DatatypeName(Datatype::kBFloat16), "bfloat16");
  EXPECT_STREQ(DatatypeName(Datatype::kUint16), "uint16");
  EXPECT_STREQ(RedOpName(RedOp::kAvg), "avg");
  EXPECT_STREQ(RedOpName(RedOp::kLogicalOr), "lor");
}

TEST(NamesTest, WhatIsNoneOfThemIsUnknown) {
  for (const int number : {-1, 0, 14, 255, 256 + 1, 1 << 20}) {
    EXPECT_STREQ(PathName(static_cast<PathChoice>(number)), number == 0 ? "default" : "unknown") << number;
    EXPECT_STREQ(DatatypeName(static_cast<Datatype>(number)), "unknown") << number;
    EXPECT_STREQ(RedOpName(static_cast<RedOp>(number)), "unknown") << number;
  }
}

TEST(NamesTest, InCTheyAreTheSame) {
  EXPECT_STREQ(epicGetPathString(epicPathNetwork), "network");
  EXPECT_STREQ(epicGetDataTypeString(epicInt8), "int8");
  EXPECT_STREQ(epicGetDataTypeString(epicUint16), "uint16");
  EXPECT_STREQ(epicGetDataTypeString(static_cast<epicDataType_t>(63)), "unknown");
  EXPECT_STREQ(epicGetRedOpString(epicProd), "product");
  EXPECT_STREQ(epicGetRedOpString(static_cast<epicRedOp_t>(5)), "unknown");
}

}  // namespace
}  // namespace epic
