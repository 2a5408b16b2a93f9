#include "incmanager/rpc/convert.h"

#include <gtest/gtest.h>

#include "protocol/modes.h"

namespace epic::manager {
namespace {

// The numbers are compared when the product is compiled.
TEST(Convert, ModesHaveTheirNames) {
  for (const ModeInfo& row : kModes) {
    std::string name = "MODE_";
    for (const char c : row.name) name += static_cast<char>(c - 'a' + 'A');
    EXPECT_EQ(proto::Mode_Name(NumberOf(row.mode)), name);
  }
}

TEST(Convert, WhatIsNoModeStaysNone) {
  for (const int number : {99, -1, 256 + 1, 1 << 20}) {
    proto::Join join;
    join.set_mode(static_cast<proto::Mode>(number));
    EXPECT_FALSE(IsMode(FromProto(join).mode)) << number;
  }
}

}  // namespace
}  // namespace epic::manager
