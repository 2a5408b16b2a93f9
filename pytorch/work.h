// What a program waits for: a call that EPIC makes.
#pragma once

#include <ATen/core/ivalue.h>

#include <exception>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace epic::pytorch {

class EpicWork : public c10d::Work {
 public:
  // `value` is what the future has in the end: a list of tensors, or a list of lists. `title` is the
  // profiler's.
  EpicWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::vector<at::Tensor> outputs, c10::IValue value, c10::TypePtr value_type);

  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // Once: callbacks of the future run here, before who waits goes on. `error`: null if all went well.
  void Complete(std::exception_ptr error);

 private:
  std::vector<at::Tensor> outputs_;
  c10::IValue value_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace epic::pytorch
