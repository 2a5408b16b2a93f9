#include "base/number.h"

#include <absl/strings/numbers.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace epic {
namespace {

TEST(NumberTest, IsTheWholeText) {
  const std::map<std::string, int> numbers = {
      {"0", 0}, {"-0", 0}, {"-7", -7}, {"007", 7}, {"2147483647", 2147483647}};
  for (const auto& [text, number] : numbers) {
    int read = 5;
    EXPECT_TRUE(ReadNumber(text, &read)) << text;
    EXPECT_EQ(read, number) << text;
  }
  uint64_t largest = 0;
  EXPECT_TRUE(ReadNumber("18446744073709551615", &largest));
  EXPECT_EQ(largest, UINT64_MAX);
}

TEST(NumberTest, WhatIsNoneLeavesTheValue) {
  for (const char* const text :
       {"", "-", "x", "7x", "7.0", "7,", "0x7", "7 7", "--7", "2147483648", "-2147483649"}) {
    int read = 5;
    EXPECT_FALSE(ReadNumber(text, &read)) << text;
    EXPECT_EQ(read, 5) << text;
  }
  uint32_t no_sign = 5;
  EXPECT_FALSE(ReadNumber("-1", &no_sign));
  EXPECT_FALSE(ReadNumber("-0", &no_sign));
  EXPECT_EQ(no_sign, 5U);
}

// Why it is not absl's: replay lines, addresses and variables have never taken these.
TEST(NumberTest, TakesNeitherSpacesNorAPlus) {
  for (const char* const text : {" 7", "7 ", "\t7\n", "+7"}) {
    int read = 5;
    EXPECT_FALSE(ReadNumber(text, &read)) << text;
    EXPECT_EQ(read, 5) << text;
    EXPECT_TRUE(absl::SimpleAtoi(text, &read)) << text;
    EXPECT_EQ(read, 7) << text;
  }
}

}  // namespace
}  // namespace epic
