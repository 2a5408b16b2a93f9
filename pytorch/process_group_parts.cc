// The collectives that have a part for each rank.
#include <c10/util/Exception.h>

#include <algorithm>

#include "pytorch/process_group.h"
#include "pytorch/tensors.h"

namespace epic::pytorch {
namespace {

std::vector<Span> Spans(const std::vector<at::Tensor>& read, const std::vector<at::Tensor>& written) {
  std::vector<Span> spans;
  for (const at::Tensor& tensor : read) spans.push_back(Reads(tensor));
  for (const at::Tensor& tensor : written) spans.push_back(Writes(tensor));
  return spans;
}

// `part` is where `whole` has this rank's part, or nowhere in it.
bool IsOwnPartOrApart(const at::Tensor& part, const at::Tensor& whole, int rank) {
  const Span of_part = Reads(part), of_whole = Reads(whole);
  if (of_part.end <= of_whole.begin || of_whole.end <= of_part.begin) return true;
  return of_part.begin == of_whole.begin + static_cast<uintptr_t>(rank) * part.nbytes();
}

}  // namespace

ProcessGroupEpic::WorkPtr ProcessGroupEpic::GatherLists(Kind kind, const std::vector<Tensors>& outputs,
                                                        const Tensors& inputs, Result result,
                                                        std::chrono::milliseconds timeout,
                                                        const std::function<WorkPtr()>& by_gloo) {
  const auto own_rank = static_cast<size_t>(getRank());
  Tensors to;
  int64_t most = 0;  // bytes of a rank: so many are exchanged of each
  for (const Tensors& of_rank : outputs) {
    for (size_t i = 0; i < of_rank.size(); ++i) {
      TORCH_CHECK(of_rank[i].scalar_type() == inputs[i].scalar_type(),
                  "EPIC: output and input are of different types");
    }
    to.insert(to.end(), of_rank.begin(), of_rank.end());
    most = std::max(most, BytesOf(of_rank));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK(outputs[own_rank][i].numel() == inputs[i].numel(), "EPIC: the input has ", inputs[i].numel(),
                " elements, its place in this rank's output ", outputs[own_rank][i].numel());
  }
  CheckResults(to);
  const at::Tensor flat = StagingBytes(most * getSize());
  QueuedCall call;
  call.spans = Spans(inputs, to);
  call.timeout = timeout;
  call.post = [inputs, flat, most](Communicator& comm, Request* request) {
    const at::Tensor own = flat.narrow(0, comm.rank() * most, most);
    Gather(inputs, own);
    const int64_t bytes = BytesOf(inputs);
    own.narrow(0, bytes, most - bytes).zero_();
    return AllGatherAsync(DataOf(own), DataOf(flat), static_cast<size_t>(most), Datatype::kByte, comm,
                          request);
  };
  call.finish = [flat, outputs, most] {
    for (size_t rank = 0; rank < outputs.size(); ++rank)
      Scatter(flat.narrow(0, static_cast<int64_t>(rank) * most, most), outputs[rank]);
  };
  return Start(kind, inputs, std::move(result), std::move(call), by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  const auto by_gloo = [&] { return Gloo().allgather(outputs, inputs, options); };
  if (inputs.size() != 1 || outputs.size() != 1 || !ArePlain(inputs) ||
      outputs[0].size() != static_cast<size_t>(getSize()) || !ArePlain(outputs[0])) {
    return by_gloo();
  }
  std::vector<Tensors> to;
  for (const at::Tensor& of_rank : outputs[0]) to.push_back({of_rank});
  return GatherLists({c10d::OpType::ALLGATHER, "epic:all_gather"}, to, inputs, {outputs[0], {}},
                     TimeoutOf(options.timeout), by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::allgather_coalesced(std::vector<Tensors>& outputs,
                                                                Tensors& inputs,
                                                                const c10d::AllgatherOptions& options) {
  const auto by_gloo = [&] { return Gloo().allgather_coalesced(outputs, inputs, options); };
  if (inputs.empty() || !ArePlain(inputs) || outputs.size() != static_cast<size_t>(getSize()))
    return by_gloo();
  Tensors to;
  for (const Tensors& of_rank : outputs) {
    if (of_rank.size() != inputs.size() || !ArePlain(of_rank)) return by_gloo();
    to.insert(to.end(), of_rank.begin(), of_rank.end());
  }
  return GatherLists({c10d::OpType::ALLGATHER_COALESCED, "epic:all_gather"}, outputs, inputs, {to, outputs},
                     TimeoutOf(options.timeout), by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                            const c10d::AllgatherOptions& options) {
  const auto by_gloo = [&] { return Gloo()._allgather_base(output, input, options); };
  if (!IsPlain(output) || !IsPlain(input)) return by_gloo();
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "EPIC: output and input are of different types");
  TORCH_CHECK(output.numel() == input.numel() * getSize(), "EPIC: the output has ", output.numel(),
              " elements, ", getSize(), " inputs have ", input.numel() * getSize());
  const at::Tensor to = output, place = PlaceFor(output);
  const bool apart = IsOwnPartOrApart(input, output, getRank());
  QueuedCall call;
  call.spans = Spans({input}, {output});
  call.timeout = TimeoutOf(options.timeout);
  call.post = [from = input, place, apart, held = at::Tensor()](Communicator& comm,
                                                                Request* request) mutable {
    held = apart ? InOnePiece(from) : InOnePiece(from).clone();
    return AllGatherAsync(DataOf(held), DataOf(place), held.nbytes(), Datatype::kByte, comm, request);
  };
  call.finish = [place, to] { Copy(place, to); };
  return Start({c10d::OpType::_ALLGATHER_BASE, "epic:_all_gather_base"}, {input}, {{to}, {}}, std::move(call),
               by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                           const c10d::ReduceScatterOptions& options) {
  const auto by_gloo = [&] { return Gloo().reduce_scatter(outputs, inputs, options); };
  if (outputs.size() != 1 || inputs.size() != 1 || !ArePlain(outputs) ||
      inputs[0].size() != static_cast<size_t>(getSize()) || !ArePlain(inputs[0])) {
    return by_gloo();
  }
  TORCH_CHECK(AreAlike(inputs[0], outputs[0]),
              "EPIC: parts of a reduce_scatter have one length and type: pad them, or all_reduce");
  const Reduction how = ReductionOf(outputs[0].scalar_type(), options.reduceOp);
  const Tensors from = inputs[0];
  const at::Tensor to = outputs[0], place = PlaceFor(to);
  const at::Tensor flat = Staging(to, to.numel() * getSize());
  QueuedCall call;
  call.spans = Spans(from, outputs);
  call.timeout = TimeoutOf(options.timeout);
  call.post = [from, flat, place, how](Communicator& comm, Request* request) {
    Gather(from, flat);
    return ReduceScatterAsync(DataOf(flat), DataOf(place), how.CountOf(place), how.type, how.op, comm,
                              request);
  };
  call.finish = [place, to] { Copy(place, to); };
  // Gloo has no reduce_scatter.
  return StartReduction({c10d::OpType::REDUCE_SCATTER, "epic:reduce_scatter"}, from, {{to}, {}},
                        std::move(call), options.reduceOp, nullptr);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::ReduceScatterOptions& options) {
  const auto by_gloo = [&] { return Gloo()._reduce_scatter_base(output, input, options); };
  if (!IsPlain(output) || !IsPlain(input)) return by_gloo();
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "EPIC: output and input are of different types");
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "EPIC: the input has ", input.numel(),
              " elements, ", getSize(), " outputs have ", output.numel() * getSize());
  const Reduction how = ReductionOf(output.scalar_type(), options.reduceOp);
  const at::Tensor to = output, place = PlaceFor(output);
  const bool apart = IsOwnPartOrApart(output, input, getRank());
  QueuedCall call;
  call.spans = Spans({input}, {output});
  call.timeout = TimeoutOf(options.timeout);
  call.post = [from = input, place, how, apart, held = at::Tensor()](Communicator& comm,
                                                                     Request* request) mutable {
    held = apart ? InOnePiece(from) : InOnePiece(from).clone();
    return ReduceScatterAsync(DataOf(held), DataOf(place), how.CountOf(place), how.type, how.op, comm,
                              request);
  };
  call.finish = [place, to] { Copy(place, to); };
  return StartReduction({c10d::OpType::_REDUCE_SCATTER_BASE, "epic:_reduce_scatter_base"}, {input},
                        {{to}, {}}, std::move(call), options.reduceOp, nullptr);
}

}  // namespace epic::pytorch
