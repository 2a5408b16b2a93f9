#include "pytorch/work.h"

#include <utility>

namespace epic::pytorch {

EpicWork::EpicWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
                   std::vector<at::Tensor> outputs, c10::IValue value, c10::TypePtr value_type)
    : c10d::Work(rank, type, title, inputs),
      outputs_(std::move(outputs)),
      value_(std::move(value)),
      future_(c10::make_intrusive<c10::ivalue::Future>(std::move(value_type))) {}

void EpicWork::Complete(std::exception_ptr error) {
  try {
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(std::move(value_));
    }
  } catch (...) {
    // A callback's; who waits is told if there is nothing worse.
    if (!error) error = std::current_exception();
  }
  finish(error);
}

}  // namespace epic::pytorch
