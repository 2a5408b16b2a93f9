#include "reduce/accuracy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <span>
#include <utility>

#include "base/check.h"
#include "reduce/blocks.h"

namespace epic {
namespace {

using Numbers = std::vector<float>;

// Of a number above 0. The C library's need not have the same last bit on every machine; this one has only
// operations that IEEE 754 rounds.
double Log(double x) {
  int exponent = 0;
  const double significand = std::frexp(x, &exponent);
  // 2 artanh z, with z from -1/3 to 0.
  const double z = (significand - 1) / (significand + 1);
  double sum = 0, power = z;
  for (int n = 1; n < 36; n += 2) {
    sum += power / n;
    power *= z * z;
  }
  return 2 * sum + exponent * std::numbers::ln2;
}

// Random numbers by arithmetic that is the same everywhere, as the distributions of <random> are not.
class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}

  // From 0 on, below 1.
  double Uniform() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }

  // Marsaglia's polar method.
  double Gaussian() {
    double u, v, square;
    do {
      u = 2 * Uniform() - 1;
      v = 2 * Uniform() - 1;
      square = u * u + v * v;
    } while (square >= 1 || square == 0);
    return u * std::sqrt(-2 * Log(square) / square);
  }

  double Laplace() {
    const double magnitude = -Log(1 - Uniform());
    return Uniform() < 0.5 ? -magnitude : magnitude;
  }

  double Student3() {
    double squares = 0;
    for (int i = 0; i < 3; ++i) {
      const double g = Gaussian();
      squares += g * g;
    }
    return Gaussian() / std::sqrt(squares / 3);
  }

 private:
  std::mt19937_64 rng_;
};

double DrawOne(Distribution distribution, size_t element, Draw& draw) {
  switch (distribution) {
    case Distribution::kGaussian:
      return draw.Gaussian();
    case Distribution::kLaplace:
      return draw.Laplace();
    case Distribution::kStudent3:
      return draw.Student3();
    case Distribution::kOutliers:
      return draw.Gaussian() * (element % 100 == 0 ? 20 : 1);
  }
  return 0;
}

void AddTo(Numbers& sum, const Numbers& x) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

// What is measured, in the blocks of the kernels: Data is what travels.
class KernelBlocks {
 public:
  using Data = std::vector<uint8_t>;

  Data Quantise(const Numbers& x) const {
    Data blocks(BlocksOf(x.size()) * kBlockBytes);
    QuantiseBlocks(DataType::kFloat32, blocks, {reinterpret_cast<const uint8_t*>(x.data()), x.size() * 4});
    return blocks;
  }

  Numbers Dequantise(const Data& blocks, size_t elements) const {
    Numbers x(elements);
    DequantiseBlocks(DataType::kFloat32, {reinterpret_cast<uint8_t*>(x.data()), x.size() * 4}, blocks);
    return x;
  }

  // Of a switch.
  Data Sum(std::span<const Data> contributions) const {
    Data out(contributions[0].size());
    std::vector<uint8_t> acc(out.size() / kBlockBytes * kBlockAccumulatorBytes);
    LoadBlocks(acc, contributions[0]);
    for (const Data& next : contributions.subspan(1)) AccumulateBlocks(acc, next);
    StoreBlocks(acc, out);
    return out;
  }

  // Of a host.
  Data Combine(const Data& a, const Data& b) const {
    Data out(a.size());
    CombineBlocks(out, a.data(), b.data());
    return out;
  }
};

// The same with blocks of any form: Data are the numbers that blocks stand for.
class PlainBlocks {
 public:
  using Data = Numbers;

  explicit PlainBlocks(const BlockForm& form)
      : elements_(form.elements), largest_(static_cast<float>((1 << (form.bits - 1)) - 1)) {}

  Data Quantise(Numbers x) const {
    for (size_t i = 0; i < x.size(); i += elements_)
      RoundBlock(std::span(x).subspan(i, std::min(elements_, x.size() - i)));
    return x;
  }

  Numbers Dequantise(const Data& x, size_t /*elements*/) const { return x; }

  Data Sum(std::span<const Data> contributions) const {
    Numbers sum = contributions[0];
    for (const Data& next : contributions.subspan(1)) AddTo(sum, next);
    return Quantise(std::move(sum));
  }

  Data Combine(const Data& a, const Data& b) const {
    Numbers sum = a;
    AddTo(sum, b);
    return Quantise(std::move(sum));
  }

 private:
  void RoundBlock(std::span<float> block) const {
    float peak = 0;
    for (const float v : block) peak = std::max(peak, std::fabs(v));
    if (peak == 0) return;
    // Up to BF16.
    const uint32_t bits = std::bit_cast<uint32_t>(peak / largest_) + 0xffff;
    const auto scale = std::bit_cast<float>(bits & 0xffff0000);
    for (float& v : block) v = std::nearbyint(v / scale) * scale;
  }

  size_t elements_;
  float largest_;
};

class Noise {
 public:
  explicit Noise(const Operands& operands) : exact_(operands[0].size()) {
    for (const Numbers& x : operands)
      for (size_t i = 0; i < x.size(); ++i) exact_[i] += x[i];
    for (const double e : exact_) signal_ += e * e;
  }

  // SQNR of a result, in dB.
  double Of(const Numbers& result) const {
    double noise = 0;
    for (size_t i = 0; i < exact_.size(); ++i) noise += (result[i] - exact_[i]) * (result[i] - exact_[i]);
    if (noise == 0) return std::numeric_limits<double>::infinity();
    return 10 * Log(signal_ / noise) / std::numbers::ln10;
  }

  size_t elements() const { return exact_.size(); }

 private:
  std::vector<double> exact_;
  double signal_ = 0;
};

// Each switch adds up to `below` of these.
template <class Blocks>
std::vector<typename Blocks::Data> OneLevel(const Blocks& blocks, std::span<const typename Blocks::Data> in,
                                            size_t below) {
  std::vector<typename Blocks::Data> out;
  for (size_t i = 0; i < in.size(); i += below)
    out.push_back(blocks.Sum(in.subspan(i, std::min(below, in.size() - i))));
  return out;
}

// Ranks beyond a power of two give theirs to a neighbour first. Then neighbouring halves meet: what one of
// them has in the end, all have.
template <class Blocks>
typename Blocks::Data ByDoubling(const Blocks& blocks, const std::vector<typename Blocks::Data>& ranks) {
  const size_t members = std::bit_floor(ranks.size());
  std::vector<typename Blocks::Data> x;
  for (size_t next = 0; x.size() < members; ++next) {
    const bool has_folded = x.size() < ranks.size() - members;
    x.push_back(has_folded ? blocks.Combine(ranks[next], ranks[next + 1]) : ranks[next]);
    if (has_folded) ++next;
  }
  for (; x.size() > 1; x.resize(x.size() / 2))
    for (size_t i = 0; i < x.size() / 2; ++i) x[i] = blocks.Combine(x[2 * i], x[2 * i + 1]);
  return x[0];
}

template <class Blocks>
Accuracy Measure(const Blocks& blocks, const Operands& operands) {
  using Data = typename Blocks::Data;
  const Noise noise(operands);
  const auto sqnr = [&](const Data& result) { return noise.Of(blocks.Dequantise(result, noise.elements())); };
  std::vector<Data> ranks;
  for (const Numbers& x : operands) ranks.push_back(blocks.Quantise(x));

  // The sum of one part of an AllReduce; that of another part begins at another rank.
  Data ring_exact = ranks[0], ring = ranks[0];
  for (size_t r = 1; r < ranks.size(); ++r) {
    Numbers sum = blocks.Dequantise(ring_exact, noise.elements());
    AddTo(sum, operands[r]);
    ring_exact = blocks.Quantise(sum);
    ring = blocks.Combine(ring, ranks[r]);
  }
  constexpr size_t kRanksOfLeaf = 2;
  const std::vector<Data> leaves = OneLevel(blocks, std::span<const Data>(ranks), kRanksOfLeaf);
  return {.one_switch = sqnr(blocks.Sum(ranks)),
          .two_levels = sqnr(blocks.Sum(leaves)),
          .ring_exact = sqnr(ring_exact),
          .ring = sqnr(ring),
          .doubling = sqnr(ByDoubling(blocks, ranks))};
}

constexpr std::string_view kNames[] = {"gaussian", "laplace", "t3", "outliers"};

}  // namespace

std::string_view NameOf(Distribution distribution) { return kNames[static_cast<size_t>(distribution)]; }

std::optional<Distribution> DistributionNamed(std::string_view name) {
  for (const Distribution distribution : kDistributions)
    if (NameOf(distribution) == name) return distribution;
  return std::nullopt;
}

Operands DrawOperands(Distribution distribution, int ranks, size_t elements, uint64_t seed) {
  Draw draw(seed);
  Operands operands(static_cast<size_t>(ranks), Numbers(elements));
  for (Numbers& x : operands)
    for (size_t i = 0; i < elements; ++i) x[i] = static_cast<float>(DrawOne(distribution, i, draw));
  return operands;
}

Accuracy MeasureAccuracy(const Operands& operands, const BlockForm& form) {
  EPIC_CHECK(!operands.empty() && form.elements > 0 && form.bits >= 2 && form.bits <= 8);
  if (form.elements == kBlockElements && form.bits == 8) return Measure(KernelBlocks(), operands);
  return Measure(PlainBlocks(form), operands);
}

}  // namespace epic
