#include "reduce/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace epic::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tag D decides the element type; memory is addressed as bytes because packets are not aligned.
template <class D>
void AddTo(D d, uint8_t* HWY_RESTRICT acc, const uint8_t* HWY_RESTRICT in, size_t bytes) {
  using T = hn::TFromD<D>;
  const size_t step = hn::Lanes(d) * sizeof(T);
  size_t at = 0;
  for (; at + step <= bytes; at += step) {
    const auto a = hn::LoadU(d, reinterpret_cast<const T*>(acc + at));
    const auto b = hn::LoadU(d, reinterpret_cast<const T*>(in + at));
    hn::StoreU(hn::Add(a, b), d, reinterpret_cast<T*>(acc + at));
  }
  for (; at < bytes; at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, acc + at, sizeof a);
    std::memcpy(&b, in + at, sizeof b);
    a += b;
    std::memcpy(acc + at, &a, sizeof a);
  }
}

void AddFloat32(uint8_t* acc, const uint8_t* in, size_t bytes) {
  AddTo(hn::ScalableTag<float>(), acc, in, bytes);
}

// Unsigned lanes: two's complement addition that wraps without undefined behaviour.
void AddInt32(uint8_t* acc, const uint8_t* in, size_t bytes) {
  AddTo(hn::ScalableTag<uint32_t>(), acc, in, bytes);
}

}  // namespace epic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"

namespace epic {

HWY_EXPORT(AddFloat32);
HWY_EXPORT(AddInt32);

bool CanReduce(ReduceOp op, DataType type) {
  return op == ReduceOp::kSum && (type == DataType::kFloat32 || type == DataType::kInt32);
}

void Accumulate(ReduceOp op, DataType type, std::span<uint8_t> acc, std::span<const uint8_t> in) {
  EPIC_CHECK(acc.size() == in.size() && CanReduce(op, type));
  if (type == DataType::kFloat32) {
    HWY_DYNAMIC_DISPATCH(AddFloat32)(acc.data(), in.data(), acc.size());
  } else {
    HWY_DYNAMIC_DISPATCH(AddInt32)(acc.data(), in.data(), acc.size());
  }
}

}  // namespace epic
#endif  // HWY_ONCE
