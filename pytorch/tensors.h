// Tensors as EPIC takes them: types, operations, and memory that lies in one piece.
#pragma once

#include <ATen/ATen.h>
#include <epic/epic.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "pytorch/call_queue.h"

namespace epic::pytorch {

// As what EPIC reduces a tensor: bool as bytes of 0 and 1, complex numbers as two real ones each.
struct Reduction {
  Datatype type;
  RedOp op;
  size_t pieces = 1;  // of an element

  size_t CountOf(const at::Tensor& tensor) const { return static_cast<size_t>(tensor.numel()) * pieces; }
};

// How EPIC reduces this type by this operation, as torch means it. Throws if that cannot be, with what to do
// instead; the same on every rank that is given the same.
Reduction ReductionOf(at::ScalarType type, const c10d::ReduceOp& op);
// Whether Gloo all_reduces and reduces this type by this operation, too.
bool GlooReduces(at::ScalarType type, const c10d::ReduceOp& op);

// Tensors with memory of this process in which each element has a place: on the CPU, neither sparse nor
// quantized.
bool IsPlain(const at::Tensor& tensor);
bool ArePlain(const std::vector<at::Tensor>& tensors);
// Plain and all of one type and number of elements.
bool AreAlike(const std::vector<at::Tensor>& tensors, const at::Tensor& model);

// The tensor itself if its elements lie in one piece as they are, else a copy in which they do.
at::Tensor InOnePiece(const at::Tensor& tensor);
// Throws if elements of these tensors, of one or of several, share memory, so that they cannot be the results
// of a call.
void CheckResults(const std::vector<at::Tensor>& tensors);
// For a result: the tensor itself if its elements lie in one piece, else a new one of its shape, to be copied
// from. Throws as CheckResults.
at::Tensor PlaceFor(const at::Tensor& tensor);
// Unseen by autograd, like all that a collective writes. Nothing to do if they are the same.
void Copy(const at::Tensor& from, const at::Tensor& to);
// Its memory; not null, also if it has no elements.
void* DataOf(const at::Tensor& tensor);
// The same memory, of a tensor that lies in one piece, as bytes. Keeps the tensor.
at::Tensor AsBytes(const at::Tensor& tensor);

// A new tensor of `count` elements of the type.
at::Tensor Staging(const at::Tensor& model, int64_t count);
at::Tensor StagingBytes(int64_t bytes);
// Bytes of all tensors one after the other in `flat`, which has room for them; and back.
void Gather(const std::vector<at::Tensor>& tensors, const at::Tensor& flat);
void Scatter(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);
// Bytes of all of them.
int64_t BytesOf(const std::vector<at::Tensor>& tensors);

// From the first to the last of its elements. Throws if it has them without memory.
Span Reads(const at::Tensor& tensor);
Span Writes(const at::Tensor& tensor);

}  // namespace epic::pytorch
