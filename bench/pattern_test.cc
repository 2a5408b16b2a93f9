#include "bench/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <type_traits>
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

// Where integers wrap without the language's minding.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;

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
        if (op == RedOp::kSum) result[i] = static_cast<T>(Wide<T>(result[i]) + Wide<T>(input[i]));
        if (op == RedOp::kProduct) result[i] = static_cast<T>(Wide<T>(result[i]) * Wide<T>(input[i]));
        if constexpr (std::is_integral_v<T>) {
          if (op == RedOp::kBitAnd) result[i] = static_cast<T>(result[i] & input[i]);
          if (op == RedOp::kBitOr) result[i] = static_cast<T>(result[i] | input[i]);
          if (op == RedOp::kBitXor) result[i] = static_cast<T>(result[i] ^ input[i]);
          if (op == RedOp::kLogicalAnd) result[i] = result[i] && input[i];
          if (op == RedOp::kLogicalOr) result[i] = result[i] || input[i];
        }
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
      EXPECT_EQ(CountWrong(inputs, 0, ReducedOf(inputs, RedOp::kSum)), 0u) << ranks;
    }
  }
  const Inputs inputs{Datatype::kFloat32, 5, kRun};
  Inputs by = inputs;
  for (const RedOp op : {RedOp::kMin, RedOp::kMax}) {
    by.op = op;
    EXPECT_EQ(CountWrong(by, 0, Reduced<float>(by, op)), 0u);
  }
}

// Of a type T of C++, in which the language itself combines.
template <typename T>
void ExpectRight(Datatype type) {
  for (const RedOp op : AllOps()) {
    if (op == RedOp::kAvg || !Possible(Kind::kAllReduce, type, op)) continue;
    for (const int ranks : {2, 4, 63, 64}) {
      const Inputs inputs{type, ranks, kRun, op};
      const Bytes right = Reduced<T>(inputs, op);
      EXPECT_EQ(CountWrong(inputs, 0, right), 0u) << Name(type) << " " << Name(op) << " " << ranks;
      Bytes wrong = right;
      wrong[sizeof(T) * 7] ^= 1;
      EXPECT_EQ(CountWrong(inputs, 0, wrong), 1u) << Name(type) << " " << Name(op) << " " << ranks;
    }
  }
}

TEST(PatternTest, EveryTypeAndOperationHasItsReference) {
  ExpectRight<float>(Datatype::kFloat32);
  ExpectRight<double>(Datatype::kFloat64);
  ExpectRight<int8_t>(Datatype::kInt8);
  ExpectRight<uint8_t>(Datatype::kUint8);
  ExpectRight<int16_t>(Datatype::kInt16);
  ExpectRight<uint16_t>(Datatype::kUint16);
  ExpectRight<int32_t>(Datatype::kInt32);
  ExpectRight<uint32_t>(Datatype::kUint32);
  ExpectRight<int64_t>(Datatype::kInt64);
  ExpectRight<uint64_t>(Datatype::kUint64);
}

// A rank that is missing shows in most elements, also where an operation makes many alike.
TEST(PatternTest, AMissingRankShowsInEveryOperation) {
  for (const RedOp op : AllOps()) {
    if (op == RedOp::kAvg) continue;
    const Inputs inputs{Datatype::kInt16, 4, kRun, op};
    EXPECT_GT(CountWrong(inputs, 0, Reduced<int16_t>(inputs, op, 2)), kCount / 20) << Name(op);
  }
  const Inputs product{Datatype::kFloat16, 4, kRun, RedOp::kProduct};
  EXPECT_GT(CountWrong(product, 0, Input(product, 1)), kCount / 2);
}

TEST(PatternTest, EveryKindOfErrorShows) {
  for (const Datatype type : {Datatype::kFloat32, Datatype::kInt32}) {
    const Inputs inputs{type, 4, kRun};
    const auto wrong = [&](const Bytes& data, uint32_t run = kRun) {
      return CountWrong({type, 4, run}, 0, data);
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
    EXPECT_EQ(CountWrong(inputs, 0, ToBytes(expected)), 0u);
    EXPECT_EQ(CountWrong({f.type, 4, kRun, RedOp::kAvg}, 0, ToBytes(average)), 0u);
    expected[17] ^= 1;
    EXPECT_EQ(CountWrong(inputs, 0, ToBytes(expected)), 1u);
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

// What a group with a scale makes of the inputs, one element at a time.
TEST(PatternTest, ScaledFloatsAreSumsOfIntegers) {
  for (const float scale : {1.0f, 1e6f, 3e-4f}) {
    for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMin, RedOp::kMax}) {
      constexpr int kRanks = 5;
      constexpr size_t kSome = 100;
      const Inputs inputs{Datatype::kFloat32, kRanks, 7, op, scale};
      std::vector<int64_t> whole(kSome);
      for (int rank = 0; rank < kRanks; ++rank) {
        std::vector<float> in(kSome);
        FillInput(inputs, rank, 0, {reinterpret_cast<uint8_t*>(in.data()), kSome * 4});
        for (size_t i = 0; i < kSome; ++i) {
          const auto x = static_cast<int64_t>(std::nearbyint(double{in[i]} * scale));
          if (rank == 0) {
            whole[i] = x;
          } else if (op == RedOp::kMin || op == RedOp::kMax) {
            whole[i] = op == RedOp::kMin ? std::min(whole[i], x) : std::max(whole[i], x);
          } else {
            whole[i] += x;
          }
        }
      }
      std::vector<float> out(kSome);
      const double divisor = double{scale} * (op == RedOp::kAvg ? kRanks : 1);
      for (size_t i = 0; i < kSome; ++i) out[i] = static_cast<float>(static_cast<double>(whole[i]) / divisor);
      const std::span<uint8_t> data(reinterpret_cast<uint8_t*>(out.data()), kSome * 4);
      EXPECT_EQ(CountWrong(inputs, 0, data), 0u) << scale;
      out[3] += 2 / scale;
      EXPECT_EQ(CountWrong(inputs, 0, data), 1u) << scale;
    }
  }
}

TEST(PatternTest, BytesThatWereTouchedAreCounted) {
  const std::vector<uint8_t> data = {0xee, 0xed, 0xee, 0x00, 0xee};
  EXPECT_EQ(CountTouched(data, 0xee), 2u);
  EXPECT_EQ(CountTouched({}, 0xee), 0u);
}

TEST(CollectiveTest, NamesAreReadBack) {
  for (const Kind kind : AllKinds()) EXPECT_EQ(ParseKind(Name(kind)), kind);
  for (const Datatype type : AllTypes()) EXPECT_EQ(ParseType(Name(type)), type);
  for (const RedOp op : AllOps()) EXPECT_EQ(ParseOp(Name(op)), op);
  EXPECT_EQ(AllTypes().size(), kCallerTypes.size());
  EXPECT_EQ(AllOps().size(), kReduceOps.size()) << "the average in place of the saturating sum";
  EXPECT_EQ(ParseKind("alltoall"), std::nullopt);
}

}  // namespace
}  // namespace epic::perf
