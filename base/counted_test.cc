#include "base/counted.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(Counted, OneIsNotMany) {
  EXPECT_EQ(Counted(1, "port"), "1 port");
  EXPECT_EQ(Counted(2, "port"), "2 ports");
  EXPECT_EQ(Counted(0, "port"), "0 ports");
  EXPECT_EQ(Counted(1, "switch", "switches"), "1 switch");
  EXPECT_EQ(Counted(3, "switch", "switches"), "3 switches");
}

}  // namespace
}  // namespace epic
