#include "reduce/quantise.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "reduce/reduce_testing.h"

namespace epic {
namespace {

constexpr uint8_t kGuard = 0xa5;
constexpr float kScales[] = {1.0f, 0.5f, 3.0f, 1e6f, 65536.0f, 0.1f, kLeastScale, kLargestScale};

// By other arithmetic: the product in more digits than it has, the tie decided by hand.
int32_t ReferenceQuantised(float x, float scale) {
  const long double product = static_cast<long double>(x) * scale;
  long double whole = std::floor(product);
  const long double rest = product - whole;
  const bool odd = std::fmod(whole, 2.0L) != 0;
  if (rest > 0.5L || (rest == 0.5L && odd)) whole += 1;
  return static_cast<int32_t>(
      std::clamp(whole, static_cast<long double>(INT32_MIN), static_cast<long double>(INT32_MAX)));
}

bool IsLimit(int32_t value) { return value == INT32_MIN || value == INT32_MAX; }

template <typename T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values, size_t shift) {
  std::vector<uint8_t> bytes(shift + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + shift, values.data(), values.size() * sizeof(T));
  return bytes;
}

template <typename T>
std::vector<T> ValuesOf(const uint8_t* bytes, size_t count) {
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes, count * sizeof(T));
  return values;
}

// With operands at odd addresses, beside each other and in place; nothing is written behind.
void ExpectQuantised(const std::vector<float>& in, float scale, size_t shift) {
  std::vector<int32_t> want;
  size_t limits = 0;
  for (const float x : in) {
    want.push_back(ReferenceQuantised(x, scale));
    limits += IsLimit(want.back()) ? 1 : 0;
  }
  auto from = BytesOf(in, shift);
  std::vector<uint8_t> out(1 + in.size() * 4 + 1, kGuard);
  EXPECT_EQ(Quantise(scale, std::span(out).subspan(1, in.size() * 4), from.data() + shift), limits);
  EXPECT_TRUE(out.front() == kGuard && out.back() == kGuard);
  const auto got = ValuesOf<int32_t>(out.data() + 1, in.size());
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(got[i], want[i]) << in[i] << " * " << scale;
  EXPECT_EQ(Quantise(scale, std::span(from).subspan(shift), from.data() + shift), limits);
  EXPECT_EQ(ValuesOf<int32_t>(from.data() + shift, in.size()), want);
}

TEST(QuantiseTest, EveryLengthAtEveryAlignment) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 71 * 4; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng(seed);
      std::uniform_real_distribution<float> near(-3000.0f, 3000.0f);
      std::vector<float> in(seed % 71);
      for (float& x : in) x = near(rng);
      for (const float scale : kScales) ExpectQuantised(in, scale, seed / 71);
    }
  });
}

TEST(QuantiseTest, RoundsToNearestAndTiesToEven) {
  ForEachTarget([] {
    ExpectQuantised({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49999997f, 0.50000006f, 8388607.5f, 1e-30f},
                    1.0f, 0);
    std::vector<uint8_t> out(4 * 6);
    const auto in = BytesOf<float>({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f}, 0);
    EXPECT_EQ(Quantise(1.0f, out, in.data()), 0u);
    EXPECT_EQ(ValuesOf<int32_t>(out.data(), 6), (std::vector<int32_t>{0, 2, 2, 0, -2, -2}));
  });
}

// At and about both limits, the largest numbers, subnormal ones, and zeros of either sign.
TEST(QuantiseTest, SaturatesAndCounts) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  ForEachTarget([] {
    const std::vector<float> in = {2147483520.0f,  2147483648.0f, -2147483520.0f, -2147483648.0f,
                                   -2147483904.0f, kLargest,      -kLargest,      0.0f,
                                   -0.0f,          1e-45f,        -1e-45f,        1073741824.0f,
                                   -1073741824.0f, 2147483.75f,   715827882.0f};
    for (const float scale : kScales) ExpectQuantised(in, scale, 3);
    std::vector<uint8_t> out(4 * in.size());
    EXPECT_EQ(Quantise(1.0f, out, BytesOf(in, 0).data()), 5u);
    const auto got = ValuesOf<int32_t>(out.data(), in.size());
    EXPECT_EQ(got[0], 2147483520);
    EXPECT_EQ(got[1], INT32_MAX);
    EXPECT_EQ(got[3], INT32_MIN);
    EXPECT_TRUE(got[7] == 0 && got[8] == 0);
  });
}

TEST(QuantiseTest, ComesBackDividedAndCountsLimits) {
  ForEachTarget([] {
    for (size_t count = 0; count < 71; ++count) {
      std::mt19937_64 rng(count);
      std::vector<int32_t> in(count);
      for (int32_t& x : in) x = static_cast<int32_t>(rng());
      size_t limits = 0;
      for (size_t i = 0; i < count; i += 7, ++limits) in[i] = i % 2 == 0 ? INT32_MAX : INT32_MIN;
      for (const double divisor : {1.0, 3.0, 4e6, double{kLeastScale}, double{kLargestScale} * 512}) {
        const auto from = BytesOf(in, 1);
        std::vector<uint8_t> out(3 + 4 * count + 1, kGuard);
        EXPECT_EQ(Dequantise(divisor, std::span(out).subspan(3, 4 * count), from.data() + 1), limits);
        EXPECT_EQ(out.back(), kGuard);
        const auto got = ValuesOf<float>(out.data() + 3, count);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(got[i], static_cast<float>(in[i] / divisor)) << in[i] << " / " << divisor;
          ASSERT_TRUE(std::isfinite(got[i]));
        }
      }
    }
  });
}

TEST(QuantiseTest, FindsTheFirstThatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ForEachTarget([] {
    for (size_t count = 0; count < 71; ++count) {
      std::vector<float> in(count, std::numeric_limits<float>::max());
      EXPECT_EQ(FirstNotFinite(BytesOf(in, 0)), std::nullopt);
      for (size_t at = 0; at < count; ++at) {
        auto bad = in;
        bad[at] = at % 3 == 0 ? kInfinity : at % 3 == 1 ? -kInfinity : std::nanf("");
        bad.back() = kInfinity;
        const auto bytes = BytesOf(bad, 1);
        ASSERT_EQ(FirstNotFinite(std::span(bytes).subspan(1)), at);
      }
    }
  });
}

}  // namespace
}  // namespace epic
