#include "base/grpc/first_words.h"

#include <gtest/gtest.h>

namespace epic {
namespace {

TEST(FirstWordsTest, WholeWordsAreGoodAndPartsOfThemWaitForMore) {
  const std::string hello = HelloOfHttp2();
  ASSERT_EQ(hello.size(), kFirstWords);
  for (size_t size = 0; size < hello.size(); ++size)
    EXPECT_EQ(Judge(std::string_view(hello).substr(0, size)), FirstWords::kMore) << size;
  EXPECT_EQ(Judge(hello), FirstWords::kGood);
  EXPECT_EQ(Judge(hello + "more"), FirstWords::kGood);
}

TEST(FirstWordsTest, AWrongByteIsWrongAtOnce) {
  const std::string hello = HelloOfHttp2();
  for (size_t at = 0; at < kHttp2Preface.size(); ++at) {
    std::string wrong = hello;
    wrong[at] ^= 1;
    EXPECT_EQ(Judge(std::string_view(wrong).substr(0, at)), FirstWords::kMore) << at;
    EXPECT_EQ(Judge(std::string_view(wrong).substr(0, at + 1)), FirstWords::kWrong) << at;
  }
  std::string no_settings = hello;
  no_settings[kHttp2Preface.size() + 3] = 6;
  EXPECT_EQ(Judge(no_settings), FirstWords::kWrong);
  EXPECT_EQ(Judge("GET / HTTP/1.1\r\n"), FirstWords::kWrong);
}

TEST(FirstWordsTest, AnAcknowledgementIsFoundBehindOtherFrames) {
  const std::string settings("\0\0\6\4\0\0\0\0\0abcdef", 15);
  const std::string update("\0\0\4\x8\0\0\0\0\0\0\0\1\0", 13);
  const std::string ack("\0\0\0\4\1\0\0\0\0", 9);
  const std::string heard = settings + update + ack;
  for (size_t size = 0; size < heard.size(); ++size)
    EXPECT_FALSE(HasSettingsAck(std::string_view(heard).substr(0, size))) << size;
  EXPECT_TRUE(HasSettingsAck(heard));
  EXPECT_FALSE(HasSettingsAck(std::string("\xff\xff\xff\0\0\0\0\0\0", 9) + ack)) << "inside of another frame";
}

}  // namespace
}  // namespace epic
