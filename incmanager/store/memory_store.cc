#include "incmanager/store/memory_store.h"

#include <utility>

namespace epic::manager {

Status MemoryStore::Apply(const Batch& batch) {
  if (SizeOf(batch) > kMostBytes)
    return MakeStatus(StatusCode::kInvalidArgument, "a batch of the store is too large");
  if (!failure_.ok()) return failure_;
  batches_.push_back(batch);
  return absl::OkStatus();
}

Contents MemoryStore::After(size_t batches) const {
  Contents rows = start_;
  for (size_t i = 0; i < batches; ++i) {
    for (const RowChange& change : batches_[i]) {
      if (change.value) {
        rows[change.row] = *change.value;
      } else {
        rows.erase(change.row);
      }
    }
  }
  return rows;
}

}  // namespace epic::manager
