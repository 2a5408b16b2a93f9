// Whether results of a call share memory.
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "pytorch/tensors.h"

namespace epic::pytorch {
namespace {

// torch's words.
constexpr char kShared[] =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. "
    "Please clone() the tensor before performing the operation.";

// Each step along a dimension is longer than all that the shorter ones lead over, so that no two elements
// meet. Where this does not hold they may still lie between one another.
bool IsNested(const at::Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // by stride
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) steps.emplace_back(tensor.stride(d), tensor.size(d));
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// Takes the bytes of each element; `taken` begins at `begin`. Slow, so only for what lies between one
// another.
void Take(const at::Tensor& tensor, uintptr_t begin, std::vector<bool>* taken) {
  const size_t bytes = tensor.itemsize();
  size_t place = reinterpret_cast<uintptr_t>(tensor.data_ptr()) - begin;
  std::vector<int64_t> index(static_cast<size_t>(tensor.dim()), 0);
  for (int64_t left = tensor.numel(); left > 0; --left) {
    for (size_t i = place; i < place + bytes; ++i) {
      TORCH_CHECK(!(*taken)[i], kShared);
      (*taken)[i] = true;
    }
    for (int64_t d = tensor.dim() - 1; d >= 0; --d) {
      const size_t step = static_cast<size_t>(tensor.stride(d)) * bytes;
      place += step;
      if (++index[static_cast<size_t>(d)] < tensor.size(d)) break;
      index[static_cast<size_t>(d)] = 0;
      place -= step * static_cast<size_t>(tensor.size(d));
    }
  }
}

}  // namespace

void CheckResults(const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<Span, const at::Tensor*>> spans;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) spans.emplace_back(Writes(tensor), &tensor);
  }
  std::sort(spans.begin(), spans.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  for (size_t first = 0, next = 0; first < spans.size(); first = next) {
    // Those whose spans meet are looked at together; they are parts of one storage.
    uintptr_t end = spans[first].first.end;
    for (next = first + 1; next < spans.size() && spans[next].first.begin < end; ++next) {
      end = std::max(end, spans[next].first.end);
    }
    if (next == first + 1 && IsNested(*spans[first].second)) continue;
    const uintptr_t begin = spans[first].first.begin;
    std::vector<bool> taken(end - begin);
    for (size_t i = first; i < next; ++i) Take(*spans[i].second, begin, &taken);
  }
}

}  // namespace epic::pytorch
