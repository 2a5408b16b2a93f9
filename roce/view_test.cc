#include "roce/view.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace epic::roce {
namespace {

// RFC 1071, section 3: the sum of its example is ddf2.
TEST(InternetChecksumTest, TheExampleOfTheSpecification) {
  const std::vector<uint8_t> example = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(InternetChecksum(example), static_cast<uint16_t>(~0xddf2));
}

TEST(InternetChecksumTest, EachLengthAsWordByWord) {
  std::mt19937 random(1);
  for (size_t length = 0; length <= 2000; length += length < 64 ? 2 : 122) {
    for (const uint32_t low : {0x00, 0xff}) {  // and the most carries that there can be
      std::vector<uint8_t> header(length);
      for (uint8_t& octet : header) octet = static_cast<uint8_t>(low | random());
      uint32_t sum = 0;
      for (size_t i = 0; i < length; i += 2) {
        sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
        sum = (sum & 0xffff) + (sum >> 16);
      }
      EXPECT_EQ(InternetChecksum(header), static_cast<uint16_t>(~sum)) << length << " octets";
    }
  }
}

}  // namespace
}  // namespace epic::roce
