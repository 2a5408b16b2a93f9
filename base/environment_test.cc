#include "base/environment.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>

namespace epic {
namespace {

using std::chrono::milliseconds;
using Empty = Environment::Empty;

// An environment that has this variable alone.
Environment With(const char* text, Empty empty = Empty::kIsAValue) {
  return Environment([text](const char* name) { return std::string_view(name) == "A" ? text : nullptr; },
                     empty);
}

TEST(EnvironmentTest, WhatIsNotSetLeavesTheValue) {
  for (const char* const text : {static_cast<const char*>(nullptr), ""}) {
    Environment environment = With(text, Empty::kIsUnset);
    std::string word = "before";
    int number = 3;
    milliseconds time{4};
    bool on = true;
    environment.Text("A", &word);
    environment.Number("A", 0, "is wrong", &number);
    environment.Seconds("A", &time);
    environment.Switch("A", "off", "on", &on);
    EXPECT_FALSE(environment.Choice("A", {}));
    EXPECT_EQ(environment.Get("A"), nullptr);
    EXPECT_EQ(word, "before");
    EXPECT_EQ(number, 3);
    EXPECT_EQ(time, milliseconds(4));
    EXPECT_TRUE(on);
    EXPECT_EQ(environment.wrong(), "");
  }
}

TEST(EnvironmentTest, NothingIsAValueWhereTheCallerSaysSo) {
  Environment environment = With("");
  std::string word = "before";
  environment.Text("A", &word);
  EXPECT_EQ(word, "");
  int number = 3;
  environment.Number("A", 0, "is not a number from 0 on", &number);
  EXPECT_EQ(environment.wrong(), "A= is not a number from 0 on");
  EXPECT_EQ(number, 3);
}

TEST(EnvironmentTest, ANumberIsTheWholeTextAndHasABound) {
  const std::map<std::string, int> good = {{"0", 0}, {"-0", 0}, {"007", 7}, {"2147483647", 2147483647}};
  for (const auto& [text, expected] : good) {
    Environment environment = With(text.c_str());
    int number = -5;
    environment.Number("A", 0, "is wrong", &number);
    EXPECT_EQ(number, expected) << text;
    EXPECT_EQ(environment.wrong(), "") << text;
  }
  for (const char* const text : {"", "+1", " 1", "1 ", "1x", "0x1", "1.0", "-1", "2147483648", "-"}) {
    Environment environment = With(text);
    int number = 5;
    environment.Number("A", 0, "is wrong", &number);
    EXPECT_EQ(number, 5) << text;
    EXPECT_EQ(environment.wrong(), "A=" + std::string(text) + " is wrong");
  }
  uint64_t bytes = 0;
  With("18446744073709551615").Number("A", 1, "is wrong", &bytes);
  EXPECT_EQ(bytes, UINT64_MAX);
  // What is no number at all is beyond no bound: whoever reads fractions looks by himself.
  float scale = 0;
  With("nan").Number("A", -std::numeric_limits<float>::infinity(), "is wrong", &scale);
  EXPECT_NE(scale, scale);
}

TEST(EnvironmentTest, ATimeIsReadAsTheCLibraryDoes) {
  const std::map<std::string, int64_t> good = {
      {"1.5", 1500}, {" 2", 2000}, {"+2", 2000}, {"0x10", 16000}, {"1e9", 1'000'000'000'000}, {"1e-9", 1}};
  for (const auto& [text, expected] : good) {
    Environment environment = With(text.c_str());
    milliseconds time{0};
    environment.Seconds("A", &time);
    EXPECT_EQ(time, milliseconds(expected)) << text;
    EXPECT_EQ(environment.wrong(), "") << text;
  }
  for (const char* const text : {"", "0", "-1", "1s", "2 ", "nan", "inf", "1000000001", "soon"}) {
    Environment environment = With(text);
    milliseconds time{7};
    environment.Seconds("A", &time);
    EXPECT_EQ(time, milliseconds(7)) << text;
    EXPECT_EQ(environment.wrong(),
              "A=" + std::string(text) + " is not a time in seconds above 0 and up to 1000000000");
  }
}

TEST(EnvironmentTest, AChoiceIsOneOfItsWords) {
  constexpr std::array<std::string_view, 3> kWords = {"auto", "network", "hosts"};
  EXPECT_EQ(With("auto").Choice("A", kWords), 0U);
  EXPECT_EQ(With("hosts").Choice("A", kWords), 2U);
  for (const char* const text : {"", "Auto", "auto,", "auto, network", " auto", "host"}) {
    Environment environment = With(text);
    EXPECT_FALSE(environment.Choice("A", kWords)) << text;
    EXPECT_EQ(environment.wrong(), "A=" + std::string(text) + " is none of auto, network, hosts");
  }
}

TEST(EnvironmentTest, ASwitchHasTwoWords) {
  for (const bool before : {true, false}) {
    bool on = before;
    With("off").Switch("A", "off", "on", &on);
    EXPECT_FALSE(on);
    With("on").Switch("A", "off", "on", &on);
    EXPECT_TRUE(on);
    on = before;
    Environment environment = With("yes");
    environment.Switch("A", "off", "on", &on);
    EXPECT_EQ(on, before);
    EXPECT_EQ(environment.wrong(), "A=yes is neither off nor on");
  }
}

TEST(EnvironmentTest, TheFirstThatIsWrongIsKept) {
  Environment environment = With("x");
  milliseconds time{0};
  environment.Refuse("B", "y", "- it has no host");
  environment.Seconds("A", &time);
  EXPECT_EQ(environment.wrong(), "B=y - it has no host");
}

}  // namespace
}  // namespace epic
