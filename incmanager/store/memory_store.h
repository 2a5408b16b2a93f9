// A store that ends with its process: for tests, which also look at what it had been after each of its
// batches.
#pragma once

#include <string>
#include <vector>

#include "incmanager/store/store.h"

namespace epic::manager {

class MemoryStore : public Store {
 public:
  explicit MemoryStore(Contents contents = {}) : start_(std::move(contents)) {}

  StatusOr<Contents> Load() override { return After(batches_.size()); }
  Status Apply(const Batch& batch) override;
  std::string Place() const override { return "memory"; }

  // What it had when so many batches were kept, 0 to count().
  Contents After(size_t batches) const;
  size_t count() const { return batches_.size(); }
  // From now on Apply ends so; with OK it keeps again.
  void FailWith(const Status& status) { failure_ = status; }

 private:
  Contents start_;
  std::vector<Batch> batches_;
  Status failure_;
};

}  // namespace epic::manager
