// What EPIC does not do. Gloo takes the memory of a tensor for its elements, whatever its layout, and has not
// every type: of plain tensors it is given bytes that lie in one piece.
#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "pytorch/process_group.h"
#include "pytorch/tensors.h"

namespace epic::pytorch {
namespace {

using Tensors = ProcessGroupEpic::Tensors;

Tensors PlacesFor(const Tensors& tensors) {
  CheckResults(tensors);
  Tensors places;
  for (const at::Tensor& tensor : tensors) places.push_back(PlaceFor(tensor));
  return places;
}

Tensors AsBytes(const Tensors& in_one_piece) {
  Tensors bytes;
  for (const at::Tensor& tensor : in_one_piece) bytes.push_back(pytorch::AsBytes(tensor));
  return bytes;
}

void CopyEach(const Tensors& from, const Tensors& to) {
  for (size_t i = 0; i < from.size(); ++i) Copy(from[i], to[i]);
}

bool ShareMemory(const at::Tensor& one, const at::Tensor& other) {
  const Span a = Reads(one), b = Reads(other);
  return a.begin < b.end && b.begin < a.end;
}

// Bytes of each rank's rows, of equal numbers of rows if `rows` is empty. `what`: for errors.
std::vector<int64_t> BytesOfRows(const std::vector<int64_t>& rows, const at::Tensor& tensor, int size,
                                 const char* what) {
  TORCH_CHECK(tensor.dim() > 0, "EPIC: the ", what, " of an all_to_all has no dimension to be split");
  c10d::checkSplitSizes(rows, tensor, size);
  const int64_t all_rows = tensor.size(0);
  const int64_t row_bytes = all_rows == 0 ? 0 : static_cast<int64_t>(tensor.nbytes()) / all_rows;
  std::vector<int64_t> bytes;
  for (int rank = 0; rank < size; ++rank) {
    const int64_t of_rank = rows.empty() ? all_rows / size : rows[static_cast<size_t>(rank)];
    TORCH_CHECK(of_rank >= 0, "EPIC: a rank's rows of the ", what, " are ", of_rank);
    bytes.push_back(of_rank * row_bytes);
  }
  return bytes;
}

std::vector<int64_t> BytesOfEach(const Tensors& tensors) {
  std::vector<int64_t> bytes;
  for (const at::Tensor& tensor : tensors) bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
  return bytes;
}

}  // namespace

ProcessGroupEpic::WorkPtr ProcessGroupEpic::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::GatherOptions& options) {
  const bool receives = options.rootRank == getRank();
  const bool plain =
      inputs.size() == 1 && ArePlain(inputs) && outputs.size() == (receives ? 1 : 0) &&
      (!receives || (outputs[0].size() == static_cast<size_t>(getSize()) && AreAlike(outputs[0], inputs[0])));
  if (!plain) return Gloo().gather(outputs, inputs, options);
  const Tensors to = receives ? outputs[0] : Tensors();
  const Tensors places = PlacesFor(to);
  std::vector<Tensors> received;
  if (receives) received.push_back(AsBytes(places));
  Tensors sent = AsBytes(Tensors{InOnePiece(inputs[0])});
  return ByGloo({c10d::OpType::GATHER, "gloo:gather"}, inputs, {to, {}},
                Gloo().gather(received, sent, options), [places, to] { CopyEach(places, to); });
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                    const c10d::ScatterOptions& options) {
  const bool sends = options.rootRank == getRank();
  const bool plain =
      outputs.size() == 1 && ArePlain(outputs) && inputs.size() == (sends ? 1 : 0) &&
      (!sends || (inputs[0].size() == static_cast<size_t>(getSize()) && AreAlike(inputs[0], outputs[0])));
  if (!plain) return Gloo().scatter(outputs, inputs, options);
  const Tensors places = PlacesFor(outputs);
  std::vector<Tensors> sent;
  if (sends) {
    Tensors from;
    for (const at::Tensor& tensor : inputs[0]) from.push_back(InOnePiece(tensor));
    sent.push_back(AsBytes(from));
  }
  Tensors received = AsBytes(places);
  return ByGloo({c10d::OpType::SCATTER, "gloo:scatter"}, sends ? inputs[0] : Tensors(), {outputs, {}},
                Gloo().scatter(received, sent, options), [places, to = outputs] { CopyEach(places, to); });
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                          std::vector<int64_t>& output_sizes,
                                                          std::vector<int64_t>& input_sizes,
                                                          const c10d::AllToAllOptions& options) {
  if (!IsPlain(output) || !IsPlain(input))
    return Gloo().alltoall_base(output, input, output_sizes, input_sizes, options);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "EPIC: output and input are of different types");
  std::vector<int64_t> to_bytes = BytesOfRows(output_sizes, output, getSize(), "output");
  std::vector<int64_t> from_bytes = BytesOfRows(input_sizes, input, getSize(), "input");
  const at::Tensor place = PlaceFor(output);
  const at::Tensor from = InOnePiece(input);
  at::Tensor received = pytorch::AsBytes(place);
  at::Tensor sent = pytorch::AsBytes(ShareMemory(from, place) ? from.clone() : from);
  return ByGloo({c10d::OpType::ALLTOALL_BASE, "gloo:all_to_all"}, {input}, {{output}, {}},
                Gloo().alltoall_base(received, sent, to_bytes, from_bytes, options),
                [place, to = output] { Copy(place, to); });
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::alltoall(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllToAllOptions& options) {
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK(ArePlain(outputs) && ArePlain(inputs), "EPIC: all_to_all is of dense tensors on the CPU");
  TORCH_CHECK(outputs.size() == size && inputs.size() == size, "EPIC: all_to_all takes lists of ", size,
              " tensors, one for each rank");
  for (size_t rank = 0; rank < size; ++rank) {
    TORCH_CHECK(outputs[rank].scalar_type() == inputs[0].scalar_type() &&
                    inputs[rank].scalar_type() == inputs[0].scalar_type(),
                "EPIC: tensors of an all_to_all are of one type");
  }
  const auto own = static_cast<size_t>(getRank());
  TORCH_CHECK(outputs[own].numel() == inputs[own].numel(), "EPIC: this rank sends itself ",
              inputs[own].numel(), " elements, for which the output has ", outputs[own].numel());
  CheckResults(outputs);
  at::Tensor received = StagingBytes(BytesOf(outputs)), sent = StagingBytes(BytesOf(inputs));
  Gather(inputs, sent);
  std::vector<int64_t> to_bytes = BytesOfEach(outputs), from_bytes = BytesOfEach(inputs);
  return ByGloo({c10d::OpType::ALLTOALL, "gloo:all_to_all"}, inputs, {outputs, {}},
                Gloo().alltoall_base(received, sent, to_bytes, from_bytes, options),
                [received, to = outputs] { Scatter(received, to); });
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::ByGloo(Kind kind, const Tensors& inputs, Result result,
                                                   const WorkPtr& call, std::function<void()> finish) {
  const auto work = MakeWork(kind, inputs, std::move(result));
  call->getFuture()->addCallback([work, finish = std::move(finish)](c10::ivalue::Future& ended) {
    std::exception_ptr failure = ended.hasError() ? ended.exception_ptr() : nullptr;
    try {
      if (!failure) finish();
    } catch (...) {
      failure = std::current_exception();
    }
    work->Complete(failure);
  });
  return work;
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
