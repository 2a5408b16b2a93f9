#include "reduce/blocks.h"

#include <cstring>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/blocks.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "reduce/blocks-inl.h"
#include "reduce/wire-inl.h"

// Compiled once per instruction set.
HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// An accumulator has a lane for each byte of the block. What becomes of the scale's is not looked at.

void LoadEachBlock(uint8_t* acc, const uint8_t* in, size_t blocks) {
  for (; blocks > 0; --blocks, acc += kBlockAccumulatorBytes, in += kBlockBytes) {
    const float scale = BlockScale(in);
    ForBytes([=](auto d, size_t at) { StoreLanes(d, Scaled(d, in + at, scale), acc + at * sizeof(float)); });
  }
}

void AccumulateEachBlock(uint8_t* acc, const uint8_t* in, size_t blocks) {
  for (; blocks > 0; --blocks, acc += kBlockAccumulatorBytes, in += kBlockBytes) {
    const float scale = BlockScale(in);
    ForBytes([=](auto d, size_t at) {
      uint8_t* const to = acc + at * sizeof(float);
      StoreLanes(d, hn::Add(LoadLanes(d, to), Scaled(d, in + at, scale)), to);
    });
  }
}

void StoreEachBlock(const uint8_t* acc, uint8_t* out, size_t blocks) {
  for (; blocks > 0; --blocks, acc += kBlockAccumulatorBytes, out += kBlockBytes)
    MakeBlock(out, ElementsOf<WireSame<float>>{acc + kScaleBytes * sizeof(float)});
}

void CombineEachBlock(uint8_t* out, const uint8_t* a, const uint8_t* b, size_t blocks) {
  for (; blocks > 0; --blocks, out += kBlockBytes, a += kBlockBytes, b += kBlockBytes)
    MakeBlock(out, SumOfTwo{a, b});
}

template <class Wire>
HWY_INLINE void ReadBlock(const uint8_t* block, uint8_t* elements) {
  const float scale = BlockScale(block);
  ForElements([=](auto d, size_t e) {
    Wire::ToWire(d, Scaled(d, block + kScaleBytes + e, scale), elements + e * Wire::kBytes);
  });
}

// A short last block is worked on in copies that are padded with zeros.

template <class Wire>
void QuantiseEachBlock(uint8_t* out, const uint8_t* in, size_t elements) {
  for (; elements >= kBlockElements; elements -= kBlockElements) {
    MakeBlock(out, ElementsOf<Wire>{in});
    out += kBlockBytes;
    in += kBlockElements * Wire::kBytes;
  }
  if (elements == 0) return;
  uint8_t last[kBlockElements * Wire::kBytes] = {};
  std::memcpy(last, in, elements * Wire::kBytes);
  MakeBlock(out, ElementsOf<Wire>{last});
}

template <class Wire>
void DequantiseEachBlock(uint8_t* out, const uint8_t* in, size_t elements) {
  for (; elements >= kBlockElements; elements -= kBlockElements) {
    ReadBlock<Wire>(in, out);
    out += kBlockElements * Wire::kBytes;
    in += kBlockBytes;
  }
  if (elements == 0) return;
  uint8_t last[kBlockElements * Wire::kBytes];
  ReadBlock<Wire>(in, last);
  std::memcpy(out, last, elements * Wire::kBytes);
}

void QuantiseBlocksOf(DataType type, uint8_t* out, const uint8_t* in, size_t elements) {
  if (type == DataType::kFloat16) return QuantiseEachBlock<WireFloat16>(out, in, elements);
  if (type == DataType::kBFloat16) return QuantiseEachBlock<WireBFloat16>(out, in, elements);
  return QuantiseEachBlock<WireSame<float>>(out, in, elements);
}

void DequantiseBlocksOf(DataType type, uint8_t* out, const uint8_t* in, size_t elements) {
  if (type == DataType::kFloat16) return DequantiseEachBlock<WireFloat16>(out, in, elements);
  if (type == DataType::kBFloat16) return DequantiseEachBlock<WireBFloat16>(out, in, elements);
  return DequantiseEachBlock<WireSame<float>>(out, in, elements);
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace epic {

HWY_EXPORT(LoadEachBlock);
HWY_EXPORT(AccumulateEachBlock);
HWY_EXPORT(StoreEachBlock);
HWY_EXPORT(CombineEachBlock);
HWY_EXPORT(QuantiseBlocksOf);
HWY_EXPORT(DequantiseBlocksOf);

namespace {

// Of so many bytes; aborts unless they are whole blocks with their accumulators.
size_t CheckedBlocks(size_t accumulator, size_t bytes) {
  EPIC_CHECK(bytes % kBlockBytes == 0 && accumulator / kBlockAccumulatorBytes == bytes / kBlockBytes &&
             accumulator % kBlockAccumulatorBytes == 0);
  return bytes / kBlockBytes;
}

// How many elements of the type there are; aborts unless so many bytes of blocks are for them.
size_t CheckedElements(DataType type, size_t bytes, size_t in_blocks) {
  EPIC_CHECK(type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16);
  const size_t element_bytes = type == DataType::kFloat32 ? 4 : 2;
  const size_t elements = bytes / element_bytes;
  EPIC_CHECK(bytes % element_bytes == 0 && in_blocks == BlocksOf(elements) * kBlockBytes);
  return elements;
}

}  // namespace

void LoadBlocks(std::span<uint8_t> acc, std::span<const uint8_t> in) {
  const size_t blocks = CheckedBlocks(acc.size(), in.size());
  HWY_DYNAMIC_DISPATCH(LoadEachBlock)(acc.data(), in.data(), blocks);
}

void AccumulateBlocks(std::span<uint8_t> acc, std::span<const uint8_t> in) {
  const size_t blocks = CheckedBlocks(acc.size(), in.size());
  HWY_DYNAMIC_DISPATCH(AccumulateEachBlock)(acc.data(), in.data(), blocks);
}

void StoreBlocks(std::span<const uint8_t> acc, std::span<uint8_t> out) {
  const size_t blocks = CheckedBlocks(acc.size(), out.size());
  HWY_DYNAMIC_DISPATCH(StoreEachBlock)(acc.data(), out.data(), blocks);
}

void CombineBlocks(std::span<uint8_t> out, const uint8_t* a, const uint8_t* b) {
  EPIC_CHECK(out.size() % kBlockBytes == 0);
  HWY_DYNAMIC_DISPATCH(CombineEachBlock)(out.data(), a, b, out.size() / kBlockBytes);
}

void QuantiseBlocks(DataType type, std::span<uint8_t> out, std::span<const uint8_t> in) {
  const size_t elements = CheckedElements(type, in.size(), out.size());
  HWY_DYNAMIC_DISPATCH(QuantiseBlocksOf)(type, out.data(), in.data(), elements);
}

void DequantiseBlocks(DataType type, std::span<uint8_t> out, std::span<const uint8_t> in) {
  const size_t elements = CheckedElements(type, out.size(), in.size());
  HWY_DYNAMIC_DISPATCH(DequantiseBlocksOf)(type, out.data(), in.data(), elements);
}

}  // namespace epic
#endif  // HWY_ONCE
