#include "reduce/reduce.h"

#include <random>
#include <span>
#include <string>

#include "reduce/reduce_testing.h"

namespace epic {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kInt32, DataType::kFloat16, DataType::kBFloat16};

std::string Name(ReduceOp op, DataType type) {
  return "op " + std::to_string(static_cast<int>(op)) + " type " + std::to_string(static_cast<int>(type));
}

// Reduces columns[0][i], columns[1][i], ... for every i, with accumulator and operands at odd addresses, and
// checks that nothing is written behind the accumulator or the result.
std::vector<uint32_t> Reduce(ReduceOp op, DataType type, const std::vector<std::vector<uint32_t>>& columns,
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

void ExpectReduced(ReduceOp op, DataType type, const std::vector<std::vector<uint32_t>>& columns,
                   const std::vector<uint32_t>& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    std::vector<uint32_t> row;
    row.reserve(columns.size());
    for (const auto& column : columns) row.push_back(column[i]);
    const uint32_t want = ReferenceReduce(op, type, row);
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
      std::mt19937 rng(seed);
      const size_t count = seed % 71;
      for (const DataType type : kTypes) {
        for (const ReduceOp op : kOps) {
          std::vector<std::vector<uint32_t>> columns(3, std::vector<uint32_t>(count));
          const uint32_t mask = ElementBytes(type) == 2 ? 0xffff : 0xffffffff;
          for (auto& column : columns) {
            for (uint32_t& element : column) element = static_cast<uint32_t>(rng()) & mask;
          }
          SCOPED_TRACE("seed " + std::to_string(seed));
          ExpectReduced(op, type, columns, Reduce(op, type, columns, seed / 71));
        }
      }
    }
  });
}

TEST(ReduceTest, ReducesAllPairsOfSpecials) {
  ForEachTarget([] {
    for (const DataType type : kTypes) {
      std::vector<std::vector<uint32_t>> columns(2);
      for (const uint32_t a : Specials(type)) {
        for (const uint32_t b : Specials(type)) {
          columns[0].push_back(a);
          columns[1].push_back(b);
        }
      }
      for (const ReduceOp op : kOps) ExpectReduced(op, type, columns, Reduce(op, type, columns));
    }
  });
}

TEST(ReduceTest, IntegersWrap) {
  ForEachTarget([] {
    auto acc = ToBytes(DataType::kInt32, {0x7fffffff, 0x80000000, 0xffffffff});
    const auto in = ToBytes(DataType::kInt32, {1, 0xffffffff, 1});
    Accumulate(ReduceOp::kSum, DataType::kInt32, acc, in);
    EXPECT_EQ(acc, ToBytes(DataType::kInt32, {0x80000000, 0x7fffffff, 0}));
  });
}

// In BF16's own width 256 + 1 is 256, however often 1 is added.
TEST(ReduceTest, SixteenBitTypesAreRoundedOnce) {
  ForEachTarget([] {
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
      const Format& format = FormatOf(type);
      const double big = std::ldexp(1, format.mantissa_bits + 1);
      std::vector<std::vector<uint32_t>> columns(1, {format.Encode(big)});
      for (int i = 0; i < 8; ++i) columns.push_back({format.Encode(1)});
      EXPECT_EQ(format.Decode(Reduce(ReduceOp::kSum, type, columns)[0]), big + 8);
    }
  });
}

TEST(ReduceTest, StoresInPlace) {
  ForEachTarget([] {
    for (const DataType type : kTypes) {
      for (size_t count = 0; count < 70; ++count) {
        std::vector<uint32_t> elements(count);
        for (size_t i = 0; i < count; ++i) elements[i] = 0x3c00 + static_cast<uint32_t>(i);
        const auto in = ToBytes(type, elements);
        std::vector<uint8_t> acc(AccumulatorBytes(ReduceOp::kMax, type, in.size()));
        Load(ReduceOp::kMax, type, acc, in);
        Store(ReduceOp::kMax, type, acc, std::span(acc).first(in.size()));
        EXPECT_EQ(FromBytes(type, acc.data(), count), elements) << Name(ReduceOp::kMax, type) << " " << count;
      }
    }
  });
}

uint32_t ReferenceAverage(DataType type, uint32_t element, uint32_t divisor) {
  if (type == DataType::kInt32) {
    return static_cast<uint32_t>(static_cast<int64_t>(static_cast<int32_t>(element)) / int64_t{divisor});
  }
  const Format& format = FormatOf(type);
  return format.Encode(static_cast<float>(format.Decode(element)) / static_cast<float>(divisor));
}

TEST(ReduceTest, Averages) {
  const uint32_t seed = 11;
  ForEachTarget([&] {
    std::mt19937 rng(seed);
    for (const DataType type : kTypes) {
      for (const uint32_t divisor : {1u, 2u, 3u, 7u, 8u, 10u, 1000u, 1u << 24}) {
        auto elements = Specials(type);
        for (int i = 0; i < 1000; ++i) {
          elements.push_back(static_cast<uint32_t>(rng()) & (ElementBytes(type) == 2 ? 0xffff : 0xffffffff));
        }
        auto data = ToBytes(type, elements, 1);
        ScaleToAverage(type, std::span(data).subspan(1), divisor);
        const auto got = FromBytes(type, data.data() + 1, elements.size());
        for (size_t i = 0; i < got.size(); ++i) {
          const uint32_t want = ReferenceAverage(type, elements[i], divisor);
          ASSERT_TRUE(Same(type, got[i], want))
              << Name(ReduceOp::kSum, type) << " seed " << seed << std::hex << ": " << elements[i] << " / "
              << divisor << " gave " << got[i];
        }
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

TEST(ReduceTest, KnowsWhatItCanDo) {
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) EXPECT_TRUE(CanReduce(op, type)) << Name(op, type);
    EXPECT_FALSE(CanReduce(ReduceOp::kNone, type));
    EXPECT_FALSE(CanReduce(static_cast<ReduceOp>(4), type));
  }
  for (const DataType type : {DataType::kNone, DataType::kByte, static_cast<DataType>(6)}) {
    for (const ReduceOp op : kOps) EXPECT_FALSE(CanReduce(op, type)) << Name(op, type);
  }
}

TEST(ReduceTest, AccumulatesSixteenBitTypesInFourBytes) {
  for (const ReduceOp op : kOps) {
    EXPECT_EQ(AccumulatorBytes(op, DataType::kFloat16, 1024), 2048u);
    EXPECT_EQ(AccumulatorBytes(op, DataType::kBFloat16, 1024), 2048u);
    EXPECT_EQ(AccumulatorBytes(op, DataType::kFloat32, 1024), 1024u);
    EXPECT_EQ(AccumulatorBytes(op, DataType::kInt32, 1024), 1024u);
  }
  EXPECT_EQ(AccumulatorBytes(ReduceOp::kNone, DataType::kFloat16, 1024), 1024u);
  EXPECT_EQ(AccumulatorBytes(ReduceOp::kNone, DataType::kByte, 1024), 1024u);
}

TEST(ReduceDeathTest, RefusesWhatDoesNotFit) {
  std::vector<uint8_t> acc(16);
  std::vector<uint8_t> in(16);
  EXPECT_DEATH(Accumulate(ReduceOp::kSum, DataType::kFloat16, acc, in), "AccumulatorBytes");
  EXPECT_DEATH(Accumulate(ReduceOp::kSum, DataType::kByte, acc, in), "CanReduce");
  EXPECT_DEATH(Load(ReduceOp::kMin, DataType::kFloat32, std::span(acc).first(6), std::span(in).first(6)),
               "ElementBytes");
  EXPECT_DEATH(ScaleToAverage(DataType::kFloat32, acc, 0), "divisor");
}

}  // namespace
}  // namespace epic
