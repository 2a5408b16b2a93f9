#include "reduce/reduce.h"

#include <random>
#include <span>
#include <string>

#include "reduce/reduce_testing.h"

namespace epic {
namespace {

std::string Name(ReduceOp op, DataType type) {
  return std::string(NameOf(op)) + " of " + std::string(NameOf(type));
}

// Reduces columns[0][i], columns[1][i], ... for every i, with accumulator and operands at odd addresses, and
// checks that nothing is written behind the accumulator or the result.
std::vector<uint64_t> Reduce(ReduceOp op, DataType type, const std::vector<std::vector<uint64_t>>& columns,
                             size_t shift = 1) {
  constexpr uint8_t kGuard = 0xa5;
  const size_t count = columns[0].size();
  const size_t wire = count * ElementBytes(type);
  std::vector<uint8_t> acc(shift + AccumulatorBytes(op, type, wire) + 1, kGuard);
  std::vector<uint8_t> out(shift + wire + 1, kGuard);
  const auto acc_span = std::span(acc).subspan(shift, acc.size() - shift - 1);
  for (size_t c = 0; c < columns.size(); ++c) {
    const auto bytes = ToBytes(type, columns[c], shift + c);
    const auto in = std::span(bytes).subspan(shift + c);
    if (c == 0) {
      Load(op, type, acc_span, in);
    } else {
      Accumulate(op, type, acc_span, in);
    }
  }
  Store(op, type, acc_span, std::span(out).subspan(shift, wire));
  EXPECT_EQ(acc.back(), kGuard);
  EXPECT_EQ(out.back(), kGuard);
  return FromBytes(type, out.data() + shift, count);
}

void ExpectReduced(ReduceOp op, DataType type, const std::vector<std::vector<uint64_t>>& columns,
                   const std::vector<uint64_t>& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    std::vector<uint64_t> row;
    row.reserve(columns.size());
    for (const auto& column : columns) row.push_back(column[i]);
    const uint64_t want = ReferenceReduce(op, type, row);
    ASSERT_TRUE(Same(type, got[i], want)) << Name(op, type) << std::hex << " element " << i << ": " << row[0]
                                          << " and " << row[1] << " gave " << got[i] << ", not " << want;
  }
}

// What ForEachTarget tests includes the code for the oldest machine, in which nothing is done by special
// instructions.
TEST(ReduceTest, TestsTheBaseline) {
  std::string names;
  bool has_baseline = false;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names += hwy::TargetName(target) + std::string(" ");
    has_baseline |= target == HWY_STATIC_TARGET;
  }
  RecordProperty("targets", names);
  EXPECT_TRUE(has_baseline) << names;
}

TEST(ReduceTest, ReducesEveryLengthAtEveryAlignment) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 71 * 4; ++seed) {
      std::mt19937_64 rng(seed);
      const size_t count = seed % 71;
      for (const DataType type : ReducedTypes()) {
        for (const ReduceOp op : OpsOf(type)) {
          std::vector<std::vector<uint64_t>> columns(3, std::vector<uint64_t>(count));
          for (auto& column : columns) {
            for (uint64_t& element : column) element = rng() & MaskOf(type);
          }
          SCOPED_TRACE("seed " + std::to_string(seed));
          ExpectReduced(op, type, columns, Reduce(op, type, columns, seed / 71));
        }
      }
    }
  });
}

// Each special value with each, in two columns.
std::vector<std::vector<uint64_t>> PairsOfSpecials(DataType type) {
  std::vector<std::vector<uint64_t>> columns(2);
  for (const uint64_t a : Specials(type)) {
    for (const uint64_t b : Specials(type)) {
      columns[0].push_back(a);
      columns[1].push_back(b);
    }
  }
  return columns;
}

TEST(ReduceTest, ReducesAllPairsOfSpecials) {
  ForEachTarget([] {
    for (const DataType type : ReducedTypes()) {
      const auto columns = PairsOfSpecials(type);
      for (const ReduceOp op : OpsOf(type)) ExpectReduced(op, type, columns, Reduce(op, type, columns));
    }
  });
}

// Pair by pair, beside either operand and into it, at every length and alignment; nothing is written behind.
TEST(ReduceTest, CombinesPairsInWireForm) {
  ForEachTarget([] {
    constexpr uint8_t kGuard = 0xa5;
    for (uint32_t seed = 0; seed < 71 * 4; ++seed) {
      std::mt19937_64 rng(seed);
      const size_t count = seed % 71, shift = seed / 71;
      for (const DataType type : ReducedTypes()) {
        for (const ReduceOp op : OpsOf(type)) {
          SCOPED_TRACE("seed " + std::to_string(seed));
          std::vector<std::vector<uint64_t>> columns(2, std::vector<uint64_t>(count));
          for (auto& column : columns) {
            for (uint64_t& element : column) element = rng() & MaskOf(type);
          }
          auto a = ToBytes(type, columns[0], shift), b = ToBytes(type, columns[1], shift + 1);
          const size_t bytes = count * ElementBytes(type);
          std::vector<uint8_t> apart(2 + bytes + 1, kGuard);
          Combine(op, type, std::span(apart).subspan(2, bytes), a.data() + shift, b.data() + shift + 1);
          EXPECT_EQ(apart.back(), kGuard);
          ExpectReduced(op, type, columns, FromBytes(type, apart.data() + 2, count));
          const auto kept = b;
          Combine(op, type, std::span(a).subspan(shift), a.data() + shift, b.data() + shift + 1);
          EXPECT_EQ(b, kept);
          ExpectReduced(op, type, columns, FromBytes(type, a.data() + shift, count));
          const auto other = ToBytes(type, columns[0]);
          Combine(op, type, std::span(b).subspan(shift + 1), other.data(), b.data() + shift + 1);
          ExpectReduced(op, type, columns, FromBytes(type, b.data() + shift + 1, count));
        }
      }
    }
  });
}

TEST(ReduceTest, CombinesAllPairsOfSpecials) {
  ForEachTarget([] {
    for (const DataType type : ReducedTypes()) {
      const auto columns = PairsOfSpecials(type);
      const auto a = ToBytes(type, columns[0]), b = ToBytes(type, columns[1]);
      std::vector<uint8_t> out(a.size());
      for (const ReduceOp op : OpsOf(type)) {
        Combine(op, type, out, a.data(), b.data());
        ExpectReduced(op, type, columns, FromBytes(type, out.data(), columns[0].size()));
      }
    }
  });
}

TEST(ReduceTest, IntegersWrap) {
  ForEachTarget([] {
    auto acc = ToBytes(DataType::kInt32, {0x7fffffff, 0x80000000, 0xffffffff});
    const auto in = ToBytes(DataType::kInt32, {1, 0xffffffff, 1});
    Accumulate(ReduceOp::kSum, DataType::kInt32, acc, in);
    EXPECT_EQ(acc, ToBytes(DataType::kInt32, {0x80000000, 0x7fffffff, 0}));
    auto bytes = ToBytes(DataType::kInt8, {0x7f, 0x10, 0xff});
    Accumulate(ReduceOp::kProduct, DataType::kInt8, bytes, ToBytes(DataType::kInt8, {2, 0x10, 0xff}));
    EXPECT_EQ(bytes, ToBytes(DataType::kInt8, {0xfe, 0, 1}));
  });
}

TEST(ReduceTest, TheTruthOfOneContributionIsZeroOrOne) {
  ForEachTarget([] {
    for (const DataType type : ReducedTypes()) {
      if (IsFloatType(type)) continue;
      for (const ReduceOp op : {ReduceOp::kLogicalAnd, ReduceOp::kLogicalOr}) {
        const auto got = Reduce(op, type, {{0, 1, 2, MaskOf(type), MaskOf(type) / 2 + 1}});
        EXPECT_EQ(got, std::vector<uint64_t>({0, 1, 1, 1, 1})) << Name(op, type);
      }
    }
  });
}

// Beyond FP16's largest on the way, and back.
TEST(ReduceTest, ProductsOfSixteenBitTypesAreRoundedOnce) {
  ForEachTarget([] {
    const Format& format = kFp16;
    const std::vector<std::vector<uint64_t>> columns = {
        {format.Encode(60000)}, {format.Encode(1024)}, {format.Encode(1.0 / 2048)}};
    EXPECT_EQ(format.Decode(Reduce(ReduceOp::kProduct, DataType::kFloat16, columns)[0]), 30000);
  });
}

// In BF16's own width 256 + 1 is 256, however often 1 is added.
TEST(ReduceTest, SixteenBitTypesAreRoundedOnce) {
  ForEachTarget([] {
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
      const Format& format = FormatOf(type);
      const double big = std::ldexp(1, format.mantissa_bits + 1);
      std::vector<std::vector<uint64_t>> columns(1, {format.Encode(big)});
      for (int i = 0; i < 8; ++i) columns.push_back({format.Encode(1)});
      EXPECT_EQ(format.Decode(Reduce(ReduceOp::kSum, type, columns)[0]), big + 8);
    }
  });
}

TEST(ReduceTest, StoresInPlace) {
  ForEachTarget([] {
    for (const DataType type : ReducedTypes()) {
      for (size_t count = 0; count < 70; ++count) {
        std::vector<uint64_t> elements(count);
        for (size_t i = 0; i < count; ++i) elements[i] = (0x3c00 + i) & MaskOf(type);
        const auto in = ToBytes(type, elements);
        std::vector<uint8_t> acc(AccumulatorBytes(ReduceOp::kMax, type, in.size()));
        Load(ReduceOp::kMax, type, acc, in);
        Store(ReduceOp::kMax, type, acc, std::span(acc).first(in.size()));
        EXPECT_EQ(FromBytes(type, acc.data(), count), elements) << Name(ReduceOp::kMax, type) << " " << count;
      }
    }
  });
}

uint64_t ReferenceAverage(DataType type, uint64_t element, uint32_t divisor) {
  if (!IsFloatType(type)) {
    const bool is_signed = FindType(type)->kind == ElementKind::kSigned;
    const __int128 value = is_signed ? __int128{OrderOf(type, element)} : __int128{element};
    return static_cast<uint64_t>(value / divisor) & MaskOf(type);
  }
  const Format& format = FormatOf(type);
  if (type == DataType::kFloat64) return format.Encode(format.Decode(element) / divisor);
  return format.Encode(static_cast<float>(format.Decode(element)) / static_cast<float>(divisor));
}

TEST(ReduceTest, Averages) {
  const uint32_t seed = 11;
  ForEachTarget([&] {
    std::mt19937_64 rng(seed);
    for (const DataType type : ReducedTypes()) {
      for (const uint32_t divisor : {1u, 2u, 3u, 7u, 8u, 10u, 1000u, 1u << 24}) {
        auto elements = Specials(type);
        for (int i = 0; i < 1000; ++i) {
          elements.push_back(rng() & MaskOf(type));
        }
        auto data = ToBytes(type, elements, 1);
        ScaleToAverage(type, std::span(data).subspan(1), divisor);
        const auto got = FromBytes(type, data.data() + 1, elements.size());
        for (size_t i = 0; i < got.size(); ++i) {
          const uint64_t want = ReferenceAverage(type, elements[i], divisor);
          ASSERT_TRUE(Same(type, got[i], want))
              << Name(ReduceOp::kSum, type) << " seed " << seed << std::hex << ": " << elements[i] << " / "
              << divisor << " gave " << got[i];
        }
      }
    }
  });
}

// Every number of 8 and 16 bits, and of 32 bits those about multiples of the divisor, where a quotient that
// is a little too small or too large is another one.
TEST(ReduceTest, AveragesOfIntegersAreExact) {
  // The nearest numbers to 1/41 in FP32 and to 1/49 and 1/98 in FP64, times these, are less than 1.
  std::vector<uint32_t> divisors = {
      41, 49, 98, 255, 256, 257, 32767, 32769, 65535, 65536, 65537, (1u << 24) - 1, 1u << 24};
  for (uint32_t d = 1; d <= 24; ++d) divisors.push_back(d);
  for (const DataType type : ReducedTypes()) {
    const uint64_t mask = MaskOf(type);
    if (IsFloatType(type) || mask > UINT32_MAX) continue;
    for (const uint32_t divisor : divisors) {
      std::vector<uint64_t> elements, averages;
      for (uint64_t v = 0; mask <= UINT16_MAX && v <= mask; ++v) elements.push_back(v);
      const uint64_t quotients = mask / divisor + 1;
      for (uint64_t i = 0; mask > UINT16_MAX && i <= 500; ++i) {
        for (const uint64_t q : {i, quotients - i, quotients / 2 - i, quotients / 2 + i, quotients / 3 + i}) {
          for (const uint64_t at : {q * divisor - 1, q * divisor, q * divisor + 1}) {
            elements.push_back(at & mask);
            elements.push_back((0 - at) & mask);
          }
        }
      }
      for (const uint64_t element : elements) averages.push_back(ReferenceAverage(type, element, divisor));
      const auto given = ToBytes(type, elements);
      const auto expected = ToBytes(type, averages);
      ForEachTarget([&] {
        auto data = given;
        ScaleToAverage(type, data, divisor);
        if (data == expected) return;  // millions of them: only a mistake is looked for one by one
        const auto got = FromBytes(type, data.data(), elements.size());
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(got[i], averages[i])
              << NameOf(type) << std::hex << ": " << elements[i] << " / " << divisor;
        }
      });
    }
  }
}

TEST(ReduceTest, AveragesWriteNothingBehindTheirElements) {
  ForEachTarget([] {
    constexpr uint8_t kGuard = 0xa5;
    for (const DataType type : ReducedTypes()) {
      for (size_t count = 0; count < 71; ++count) {
        auto data = ToBytes(type, std::vector<uint64_t>(count, 7), 1);
        data[0] = kGuard;
        data.push_back(kGuard);
        const size_t bytes = count * ElementBytes(type);
        ScaleToAverage(type, std::span(data).subspan(1, bytes), 3);
        EXPECT_TRUE(data.front() == kGuard && data.back() == kGuard) << NameOf(type) << " " << count;
        for (const uint64_t element : FromBytes(type, data.data() + 1, count))
          EXPECT_TRUE(Same(type, element, ReferenceAverage(type, 7, 3))) << NameOf(type) << " " << count;
      }
    }
  });
}

TEST(ReduceTest, MergesEveryBitOfEveryLength) {
  for (size_t bytes = 0; bytes < 40; ++bytes) {
    std::vector<uint8_t> acc(bytes), in(bytes), want(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      acc[i] = static_cast<uint8_t>(i * 37);
      in[i] = static_cast<uint8_t>(i * 101 + 5);
      want[i] = acc[i] | in[i];
    }
    Merge(acc, in);
    EXPECT_EQ(acc, want);
  }
}

TEST(ReduceTest, AccumulatesSixteenBitTypesInFourBytes) {
  for (const DataType type : ReducedTypes()) {
    const bool widened = type == DataType::kFloat16 || type == DataType::kBFloat16;
    for (const ReduceOp op : OpsOf(type))
      EXPECT_EQ(AccumulatorBytes(op, type, 1024), widened ? 2048u : 1024u) << Name(op, type);
  }
  EXPECT_EQ(AccumulatorBytes(ReduceOp::kNone, DataType::kFloat16, 1024), 1024u);
  EXPECT_EQ(AccumulatorBytes(ReduceOp::kNone, DataType::kByte, 1024), 1024u);
}

TEST(ReduceDeathTest, RefusesWhatDoesNotFit) {
  std::vector<uint8_t> acc(16);
  std::vector<uint8_t> in(16);
  EXPECT_DEATH(Accumulate(ReduceOp::kSum, DataType::kFloat16, acc, in), "AccumulatorBytes");
  EXPECT_DEATH(Accumulate(ReduceOp::kSum, DataType::kByte, acc, in), "CanReduce");
  EXPECT_DEATH(Accumulate(ReduceOp::kBitAnd, DataType::kFloat32, acc, in), "CanReduce");
  EXPECT_DEATH(Load(ReduceOp::kMin, DataType::kFloat32, std::span(acc).first(6), std::span(in).first(6)),
               "ElementBytes");
  EXPECT_DEATH(ScaleToAverage(DataType::kFloat32, acc, 0), "divisor");
}

}  // namespace
}  // namespace epic
