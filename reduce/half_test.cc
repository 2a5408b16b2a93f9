// FP16 and BF16 have few enough values to try them all.
#include <numeric>
#include <span>

#include "reduce/reduce.h"
#include "reduce/reduce_testing.h"

namespace epic {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr size_t kValues = 65536;

class HalfTest : public testing::TestWithParam<DataType> {
 protected:
  HalfTest() : all_(kValues) { std::iota(all_.begin(), all_.end(), 0); }

  // The first of kValues elements in which two buffers differ, or kValues.
  size_t FirstDifference(const uint8_t* a, const uint8_t* b) const {
    for (size_t i = 0; i < kValues; ++i) {
      uint16_t x;
      uint16_t y;
      std::memcpy(&x, a + 2 * i, 2);
      std::memcpy(&y, b + 2 * i, 2);
      if (x != y && !Same(type_, x, y)) return i;
    }
    return kValues;
  }

  const DataType type_ = GetParam();
  const Format& format_ = FormatOf(type_);
  std::vector<uint64_t> all_;
};

TEST_P(HalfTest, EveryValueIsLoadedExactlyAndStoredAgain) {
  const auto in = ToBytes(type_, all_);
  ForEachTarget([&] {
    std::vector<uint8_t> acc(4 * kValues);
    Load(ReduceOp::kSum, type_, acc, in);
    const auto loaded = FromBytes(DataType::kFloat32, acc.data(), kValues);
    for (size_t i = 0; i < kValues; ++i) {
      ASSERT_TRUE(Same(DataType::kFloat32, loaded[i], kFp32.Encode(format_.Decode(all_[i]))))
          << std::hex << i;
    }
    std::vector<uint8_t> out(2 * kValues);
    Store(ReduceOp::kSum, type_, acc, out);
    const auto stored = FromBytes(type_, out.data(), kValues);
    for (size_t i = 0; i < kValues; ++i) ASSERT_TRUE(Same(type_, stored[i], all_[i])) << std::hex << i;
  });
}

// Half way between each value and the next, and the FP32 numbers before and behind.
TEST_P(HalfTest, RoundsToNearestTiesToEven) {
  std::vector<uint64_t> elements;
  for (uint64_t h = 0; h < format_.Infinity(); ++h) {
    const uint64_t next = h + 1;
    const double above =
        next == format_.Infinity() ? std::ldexp(1, format_.Bias() + 1) : format_.Decode(next);
    const uint64_t tie = kFp32.Encode((format_.Decode(h) + above) / 2);
    for (const uint64_t bits : {tie - 1, tie, tie + 1}) {
      elements.push_back(bits);
      elements.push_back(bits | 0x80000000);
    }
  }
  for (const uint64_t bits : Specials(DataType::kFloat32)) elements.push_back(bits);
  std::vector<uint64_t> want(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) want[i] = format_.Encode(kFp32.Decode(elements[i]));
  const auto acc = ToBytes(DataType::kFloat32, elements);
  ForEachTarget([&] {
    std::vector<uint8_t> out(2 * elements.size());
    Store(ReduceOp::kSum, type_, acc, out);
    const auto got = FromBytes(type_, out.data(), elements.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(Same(type_, got[i], want[i]))
          << std::hex << elements[i] << " gave " << got[i] << ", not " << want[i];
    }
  });
}

// Plain arrays and no assertion per element: with sanitizers, sixty million of those take a minute.
TEST_P(HalfTest, ReducesEveryValueWithEverySpecial) {
  const auto all = ToBytes(type_, all_);
  std::vector<uint64_t> want_elements(kValues);
  std::vector<uint8_t> acc(4 * kValues);
  std::vector<uint8_t> out(2 * kValues);
  for (const uint64_t special : Specials(type_)) {
    const auto repeated = ToBytes(type_, std::vector<uint64_t>(kValues, special));
    for (const ReduceOp op : kOps) {
      for (size_t i = 0; i < kValues; ++i) {
        const uint64_t row[] = {all_[i], special};
        want_elements[i] = ReferenceReduce(op, type_, row);
      }
      const auto want = ToBytes(type_, want_elements);
      for (const bool special_first : {false, true}) {
        ForEachTarget([&] {
          Load(op, type_, acc, special_first ? repeated : all);
          Accumulate(op, type_, acc, special_first ? all : repeated);
          Store(op, type_, acc, out);
          const size_t at = FirstDifference(out.data(), want.data());
          ASSERT_EQ(at, kValues) << std::hex << "value " << at << " and " << special << " op "
                                 << static_cast<int>(op) << " special first " << special_first;
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfTest, testing::Values(DataType::kFloat16, DataType::kBFloat16),
                         [](const auto& test) { return test.param == DataType::kFloat16 ? "Fp16" : "Bf16"; });

}  // namespace
}  // namespace epic
