#include "pytorch/tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace epic::pytorch {
namespace {

std::optional<Datatype> TypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Datatype::kFloat32;
    case at::kDouble:
      return Datatype::kFloat64;
    case at::kHalf:
      return Datatype::kFloat16;
    case at::kBFloat16:
      return Datatype::kBFloat16;
    case at::kChar:
      return Datatype::kInt8;
    case at::kByte:
      return Datatype::kUint8;
    case at::kShort:
      return Datatype::kInt16;
    case at::kInt:
      return Datatype::kInt32;
    case at::kLong:
      return Datatype::kInt64;
    default:
      return std::nullopt;
  }
}

std::optional<RedOp> OpOf(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return RedOp::kSum;
    case c10d::ReduceOp::AVG:
      return RedOp::kAvg;
    case c10d::ReduceOp::PRODUCT:
      return RedOp::kProduct;
    case c10d::ReduceOp::MIN:
      return RedOp::kMin;
    case c10d::ReduceOp::MAX:
      return RedOp::kMax;
    case c10d::ReduceOp::BAND:
      return RedOp::kBitAnd;
    case c10d::ReduceOp::BOR:
      return RedOp::kBitOr;
    case c10d::ReduceOp::BXOR:
      return RedOp::kBitXor;
    default:
      return std::nullopt;
  }
}

// Of 0 and 1: a sum is true if one is, as by NCCL.
RedOp OfBool(RedOp op) {
  if (op == RedOp::kSum) return RedOp::kMax;
  return op == RedOp::kProduct ? RedOp::kMin : op;
}

bool IsInOnePiece(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

uintptr_t AddressOf(const at::Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.data_ptr()); }

// As PlaceFor, for what has been checked.
at::Tensor Place(const at::Tensor& tensor) {
  if (IsInOnePiece(tensor)) return tensor;
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::empty(tensor.sizes(), tensor.options());
}

}  // namespace

Reduction ReductionOf(at::ScalarType type, const c10d::ReduceOp& op) {
  const auto red_op = OpOf(op);
  TORCH_CHECK(red_op, "EPIC: there is no such operation: scale the tensor, then sum");
  if (type == at::kBool) {
    TORCH_CHECK(*red_op != RedOp::kAvg, "EPIC: bool has no average: convert it, as to float32");
    return {Datatype::kUint8, OfBool(*red_op)};
  }
  if (c10::isComplexType(type)) {
    TORCH_CHECK(*red_op == RedOp::kSum || *red_op == RedOp::kAvg,
                "EPIC: complex numbers are summed and averaged; for another operation all_gather them");
    return {*TypeOf(c10::toRealValueType(type)), *red_op, 2};
  }
  const auto datatype = TypeOf(type);
  TORCH_CHECK(datatype, "EPIC: nothing reduces ", c10::toString(type), ": convert it");
  const bool bitwise = *red_op == RedOp::kBitAnd || *red_op == RedOp::kBitOr || *red_op == RedOp::kBitXor;
  TORCH_CHECK(!bitwise || at::isIntegralType(type, /*includeBool=*/false),
              "EPIC: bitwise operations are of integers and bool, not of ", c10::toString(type));
  return {*datatype, *red_op};
}

bool GlooReduces(at::ScalarType type, const c10d::ReduceOp& op) {
  const bool has_type = TypeOf(type) && type != at::kBFloat16 && type != at::kShort;
  return has_type && op != c10d::ReduceOp::AVG;
}

bool IsPlain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
         !tensor.is_quantized();
}

bool ArePlain(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), IsPlain);
}

bool AreAlike(const std::vector<at::Tensor>& tensors, const at::Tensor& model) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return IsPlain(tensor) && tensor.scalar_type() == model.scalar_type() && tensor.numel() == model.numel();
  });
}

at::Tensor InOnePiece(const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return IsInOnePiece(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor PlaceFor(const at::Tensor& tensor) {
  if (!IsInOnePiece(tensor)) CheckResults({tensor});
  return Place(tensor);
}

void Copy(const at::Tensor& from, const at::Tensor& to) {
  if (from.is_same(to)) return;
  const at::AutoDispatchBelowADInplaceOrView guard;
  to.copy_(from);
}

void* DataOf(const at::Tensor& tensor) {
  static char nothing = 0;
  void* const data = tensor.data_ptr();
  return data != nullptr ? data : &nothing;
}

at::Tensor AsBytes(const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::from_blob(
      DataOf(tensor), {static_cast<int64_t>(tensor.nbytes())}, [tensor](void*) {},
      at::TensorOptions().dtype(at::kByte));
}

at::Tensor Staging(const at::Tensor& model, int64_t count) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::empty({count}, model.options());
}

at::Tensor StagingBytes(int64_t bytes) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
}

void Gather(const std::vector<at::Tensor>& tensors, const at::Tensor& flat) {
  auto* to = static_cast<char*>(flat.data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.nbytes() == 0) continue;
    std::memcpy(to, InOnePiece(tensor).data_ptr(), tensor.nbytes());
    to += tensor.nbytes();
  }
}

void Scatter(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  const auto* from = static_cast<const char*>(flat.data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.nbytes() == 0) continue;
    const at::Tensor place = Place(tensor);
    std::memcpy(place.data_ptr(), from, tensor.nbytes());
    Copy(place, tensor);
    from += tensor.nbytes();
  }
}

int64_t BytesOf(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

Span Reads(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto bytes = static_cast<size_t>(tensor.storage_offset() + last + 1) * tensor.itemsize();
  TORCH_CHECK(tensor.has_storage() && tensor.storage().nbytes() >= bytes, "EPIC: a tensor has no memory");
  const uintptr_t begin = AddressOf(tensor);
  return {begin, begin + static_cast<uintptr_t>(last + 1) * tensor.itemsize(), false};
}

Span Writes(const at::Tensor& tensor) {
  Span span = Reads(tensor);
  span.written = true;
  return span;
}

}  // namespace epic::pytorch
