// What EPIC does not do.
#include "pytorch/process_group.h"

namespace epic::pytorch {

ProcessGroupEpic::WorkPtr ProcessGroupEpic::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::GatherOptions& options) {
  return Gloo().gather(outputs, inputs, options);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                    const c10d::ScatterOptions& options) {
  return Gloo().scatter(outputs, inputs, options);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                          std::vector<int64_t>& output_sizes,
                                                          std::vector<int64_t>& input_sizes,
                                                          const c10d::AllToAllOptions& options) {
  return Gloo().alltoall_base(output, input, output_sizes, input_sizes, options);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::alltoall(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllToAllOptions& options) {
  return Gloo().alltoall(outputs, inputs, options);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::send(Tensors& tensors, int rank, int tag) {
  return Gloo().send(tensors, rank, tag);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::recv(Tensors& tensors, int rank, int tag) {
  return Gloo().recv(tensors, rank, tag);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::recvAnysource(Tensors& tensors, int tag) {
  return Gloo().recvAnysource(tensors, tag);
}

void ProcessGroupEpic::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  Gloo().monitoredBarrier(options, wait_all_ranks);
}

void ProcessGroupEpic::setSequenceNumberForGroup() { Gloo().setSequenceNumberForGroup(); }

uint64_t ProcessGroupEpic::getSequenceNumberForGroup() { return Gloo().getSequenceNumberForGroup(); }

}  // namespace epic::pytorch
