#include "check/conform/expected.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "protocol/flow.h"
#include "protocol/number_blocks.h"
#include "reduce/blocks.h"
#include "reduce/reduce.h"

namespace epic::conform {
namespace {

bool IsFloat(DataType type) { return FindType(type)->kind == ElementKind::kFloat; }

// More digits than FP64 has, where the machine has them.
using Real = long double;

double HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const double fraction = bits & 0x3ff;
  double value;
  if (exponent == 31) {
    value = fraction != 0 ? NAN : INFINITY;
  } else {
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Element number `at` as a number.
Real ValueAt(DataType type, const PacketBytes& bytes, size_t at) {
  if (type == DataType::kFloat64) {
    double value;
    std::memcpy(&value, bytes.data() + 8 * at, 8);
    return value;
  }
  if (type == DataType::kFloat32) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * at, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes.data() + 2 * at, 2);
  return type == DataType::kFloat16 ? HalfValue(half) : std::bit_cast<float>(uint32_t{half} << 16);
}

// What rounding does to a type's numbers.
struct Precision {
  Real unit;     // half the distance from 1 to the next value
  Real least;    // half the smallest subnormal, or more
  Real largest;  // its largest value
};

Precision PrecisionOf(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return {0x1p-53, 0x1p-1074, 0x1.fffffffffffffp1023};
    case DataType::kFloat16:
      return {0x1p-11, 0x1p-25, 65504.0};
    case DataType::kBFloat16:
      return {0x1p-8, 0x1p-134, 0x1.fep127};
    default:
      return {0x1p-24, 0x1p-149, 0x1.fffffep127};
  }
}

// Whether element `at` of a sum in any order may be as seen.
bool NearSum(DataType type, const std::vector<Contribution>& all, const PacketBytes& seen, size_t at) {
  const Precision precision = PrecisionOf(type);
  Real sum = 0, absolute = 0;
  for (const Contribution& c : all) {
    sum += ValueAt(type, c.payload, at);
    absolute += std::abs(ValueAt(type, c.payload, at));
  }
  const Real value = ValueAt(type, seen, at);
  if (std::isnan(sum)) return std::isnan(value);
  // What overflows on the way depends on the order.
  if (!std::isfinite(value) || !std::isfinite(sum))
    return absolute * (1 + precision.unit) >= precision.largest;
  return std::abs(value - sum) <=
         static_cast<Real>(all.size() + 1) * precision.unit * absolute + precision.least;
}

// The same of a product. Where one on the way may leave the normal numbers that it is computed in, what
// becomes of it depends on the order, and anything may be.
bool NearProduct(DataType type, const std::vector<Contribution>& all, const PacketBytes& seen, size_t at) {
  const Precision precision = PrecisionOf(type);
  const bool wide = type == DataType::kFloat64;
  const Real on_the_way = wide ? precision.largest : PrecisionOf(DataType::kFloat32).largest;
  Real product = 1, above = 1, below = 1;
  for (const Contribution& c : all) {
    const Real factor = ValueAt(type, c.payload, at);
    product *= factor;
    if (std::isfinite(factor) && factor != 0) (std::abs(factor) > 1 ? above : below) *= std::abs(factor);
  }
  const Real value = ValueAt(type, seen, at);
  if (above >= on_the_way || below < 4 / on_the_way) return true;
  if (!std::isfinite(product)) return std::isnan(product) ? std::isnan(value) : value == product;
  const Real off = static_cast<Real>(all.size() + 1) * precision.unit * std::abs(product) + precision.least;
  if (!std::isfinite(value)) return !std::isnan(value) && std::abs(product) + off >= precision.largest;
  return std::abs(value - product) <= off;
}

// The same of a saturating sum: which partial sums come to a limit, and to which, depends on the order, but
// one that has come to none is exact.
bool NearSaturatingSum(const std::vector<Contribution>& all, const PacketBytes& seen, size_t at) {
  const auto value_at = [at](const PacketBytes& bytes) {
    int32_t value;
    std::memcpy(&value, bytes.data() + 4 * at, 4);
    return int64_t{value};
  };
  int64_t above = 0, below = 0;
  bool stays = false;  // at a limit, in any order
  for (const Contribution& c : all) {
    const int64_t value = value_at(c.payload);
    (value > 0 ? above : below) += value;
    stays |= value == INT32_MAX || value == INT32_MIN;
  }
  const int64_t value = value_at(seen);
  if (value == INT32_MAX) return above >= INT32_MAX;
  if (value == INT32_MIN) return below <= INT32_MIN;
  return !stays && value == above + below;
}

// The same of a block of numbers: each of them is no further off than half the scale and sums of FP32 may be,
// and the scale no larger than the largest of them needs.
bool NearBlock(const std::vector<Contribution>& all, const PacketBytes& seen, size_t at) {
  const Precision precision = PrecisionOf(DataType::kFloat32);
  const auto number = [at](const PacketBytes& bytes, size_t i) {
    const uint8_t* const block = bytes.data() + at * kBlockBytes;
    return static_cast<int8_t>(block[kBlockBytes - kBlockElements + i]) * Real{BlockScale(block)};
  };
  const Real scale = BlockScale(seen.data() + at * kBlockBytes);
  Real largest = 0;
  bool is_nan = false, may_overflow = false, fits = true;
  for (size_t i = 0; i < kBlockElements; ++i) {
    Real sum = 0, absolute = 0;
    for (const Contribution& c : all) {
      sum += number(c.payload, i);
      absolute += std::abs(number(c.payload, i));
    }
    const Real off = static_cast<Real>(all.size() + 1) * precision.unit * absolute + precision.least;
    is_nan |= !std::isfinite(sum);
    may_overflow |= absolute * (1 + precision.unit) >= precision.largest;
    largest = std::max(largest, std::abs(sum) + off);
    fits &= std::abs(number(seen, i) - sum) <= scale / 2 + off;
  }
  if (is_nan || std::isnan(scale)) return std::isnan(scale) && (is_nan || may_overflow);
  // Rounded up to eight significant bits, and never below the least.
  return fits && scale <= std::max<Real>(largest / 127 * (1 + 0x1p-7), 0x1p-133);
}

// Whether element `at` of a reduction whose result depends on the order may be as seen.
bool NearResult(const ControlHeader& header, const std::vector<Contribution>& all, const PacketBytes& seen,
                size_t at) {
  if (header.op == ReduceOp::kSaturatingSum) return NearSaturatingSum(all, seen, at);
  if (IsInBlocks(header)) return NearBlock(all, seen, at);
  if (!IsFloat(header.type)) return false;
  if (header.op == ReduceOp::kSum) return NearSum(header.type, all, seen, at);
  return header.op == ReduceOp::kProduct && NearProduct(header.type, all, seen, at);
}

PacketBytes Reduced(const ControlHeader& header, const std::vector<Contribution>& all) {
  PacketBytes sum(AccumulatorBytes(header.op, header.type, all[0].payload.size()));
  Load(header.op, header.type, sum, all[0].payload);
  for (size_t c = 1; c < all.size(); ++c) Accumulate(header.op, header.type, sum, all[c].payload);
  PacketBytes out(all[0].payload.size());
  Store(header.op, header.type, sum, out);
  return out;
}

}  // namespace

bool CanServe(const ControlHeader& header, const engine::GroupConfig& group) {
  if (WrongField(header, group.world_size, MessageBytes(group)) != ControlField::kNone) return false;
  return epic::CanServe(engine::AbilitiesOf(group), header);
}

PacketBytes MergedControl(const std::vector<Contribution>& contributions, const std::vector<uint32_t>& ranks,
                          const engine::GroupConfig& group) {
  ControlHeader merged = *HeaderOf(contributions[0].payload);
  const auto is_refused = [](const Contribution& c) {
    const ControlStatus status = HeaderOf(c.payload)->status;
    return IsFatal(status) && status != ControlStatus::kMismatch;
  };
  const auto refused = std::ranges::find_if(contributions, is_refused);
  if (merged.status == ControlStatus::kOk && !CanServe(merged, group)) {
    merged.status = ControlStatus::kUnsupported;
    merged.field = WrongField(merged, group.world_size, MessageBytes(group));
    merged.culprit = ranks[contributions[0].child];
  } else if (refused != contributions.begin()) {
    // By rank, whatever the order in which they came.
    std::vector<Contribution> by_rank(contributions.begin(), refused);
    std::ranges::sort(by_rank, {}, [&ranks](const Contribution& c) { return ranks[c.child]; });
    merged = *HeaderOf(by_rank[0].payload);
    for (const Contribution& c : by_rank) {
      const ControlHeader one = *HeaderOf(c.payload);
      const ControlField difference = FirstDifference(merged, one);
      const bool differs = difference != ControlField::kNone;
      const uint32_t culprit = differs ? ranks[c.child] : one.culprit;
      const bool is_lower = merged.status != ControlStatus::kMismatch || culprit < merged.culprit;
      if (!is_lower || (!differs && one.status != ControlStatus::kMismatch)) continue;
      merged.status = ControlStatus::kMismatch;
      merged.field = differs ? difference : one.field;
      merged.culprit = culprit;
    }
    if (refused != contributions.end()) {
      const ControlHeader one = *HeaderOf(refused->payload);
      merged.status = one.status;
      merged.field = one.field;
      merged.culprit = one.culprit;
    }
  }
  PacketBytes bytes(kControlBytes);
  Encode(merged, std::span<uint8_t, kControlBytes>(bytes));
  return bytes;
}

std::string WrongPayload(const ControlHeader& header, const std::vector<Contribution>& contributions,
                         const PacketBytes& seen, bool exact) {
  if (!Reduces(header.collective)) {
    Contribution only = contributions[0];
    for (size_t c = 1; c < contributions.size() && IsInlined(header); ++c) {
      for (size_t at = 0; at < only.payload.size(); ++at) only.payload[at] |= contributions[c].payload[at];
    }
    if (seen == only.payload) return "";
    return fmt::format("child {}'s bytes, {}", only.child, FirstByteOf(only.payload, seen));
  }
  const PacketBytes sum = Reduced(header, contributions);
  if (seen == sum) return "";
  const size_t size = ElementBytes(header.type);
  for (size_t at = 0; at < sum.size() / size; ++at) {
    if (std::memcmp(&sum[at * size], &seen[at * size], size) == 0) continue;
    bool fits = !exact && NearResult(header, contributions, seen, at);
    if (IsFloat(header.type)) {
      const bool nan = std::isnan(ValueAt(header.type, sum, at));
      fits |= nan && std::isnan(ValueAt(header.type, seen, at));  // which NaN is not specified
    }
    if (fits) continue;
    const auto element = [&](const PacketBytes& bytes) {
      return Digits({bytes.begin() + static_cast<int64_t>(at * size),
                     bytes.begin() + static_cast<int64_t>((at + 1) * size)});
    };
    return fmt::format("{} contributions reduced: element {} is {}, not {}", contributions.size(), at,
                       element(sum), element(seen));
  }
  return "";
}

std::string FirstByteOf(const PacketBytes& expected, const PacketBytes& seen) {
  size_t at = 0;
  while (at < expected.size() && at < seen.size() && expected[at] == seen[at]) ++at;
  if (at == expected.size()) return fmt::format("{} bytes", at);
  return fmt::format("byte {} as {:02x}", at, expected[at]);
}

std::string Digits(const PacketBytes& bytes) {
  constexpr size_t kShown = 16;
  std::string text;
  for (size_t i = 0; i < std::min(bytes.size(), kShown); ++i) text += fmt::format("{:02x}", bytes[i]);
  return bytes.size() > kShown ? fmt::format("{}... ({} bytes)", text, bytes.size()) : text;
}

}  // namespace epic::conform
