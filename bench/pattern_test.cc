#include "bench/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "bench/collective.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace epic::perf {
namespace {

constexpr uint32_t kRun = 7;
constexpr size_t kCount = 1000;

using Bytes = std::vector<uint8_t>;

Bytes Input(const Inputs& inputs, int rank) {
  Bytes data(kCount * ElementBytes(inputs.type));
  FillInput(inputs, rank, 0, data);
  return data;
}

template <typename T>
std::vector<T> As(const Bytes& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

template <typename T>
Bytes ToBytes(const std::vector<T>& data) {
  Bytes out(data.size() * sizeof(T));
  std::memcpy(out.data(), data.data(), out.size());
  return out;
}

// Reduces in reverse order of ranks, in the type itself: exactness must not depend on the order.
template <typename T>
Bytes Reduced(const Inputs& inputs, RedOp op, int missing = -1, int doubled = -1) {
  std::vector<T> result;
  for (int rank = inputs.ranks - 1; rank >= 0; --rank) {
    const std::vector<T> input = As<T>(Input(inputs, rank));
    for (int times = rank == missing ? 0 : rank == doubled ? 2 : 1; times > 0; --times) {
      if (result.empty()) {
        result = input;
        continue;
      }
      for (size_t i = 0; i < result.size(); ++i) {
        if (op == RedOp::kMin) result[i] = std::min(result[i], input[i]);
        if (op == RedOp::kMax) result[i] = std::max(result[i], input[i]);
        if (op == RedOp::kSum) result[i] += input[i];
      }
    }
  }
  return ToBytes(result);
}

Bytes ReducedOf(const Inputs& inputs, RedOp op, int missing = -1, int doubled = -1) {
  return inputs.type == Datatype::kFloat32 ? Reduced<float>(inputs, op, missing, doubled)
                                           : Reduced<uint32_t>(inputs, op, missing, doubled);
}

TEST(PatternTest, RightSumsAreRight) {
  for (const Datatype type : {Datatype::kFloat32, Datatype::kInt32}) {
    for (const int ranks : {2, 3, 4, 63, 64}) {
      const Inputs inputs{type, ranks, kRun};
      EXPECT_EQ(CountWrong(inputs, RedOp::kSum, 0, ReducedOf(inputs, RedOp::kSum)), 0u) << ranks;
    }
  }
  const Inputs inputs{Datatype::kFloat32, 5, kRun};
  EXPECT_EQ(CountWrong(inputs, RedOp::kMin, 0, Reduced<float>(inputs, RedOp::kMin)), 0u);
  EXPECT_EQ(CountWrong(inputs, RedOp::kMax, 0, Reduced<float>(inputs, RedOp::kMax)), 0u);
}

TEST(PatternTest, EveryKindOfErrorShows) {
  for (const Datatype type : {Datatype::kFloat32, Datatype::kInt32}) {
    const Inputs inputs{type, 4, kRun};
    const auto wrong = [&](const Bytes& data, uint32_t run = kRun) {
      return CountWrong({type, 4, run}, RedOp::kSum, 0, data);
    };
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_GT(wrong(ReducedOf(inputs, RedOp::kSum, rank)), kCount - 10) << "missing";
      EXPECT_GT(wrong(ReducedOf(inputs, RedOp::kSum, -1, rank)), kCount - 10) << "doubled";
    }
    EXPECT_GT(wrong(ReducedOf(inputs, RedOp::kSum, 0, 1)), kCount - 10) << "one missing, another doubled";
    auto shifted = ReducedOf(inputs, RedOp::kSum);
    std::rotate(shifted.begin(), shifted.begin() + 256, shifted.end());
    EXPECT_GT(wrong(shifted), kCount - 10) << "misplaced";
    EXPECT_GT(wrong(ReducedOf(inputs, RedOp::kSum), kRun + 1), kCount - 10) << "left by an earlier run";
    auto one = ReducedOf(inputs, RedOp::kSum);
    one[2000] ^= 1;
    EXPECT_EQ(wrong(one), 1u);
  }
}

// 16-bit elements are checked by their values: the bits of small integers are written down here.
TEST(PatternTest, SixteenBitElementsAreIntegersInTheirFormat) {
  struct Format {
    Datatype type;
    int exponent_bits, mantissa_bits;
  };
  for (const Format& f : {Format{Datatype::kFloat16, 5, 10}, Format{Datatype::kBFloat16, 8, 7}}) {
    const auto value = [&](uint16_t bits) {
      const int exponent = bits >> f.mantissa_bits & ((1 << f.exponent_bits) - 1);
      const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
      if (exponent == 0) return mantissa == 0 ? 0.0 : -1e9;
      const double magnitude = std::ldexp(1.0 + std::ldexp(mantissa, -f.mantissa_bits),
                                          exponent - ((1 << (f.exponent_bits - 1)) - 1));
      return bits >> 15 ? -magnitude : magnitude;
    };
    const Inputs inputs{f.type, 4, kRun};
    std::vector<double> sums(kCount);
    for (int rank = 0; rank < 4; ++rank) {
      const auto input = As<uint16_t>(Input(inputs, rank));
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(value(input[i]), std::round(value(input[i]))) << "an integer";
        ASSERT_LE(std::abs(value(input[i])), 256);
        sums[i] += value(input[i]);
      }
    }
    // Looks the bits of the sum up instead of computing them.
    std::map<double, uint16_t> bits_of;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      if (bits != 0x8000) bits_of[value(static_cast<uint16_t>(bits))] = static_cast<uint16_t>(bits);
    }
    std::vector<uint16_t> expected, average;
    for (const double sum : sums) {
      expected.push_back(bits_of.at(sum));
      average.push_back(bits_of.at(sum / 4));
    }
    EXPECT_EQ(CountWrong(inputs, RedOp::kSum, 0, ToBytes(expected)), 0u);
    EXPECT_EQ(CountWrong(inputs, RedOp::kAvg, 0, ToBytes(average)), 0u);
    expected[17] ^= 1;
    EXPECT_EQ(CountWrong(inputs, RedOp::kSum, 0, ToBytes(expected)), 1u);
  }
}

TEST(CollectiveTest, SharesLieWhereTheyBelong) {
  const int ranks = 3;
  for (int rank = 0; rank < ranks; ++rank) {
    Job job{.kind = Kind::kAllGather, .type = Datatype::kByte, .count = 100, .rank = rank, .ranks = ranks};
    Bytes gathered;
    for (int r = 0; r < ranks; ++r) {
      job.rank = r;
      Bytes share(job.send_bytes());
      Fill(job, kRun, share.data());
      gathered.insert(gathered.end(), share.begin(), share.end());
    }
    EXPECT_EQ(gathered.size(), job.recv_bytes());
    EXPECT_EQ(Wrong(job, kRun, gathered.data()), 0u);
    std::rotate(gathered.begin(), gathered.begin() + 100, gathered.end());
    EXPECT_GT(Wrong(job, kRun, gathered.data()), 280u);

    const Inputs inputs{Datatype::kInt32, ranks, kRun};
    job = {.kind = Kind::kReduceScatter, .type = Datatype::kInt32, .count = 10, .rank = rank, .ranks = ranks};
    const Bytes sum = Reduced<uint32_t>(inputs, RedOp::kSum);
    EXPECT_EQ(Wrong(job, kRun, &sum[static_cast<size_t>(rank) * 40]), 0u);
    EXPECT_EQ(Wrong(job, kRun, &sum[static_cast<size_t>(rank + 1) * 40]), 10u);
  }
}

TEST(CollectiveTest, NamesAreReadBack) {
  for (const Kind kind : AllKinds()) EXPECT_EQ(ParseKind(Name(kind)), kind);
  for (const Datatype type : AllTypes()) EXPECT_EQ(ParseType(Name(type)), type);
  for (const RedOp op : AllOps()) EXPECT_EQ(ParseOp(Name(op)), op);
  EXPECT_EQ(ParseKind("alltoall"), std::nullopt);
}

}  // namespace
}  // namespace epic::perf
