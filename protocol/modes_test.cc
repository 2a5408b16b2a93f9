#include "protocol/modes.h"

#include <gtest/gtest.h>

#include <set>

namespace epic {
namespace {

constexpr Mode kNoMode{99};

TEST(ModesTest, AnyOfItsNamesIsTheMode) {
  for (const char* text : {"3", "03", "III", "iii", "iIi", "augmented", "Augmented", "AUGMENTED"})
    EXPECT_EQ(ModeNamed(text), Mode::kAugmented) << text;
  EXPECT_EQ(ModeNamed("1"), Mode::kTerminated);
  EXPECT_EQ(ModeNamed("I"), Mode::kTerminated);
  EXPECT_EQ(ModeNamed("translated"), Mode::kTranslated);
  for (const char* text : {"4", "IV", "iv", "spliced"}) EXPECT_EQ(ModeNamed(text), Mode::kSpliced) << text;
  for (const char* text : {"", "0", "99", "-1", "3x", " 3", "IIII", "netreduce", "augment", "augmented ", "1.0",
                           "99999999999999999999", "unspecified"})
    EXPECT_FALSE(ModeNamed(text).has_value()) << text;
}

TEST(ModesTest, NumbersAreModesOrNone) {
  for (const ModeInfo& row : kModes)
    EXPECT_EQ(ModeOfNumber(NumberOf(row.mode)), row.hidden ? std::nullopt : std::optional(row.mode));
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{99}, int64_t{256 + 1}, INT64_MIN, INT64_MAX})
    EXPECT_FALSE(ModeOfNumber(number).has_value()) << number;
}

TEST(ModesTest, NoNameIsThatOfTwo) {
  std::set<std::string_view> names;
  for (const ModeInfo& row : kModes) {
    EXPECT_TRUE(names.insert(row.numeral).second) << row.numeral;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    const auto named = row.hidden ? std::nullopt : std::optional(row.mode);
    EXPECT_EQ(ModeNamed(row.numeral), named);
    EXPECT_EQ(ModeNamed(row.name), named);
    EXPECT_EQ(AnyModeNamed(row.name), row.mode);
    EXPECT_EQ(AnyModeNamed(std::to_string(NumberOf(row.mode))), row.mode);
    EXPECT_EQ(ModeChoice().find(row.name) == std::string::npos, row.hidden);
  }
}

TEST(ModesTest, WhatIsNoModeHasNoRow) {
  for (const Mode none : {Mode::kUnspecified, kNoMode}) {
    EXPECT_EQ(FindMode(none), nullptr);
    EXPECT_FALSE(IsMode(none));
    EXPECT_EQ(NumeralOf(none), "none");
    for (const Mode mode : AllModes()) EXPECT_FALSE(MayMix(mode, none) || MayMix(none, mode));
  }
}

// Modes I and III end each hop's reliability at the hop.
TEST(ModesTest, WhatSeesToEachHopMixes) {
  for (const Mode mode : AllModes()) EXPECT_TRUE(MayMix(mode, mode));
  EXPECT_TRUE(MayMix(Mode::kTerminated, Mode::kAugmented));
  EXPECT_TRUE(MayMix(Mode::kAugmented, Mode::kTerminated));
  EXPECT_FALSE(MayMix(Mode::kTranslated, Mode::kAugmented));
  EXPECT_FALSE(MayMix(Mode::kTerminated, Mode::kTranslated));
}

// Hosts of a group know its switches by one kind of address.
TEST(ModesTest, WhatBearsHostsMixesWithNothingElse) {
  for (const Mode mode : AllModes()) {
    EXPECT_EQ(MayMix(Mode::kSpliced, mode), mode == Mode::kSpliced) << NumeralOf(mode);
    EXPECT_EQ(MayMix(mode, Mode::kSpliced), mode == Mode::kSpliced) << NumeralOf(mode);
  }
}

// One switch sums.
TEST(ModesTest, WhatLiesInAPoolMixesWithNothingElse) {
  EXPECT_EQ(ModeInPool(), Mode::kPooled);
  for (const Mode mode : AllModes()) {
    EXPECT_EQ(IsInPool(mode), mode == Mode::kPooled) << NumeralOf(mode);
    EXPECT_EQ(MayMix(Mode::kPooled, mode), mode == Mode::kPooled) << NumeralOf(mode);
    const bool apart = mode == Mode::kPooled || FindMode(mode)->hidden;
    EXPECT_EQ(std::ranges::count(ModesOfOwnMemory(), mode), apart ? 0 : 1);
  }
  EXPECT_FALSE(IsInPool(kNoMode) || IsInPool(Mode::kUnspecified));
}

// Between its switches there is what is between mode I's.
TEST(ModesTest, WhatReadsHostsMixesWithWhatSeesToEachHop) {
  EXPECT_EQ(ModeThatReadsHosts(), Mode::kInitiated);
  for (const Mode mode : AllModes()) {
    EXPECT_EQ(ReadsHosts(mode), mode == Mode::kInitiated) << NumeralOf(mode);
    const bool mixes = mode == Mode::kInitiated || mode == Mode::kTerminated || mode == Mode::kAugmented;
    EXPECT_EQ(MayMix(Mode::kInitiated, mode), mixes) << NumeralOf(mode);
  }
  EXPECT_FALSE(ReadsHosts(kNoMode) || ReadsHosts(Mode::kUnspecified));
}

TEST(ModesTest, AnErrorSaysWhatTheNumbersMean) {
  EXPECT_TRUE(ModeChoice().starts_with("1 (I, terminated), 2 (II, translated), 3 (III, augmented)"));
  std::string text = "Augmented";
  EXPECT_EQ(ModeToNumber(text), "");
  EXPECT_EQ(text, "3");
  text = "99";
  EXPECT_EQ(ModeToNumber(text), "'99' is not a mode: " + ModeChoice());
  EXPECT_EQ(text, "99");
}

TEST(ModesTest, WhereThereIsNoPoolAModeThatNeedsOneIsRefused) {
  for (const std::string name : {"5", "V", "pooled"}) {
    std::string text = name;
    EXPECT_EQ(OwnMemoryModeToNumber(text),
              "'" + name + "' is a mode that needs a pool, which there is none of here");
    EXPECT_EQ(ModeToNumber(text), "");
    EXPECT_EQ(text, "5");
  }
  std::string text = "III";
  EXPECT_EQ(OwnMemoryModeToNumber(text), "");
  EXPECT_EQ(text, "3");
  text = "99";
  EXPECT_EQ(OwnMemoryModeToNumber(text), ModeToNumber(text));
}

}  // namespace
}  // namespace epic
