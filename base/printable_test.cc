#include "base/printable.h"

#include <gtest/gtest.h>

#include <random>

#include "base/seeds_testing.h"

namespace epic {
namespace {

TEST(PrintableTest, IsOneLineWithoutAnythingForATerminal) {
  EXPECT_EQ(Printable("as it is, also äöü, 漢字 and 🙂"), "as it is, also äöü, 漢字 and 🙂");
  EXPECT_EQ(Printable("a\nswitch s1: up\r\n"), "a?switch s1: up??");
  EXPECT_EQ(Printable("\x1b[2J\x07\x7f"), "?[2J??");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(Printable("a\u009b31mb\u0085c"), "a?31mb?c") << "controls of eight bits";
  EXPECT_EQ(Printable("a\u2028b\u202ec\u2066d"), "a?b?c?d") << "lines, and what turns a line round";
  EXPECT_EQ(Printable("a\u2027b\u202f\u2065\u206a"), "a\u2027b\u202f\u2065\u206a");
}

TEST(PrintableTest, WhatIsNoCharacterIsAQuestionMark) {
  EXPECT_EQ(Printable("\x80\xc1\xff"), "???");
  EXPECT_EQ(Printable("\xe2\x82"), "??") << "cut";
  EXPECT_EQ(Printable("\xc0\xaf"), "??") << "longer than it need be";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???") << "half of a pair";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "????") << "beyond Unicode";
  EXPECT_EQ(Printable("\xe2\x28\xa1"), "?(?");
}

TEST(PrintableTest, IsCutBetweenCharacters) {
  EXPECT_EQ(Printable(std::string(3'500'000, 'x')), std::string(kMaxLineBytes, 'x') + "...");
  EXPECT_EQ(Printable("ab\u00e4c", 3), "ab...");
  EXPECT_EQ(Shortened("abc", 3), "abc");
  EXPECT_EQ(Shortened("\xff\x80\x80\x80", 2), "...") << "also of what is no text";
}

TEST(PrintableTest, OfAnythingWhatComesOutIsPrintableAndStaysSo) {
  const TestSeeds seeds = SeedsToRun(200);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(testing::Message() << "again: EPIC_SEED=" << seed);
    std::mt19937_64 random(seed);
    std::string text;
    for (int i = 0; i < 200; ++i)
      text += static_cast<char>(random() % 3 == 0 ? random() % 256 : 0x80 + random() % 0x80);
    const std::string out = Printable(text);
    EXPECT_EQ(Printable(out), out);
    for (size_t at = 0; at < out.size();) {
      const size_t length = Utf8Length(std::string_view(out).substr(at));
      ASSERT_NE(length, 0U) << at;
      ASSERT_FALSE(length == 1 && (out[at] < 0x20 || out[at] == 0x7f)) << at;
      at += length;
    }
  }
}

}  // namespace
}  // namespace epic
