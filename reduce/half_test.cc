// FP16 and BF16 have few enough values to try them all.
#include <numeric>
#include <span>

#include "reduce/reduce.h"
#include "reduce/reduce_testing.h"

namespace epic {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
constexpr size_t kValues = 65536;

class HalfTest : public testing::TestWithParam<DataType> {
 protected:
  HalfTest() : all_(kValues) { std::iota(all_.begin(), all_.end(), 0); }

  const DataType type_ = GetParam();
  const Format& format_ = FormatOf(type_);
  std::vector<uint32_t> all_;
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
  std::vector<uint32_t> elements;
  for (uint32_t h = 0; h < format_.Infinity(); ++h) {
    const uint32_t next = h + 1;
    const double above =
        next == format_.Infinity() ? std::ldexp(1, format_.Bias() + 1) : format_.Decode(next);
    const uint32_t tie = kFp32.Encode((format_.Decode(h) + above) / 2);
    for (const uint32_t bits : {tie - 1, tie, tie + 1}) {
      elements.push_back(bits);
      elements.push_back(bits | 0x80000000);
    }
  }
  for (const uint32_t bits : Specials(DataType::kFloat32)) elements.push_back(bits);
  std::vector<uint32_t> want(elements.size());
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

TEST_P(HalfTest, ReducesEveryValueWithEverySpecial) {
  const auto all = ToBytes(type_, all_);
  for (const uint32_t special : Specials(type_)) {
    const auto repeated = ToBytes(type_, std::vector<uint32_t>(kValues, special));
    for (const ReduceOp op : kOps) {
      std::vector<uint32_t> want(kValues);
      for (size_t i = 0; i < kValues; ++i) want[i] = ReferenceReduce(op, type_, {all_[i], special});
      for (const bool special_first : {false, true}) {
        ForEachTarget([&] {
          std::vector<uint8_t> acc(4 * kValues);
          std::vector<uint8_t> out(2 * kValues);
          Load(op, type_, acc, special_first ? repeated : all);
          Accumulate(op, type_, acc, special_first ? all : repeated);
          Store(op, type_, acc, out);
          const auto got = FromBytes(type_, out.data(), kValues);
          for (size_t i = 0; i < kValues; ++i) {
            ASSERT_TRUE(Same(type_, got[i], want[i]))
                << std::hex << i << " and " << special << " op " << static_cast<int>(op) << " gave " << got[i]
                << ", not " << want[i];
          }
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfTest, testing::Values(DataType::kFloat16, DataType::kBFloat16),
                         [](const auto& test) { return test.param == DataType::kFloat16 ? "Fp16" : "Bf16"; });

}  // namespace
}  // namespace epic
