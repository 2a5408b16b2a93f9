#include "reduce/reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace epic {
namespace {

template <typename T>
std::vector<uint8_t> Bytes(const std::vector<T>& values, size_t shift) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T) + shift);
  if (!values.empty()) std::memcpy(bytes.data() + shift, values.data(), values.size() * sizeof(T));
  return bytes;
}

TEST(ReduceTest, SumsEveryLengthAtEveryAlignment) {
  const uint32_t seed = 5;
  std::minstd_rand rng(seed);
  for (size_t n = 0; n < 70; ++n) {
    for (size_t shift = 0; shift < 4; ++shift) {
      std::vector<float> a(n), b(n);
      for (size_t i = 0; i < n; ++i) {
        a[i] = static_cast<float>(rng()) / 1000.0f;
        b[i] = -static_cast<float>(rng()) / 777.0f;
      }
      auto acc = Bytes(a, shift);
      const auto in = Bytes(b, shift);
      Accumulate(ReduceOp::kSum, DataType::kFloat32, std::span(acc).subspan(shift),
                 std::span(in).subspan(shift));
      for (size_t i = 0; i < n; ++i) a[i] += b[i];
      EXPECT_EQ(acc,
                [&] {
                  auto want = Bytes(a, shift);
                  return want;
                }())
          << "seed " << seed << " n " << n;
    }
  }
}

TEST(ReduceTest, IntegersWrap) {
  auto acc = Bytes<int32_t>({INT32_MAX, INT32_MIN, -1, 7, 8}, 0);
  const auto in = Bytes<int32_t>({1, -1, 1, -7, 8}, 0);
  Accumulate(ReduceOp::kSum, DataType::kInt32, acc, in);
  EXPECT_EQ(acc, Bytes<int32_t>({INT32_MIN, INT32_MAX, 0, 0, 16}, 0));
}

TEST(ReduceTest, KnowsWhatItCanDo) {
  EXPECT_TRUE(CanReduce(ReduceOp::kSum, DataType::kFloat32));
  EXPECT_FALSE(CanReduce(ReduceOp::kNone, DataType::kFloat32));
  EXPECT_FALSE(CanReduce(ReduceOp::kSum, DataType::kNone));
}

}  // namespace
}  // namespace epic
