#include "roce/icrc.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "roce/wire.h"

namespace epic::roce {
namespace {

std::vector<uint8_t> RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(Crc32Test, MatchesTheCheckValue) {
  constexpr std::string_view text = "123456789";
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  EXPECT_EQ(Crc32(0, bytes), 0xcbf43926);
}

TEST(Crc32Test, GoesOnFromAnEarlierCrc) {
  const std::vector<uint8_t> bytes = RandomBytes(1000, 1);
  const std::span<const uint8_t> all = bytes;
  EXPECT_EQ(Crc32(Crc32(0, all.first(37)), all.subspan(37)), Crc32(0, all));
}

TEST(CrcShiftTest, JoinsTwoPartsOfEveryLength) {
  const std::vector<uint8_t> bytes = RandomBytes(9000, 2);
  const std::span<const uint8_t> all = bytes;
  for (const size_t second : {0u, 1u, 3u, 4u, 64u, 255u, 1024u, 4096u, 8999u}) {
    const CrcShift shift(second);
    const size_t first = std::min<size_t>(all.size() - second, 52);
    EXPECT_EQ(shift.bytes(), second);
    EXPECT_EQ(shift.Join(Crc32(0, all.first(first)), Crc32(0, all.subspan(first, second))),
              Crc32(0, all.first(first + second)))
        << second;
  }
}

// The golden frames (tests/golden) are the witness for the definition itself. Here: what is masked is masked,
// and nothing else.
TEST(IcrcTest, CoversEveryBitButTheMaskedOnes) {
  std::vector<uint8_t> packet = RandomBytes(20 + 8 + 12 + 4 + 32 + 4, 3);
  StoreLe32(Icrc(packet), &packet[packet.size() - kIcrcBytes]);
  ASSERT_TRUE(IcrcOk(packet));
  for (size_t bit = 0; bit < packet.size() * 8; ++bit) {
    const size_t byte = bit / 8;
    const bool masked = byte == 1 || byte == 8 || byte == 10 || byte == 11 ||  // ToS, TTL, IP checksum
                        byte == 26 || byte == 27 || byte == 32;  // UDP checksum, FECN/BECN/reserved
    packet[byte] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(IcrcOk(packet), masked) << "byte " << byte;
    packet[byte] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

TEST(IcrcTest, TooShortAPacketHasNone) {
  const std::vector<uint8_t> packet(kIcrcHeaderBytes + kIcrcBytes - 1, 0);
  EXPECT_FALSE(IcrcOk(packet));
  EXPECT_FALSE(IcrcOk({}));
}

}  // namespace
}  // namespace epic::roce
