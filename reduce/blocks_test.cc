#include "reduce/blocks.h"

#include <cmath>
#include <random>
#include <string>

#include "reduce/blocks_testing.h"

namespace epic {
namespace {

constexpr DataType kBlockTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};
constexpr float kInfinite = std::numeric_limits<float>::infinity();

// Numbers about a magnitude of their own for each block, from subnormal ones to the largest; some are 0.
Floats RandomFloats(std::mt19937_64& rng, size_t count, int least_exponent = -149,
                    int largest_exponent = 127) {
  std::uniform_real_distribution<double> share(-1, 1);
  std::uniform_int_distribution<int> exponents(least_exponent, largest_exponent);
  Floats x;
  int exponent = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % kBlockElements == 0) exponent = exponents(rng);
    const auto v = static_cast<float>(std::ldexp(2 * share(rng), exponent));
    x.push_back(rng() % 16 == 0 || !std::isfinite(v) ? 0.0f : v);
  }
  return x;
}

std::vector<uint8_t> RandomBytes(std::mt19937_64& rng, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng());
  return bytes;
}

TEST(BlocksTest, EveryLengthAtEveryAlignmentThereAndBack) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 131 * 4; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng(seed);
      const size_t count = seed % 131, shift = seed / 131;
      for (const DataType type : kBlockTypes) {
        // BF16 has FP32's range, of which the largest is rounded beyond it.
        const bool half = type == DataType::kFloat16;
        const auto wire = WireOf(type, RandomFloats(rng, count, half ? -24 : -149, half ? 14 : 126));
        const auto blocks = Quantised(type, wire, shift);
        ASSERT_EQ(blocks, ReferenceBlocks(FloatsOf(type, wire))) << NameOf(type);
        Floats want = ReferenceFloats(blocks);
        want.resize(count);
        ASSERT_EQ(Dequantised(type, blocks, count, shift), WireOf(type, want)) << NameOf(type);
      }
    }
  });
}

TEST(BlocksTest, AnElementIsNoFurtherThanHalfTheScale) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 300; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng(seed);
      const Floats x = RandomFloats(rng, 4 * kBlockElements);
      const auto blocks = Quantised(DataType::kFloat32, WireOf(DataType::kFloat32, x));
      const Floats y = FloatsOf(DataType::kFloat32, Dequantised(DataType::kFloat32, blocks, x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const float scale = BlockScale(blocks.data() + i / kBlockElements * kBlockBytes);
        ASSERT_LE(std::fabs(double{x[i]} - y[i]), scale / 2.0) << x[i] << ", scale " << scale;
      }
    }
  });
}

// Every significand of a scale, about every tie: among normal numbers, at FP32's upper end, and among
// subnormal numbers, where the significand is the scale.
TEST(BlocksTest, RoundsEveryTieToEven) {
  Floats x;
  for (const uint32_t first : {1u, 0x3f80u, 0x7c00u - 128u}) {
    for (uint32_t bits = first; bits < first + 128; ++bits) {
      const auto scale = std::bit_cast<float>(bits << 16);
      for (int tie = 0; tie < 127; ++tie) {
        const float at = (static_cast<float>(tie) + 0.5f) * scale;
        for (const float v : {at, std::nextafter(at, 0.0f), std::nextafter(at, kInfinite)}) {
          if (x.size() % kBlockElements == 0) x.push_back(127 * scale);
          x.push_back(tie % 2 == 0 ? v : -v);
        }
      }
      // The next scale begins a block.
      x.resize(BlocksOf(x.size()) * kBlockElements);
    }
  }
  const auto wire = WireOf(DataType::kFloat32, x);
  const auto want = ReferenceBlocks(x);
  ForEachTarget([&] { EXPECT_TRUE(Quantised(DataType::kFloat32, wire) == want); });
  const Floats known = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49999997f, 0.50000006f, 126.5f};
  ForEachTarget([&] {
    auto whole = Quantised(DataType::kFloat32, WireOf(DataType::kFloat32, known));
    EXPECT_EQ(BlockScale(whole.data()), 1);
    whole.erase(whole.begin(), whole.begin() + 2);
    whole.resize(known.size());
    EXPECT_EQ(whole, (std::vector<uint8_t>{127, 0, 2, 2, 0, 0xfe, 0xfe, 0, 1, 126}));
  });
}

TEST(BlocksTest, ZerosAreExactAndHaveNoSign) {
  ForEachTarget([] {
    for (const DataType type : kBlockTypes) {
      EXPECT_EQ(Quantised(type, WireOf(type, Floats(70, -0.0f))), std::vector<uint8_t>(2 * kBlockBytes));
      const auto mixed = Quantised(type, WireOf(type, {-0.0f, 127, -0.1f}));
      EXPECT_EQ(Dequantised(type, mixed, 1), WireOf(type, {0.0f}));
      EXPECT_EQ(Dequantised(type, mixed, 3), WireOf(type, {0.0f, 127, 0}));
    }
  });
}

// The largest numbers and the least, alone and beside each other, and what their quotients by 127 round to.
TEST(BlocksTest, ScalesAtTheEndsOfFp32) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  constexpr float kLeastScale = 0x1p-133f;
  Floats extremes = {kLargest, kLeast, std::numeric_limits<float>::min(), 1, 127, 63 * kLeast, 64 * kLeast};
  for (const float at : {kLeastScale / 2, kLeastScale, 127 * kLeastScale, 0x1p-126f, 0x1.02p121f * 127})
    for (const float v : {std::nextafter(at, 0.0f), at, std::nextafter(at, kInfinite)}) extremes.push_back(v);
  ForEachTarget([&] {
    for (const float v : extremes) {
      for (const float other : extremes) {
        const Floats x = {v, -other};
        const auto blocks = Quantised(DataType::kFloat32, WireOf(DataType::kFloat32, x));
        ASSERT_EQ(blocks, ReferenceBlocks(x)) << v << " " << other;
        const float scale = BlockScale(blocks.data());
        const Floats y = FloatsOf(DataType::kFloat32, Dequantised(DataType::kFloat32, blocks, 2));
        for (size_t i = 0; i < 2; ++i) {
          ASSERT_TRUE(std::isfinite(y[i])) << x[i];
          ASSERT_LE(std::fabs(double{x[i]} - y[i]), scale / 2.0) << v << " " << other;
        }
      }
    }
  });
}

// Wherever it stands; of the blocks beside it nothing changes.
TEST(BlocksTest, WhatIsNotFiniteMakesItsBlockNaN) {
  ForEachTarget([] {
    for (const DataType type : kBlockTypes) {
      const Format& format = FormatOf(type);
      Block nan{};
      nan[0] = 0xc0, nan[1] = 0x7f;
      for (size_t at = 0; at < 70; ++at) {
        std::vector<uint64_t> elements(70, format.Encode(127));
        const uint64_t sign = at % 2 == 0 ? format.SignBit() : 0;
        // Infinity, a quiet NaN, a signalling one.
        const uint64_t kinds[] = {0, uint64_t{1} << (format.mantissa_bits - 1), 1};
        elements[at] = sign | format.Infinity() | kinds[at % 3];
        const auto blocks = Quantised(type, ToBytes(type, elements));
        const size_t hit = at / kBlockElements * kBlockBytes;
        ASSERT_TRUE(std::equal(nan.begin(), nan.end(), blocks.begin() + static_cast<ptrdiff_t>(hit))) << at;
        const Floats back = FloatsOf(type, Dequantised(type, blocks, 70));
        for (size_t i = 0; i < 70; ++i) {
          if (i / kBlockElements == at / kBlockElements) {
            ASSERT_TRUE(std::isnan(back[i])) << at << " " << i;
          } else {
            ASSERT_EQ(back[i], 127) << at << " " << i;
          }
        }
      }
    }
  });
}

TEST(BlocksTest, SumsAreOfFp32AndRoundedOnce) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 120; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng(seed);
      const size_t count = (seed % 5) * kBlockElements, shift = seed / 5 % 4;
      std::vector<std::vector<uint8_t>> contributions;
      for (size_t c = 0; c < 1 + seed % 9; ++c)
        contributions.push_back(ReferenceBlocks(RandomFloats(rng, count, -8, 8)));
      ASSERT_EQ(SumOf(contributions, shift), ReferenceSum(contributions));
    }
  });
}

// Half the scales of all ranks and of the sum, and what FP32 rounds.
TEST(BlocksTest, ASumIsWithinItsBound) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const size_t ranks = 2 + seed % 15, count = 3 * kBlockElements;
    std::vector<double> exact(count), bound(count), magnitudes(count);
    std::vector<std::vector<uint8_t>> contributions;
    const auto add_scales = [&](const std::vector<uint8_t>& blocks) {
      for (size_t i = 0; i < count; ++i)
        bound[i] += BlockScale(blocks.data() + i / kBlockElements * kBlockBytes) / 2.0;
    };
    for (size_t r = 0; r < ranks; ++r) {
      const Floats x = RandomFloats(rng, count, -3, 3);
      contributions.push_back(Quantised(DataType::kFloat32, WireOf(DataType::kFloat32, x)));
      add_scales(contributions.back());
      const Floats sent = ReferenceFloats(contributions.back());
      for (size_t i = 0; i < count; ++i) {
        exact[i] += x[i];
        magnitudes[i] += std::fabs(sent[i]);
      }
    }
    const auto sum = SumOf(contributions);
    add_scales(sum);
    const Floats got = FloatsOf(DataType::kFloat32, Dequantised(DataType::kFloat32, sum, count));
    for (size_t i = 0; i < count; ++i) {
      const double rounding = static_cast<double>(ranks + 2) * 0x1p-24 * magnitudes[i];
      ASSERT_LE(std::fabs(got[i] - exact[i]), bound[i] + rounding) << i;
    }
  }
}

// Beside either operand and into it, in either order.
TEST(BlocksTest, CombinesTwo) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng(seed);
      const size_t count = (seed % 5) * kBlockElements, shift = seed / 5 % 4;
      const auto a = ReferenceBlocks(RandomFloats(rng, count, -4, 4));
      const auto b = ReferenceBlocks(RandomFloats(rng, count, -4, 4));
      const auto want = ReferenceSum({a, b});
      const auto left = Shifted(a, shift), right = Shifted(b, shift + 1);
      const auto combine = [&](const uint8_t* x, const uint8_t* y) {
        return Made(a.size(), 1, [&](std::span<uint8_t> out) { CombineBlocks(out, x, y); });
      };
      ASSERT_EQ(combine(left.data() + shift, right.data() + shift + 1), want);
      ASSERT_EQ(combine(right.data() + shift + 1, left.data() + shift), want);
      auto into = left;
      CombineBlocks(std::span(into).subspan(shift), into.data() + shift, right.data() + shift + 1);
      ASSERT_EQ(into, Shifted(want, shift));
      into = right;
      CombineBlocks(std::span(into).subspan(shift + 1), left.data() + shift, into.data() + shift + 1);
      ASSERT_EQ(into, Shifted(want, shift + 1));
    }
  });
}

TEST(BlocksTest, ASumWithANaNOrBeyondFp32IsNaNInItsBlockAlone) {
  constexpr float kHuge = 3e38f;
  const Floats ones(2 * kBlockElements, 1.0f);
  for (const float strange : {std::nanf(""), kInfinite, -kInfinite, kHuge}) {
    for (const size_t at : {size_t{0}, kBlockElements - 1, kBlockElements, 2 * kBlockElements - 1}) {
      auto with = ones;
      with[at] = strange;
      const auto a = ReferenceBlocks(with);
      const auto b = ReferenceBlocks(strange == kHuge ? with : ones);
      ForEachTarget([&] {
        const auto sum = SumOf({a, b});
        const size_t hit = at / kBlockElements;
        EXPECT_TRUE(std::isnan(BlockScale(sum.data() + hit * kBlockBytes)));
        EXPECT_FALSE(std::isnan(BlockScale(sum.data() + (1 - hit) * kBlockBytes)));
        EXPECT_EQ(sum, ReferenceSum({a, b}));
        EXPECT_EQ(
            Made(sum.size(), 0, [&](std::span<uint8_t> out) { CombineBlocks(out, a.data(), b.data()); }),
            sum);
      });
    }
  }
}

// Scales that nobody makes, as negative, infinite and enormous ones, and whole numbers of -128.
TEST(BlocksTest, AnyBitsAreWhatIeee754MakesOfThem) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 2000; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 rng(seed);
      std::vector<std::vector<uint8_t>> contributions;
      for (int c = 0; c < 3; ++c) {
        contributions.push_back(RandomBytes(rng, kBlockBytes));
        // A third are enormous, where a product may be infinite before a sum is.
        if (seed % 3 == 0) contributions.back()[1] = static_cast<uint8_t>((c == 1 ? 0xf8 : 0x78) + rng() % 8);
      }
      ASSERT_EQ(SumOf(contributions), ReferenceSum(contributions));
      const Floats want = ReferenceElements(contributions[0].data());
      for (const DataType type : kBlockTypes) {
        const auto got = Dequantised(type, contributions[0], kBlockElements);
        const auto elements = FromBytes(type, got.data(), kBlockElements);
        for (size_t i = 0; i < kBlockElements; ++i)
          ASSERT_TRUE(Same(type, elements[i], FormatOf(type).Encode(want[i]))) << NameOf(type) << " " << i;
      }
    }
  });
}

// 2^127 * 2 - 2^127 * 1.99 fits into FP32, but 2^127 * 2 does not: a product and a sum are rounded each.
TEST(BlocksTest, AProductIsRoundedBeforeTheSum) {
  Block two{}, less{};
  two[1] = less[1] = 0x7f, two[2] = 2, less[2] = 0xff;
  const std::vector<uint8_t> a(less.begin(), less.end()), b(two.begin(), two.end());
  ForEachTarget([&] { EXPECT_TRUE(std::isnan(BlockScale(SumOf({a, b}).data()))); });
}

// Of the type block8 they are what those of all types call: rounded once, however many contributions there
// are.
TEST(BlocksTest, AreCombinedAsAType) {
  std::vector<std::vector<uint8_t>> ranks;
  for (const float rank : {1.0f, 2.0f, 3.0f}) {
    Floats numbers(130);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = rank * std::sin(0.37f * static_cast<float>(i) + rank);
    ranks.push_back(ReferenceBlocks(numbers));
  }
  const size_t bytes = ranks[0].size();
  const auto sum = ReduceOp::kSum;
  const auto type = DataType::kBlock8;
  ASSERT_EQ(AccumulatorBytes(sum, type, bytes), bytes / kBlockBytes * kBlockAccumulatorBytes);
  std::vector<uint8_t> acc(AccumulatorBytes(sum, type, bytes)), out(bytes);
  Load(sum, type, acc, ranks[0]);
  Accumulate(sum, type, acc, ranks[1]);
  Accumulate(sum, type, acc, ranks[2]);
  Store(sum, type, acc, out);
  EXPECT_EQ(out, ReferenceSum(ranks));
  Combine(sum, type, out, ranks[0].data(), ranks[1].data());
  EXPECT_EQ(out, ReferenceSum({ranks[0], ranks[1]}));
  EXPECT_EQ(AccumulatorBytes(ReduceOp::kNone, type, bytes), bytes) << "a copy";
}

TEST(BlocksDeathTest, RefusesWhatDoesNotFit) {
  std::vector<uint8_t> acc(512), blocks(128), data(4 * 63);
  EXPECT_DEATH(LoadBlocks(acc, std::span(blocks).first(64)), "bytes / kBlockBytes");
  EXPECT_DEATH(AccumulateBlocks(std::span(acc).first(300), std::span(blocks).first(64)), "kBlockAccumulator");
  EXPECT_DEATH(StoreBlocks(acc, std::span(blocks).first(127)), "kBlockBytes");
  EXPECT_DEATH(CombineBlocks(std::span(blocks).first(65), blocks.data(), blocks.data()), "kBlockBytes");
  EXPECT_DEATH(QuantiseBlocks(DataType::kFloat32, std::span(blocks).first(64), data), "BlocksOf");
  EXPECT_DEATH(QuantiseBlocks(DataType::kFloat32, blocks, std::span(data).first(250)), "element_bytes");
  EXPECT_DEATH(DequantiseBlocks(DataType::kInt32, data, blocks), "kFloat32");
  EXPECT_DEATH(DequantiseBlocks(DataType::kFloat16, std::span(data).first(124), blocks), "BlocksOf");
}

}  // namespace
}  // namespace epic
