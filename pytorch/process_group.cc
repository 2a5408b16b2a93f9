#include "pytorch/process_group.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include "pytorch/python_lock.h"
#include "pytorch/tensors.h"

namespace epic::pytorch {
namespace {

c10::TypePtr TypeOfValue(bool lists) {
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  return lists ? c10::ListType::create(list) : list;
}

constexpr const char* kByGloo = "by Gloo";

}  // namespace

std::chrono::milliseconds ProcessGroupEpic::TimeoutOf(std::chrono::milliseconds timeout) {
  return timeout == c10d::kUnsetTimeout ? std::chrono::milliseconds(0) : timeout;
}

ProcessGroupEpic::ProcessGroupEpic(c10::intrusive_ptr<c10d::ProcessGroup> gloo, int rank, int size,
                                   std::chrono::milliseconds timeout)
    : c10d::ProcessGroup(rank, size), gloo_(std::move(gloo)), timeout_(timeout), process_(getpid()) {
  init();
}

ProcessGroupEpic::~ProcessGroupEpic() {
  if (getpid() != process_) {
    // Threads of both, and of the store that Gloo's holds, are the parent's: to wait for them here would be
    // for ever.
    (void)gloo_.release();
    new std::shared_ptr<CallQueue>(std::move(queue_));
    return;
  }
  // Gloo's destructor waits for its threads, which take the lock to give up a tensor of Python's.
  const WithoutPythonLock without_lock;
  if (queue_) queue_->Leave();
  queue_.reset();
  gloo_.reset();
}

std::pair<std::string, bool> ProcessGroupEpic::Join(const std::string& name) {
  CheckProcess();
  epic::Options options;
  options.group = name;
  options.rank = getRank();
  options.size = getSize();
  options.timeout = timeout_;
  CallQueue::Refusal refusal;
  queue_ = CallQueue::Join(options, &refusal);
  return {refusal.message, refusal.for_others};
}

void ProcessGroupEpic::Abort(const std::string& reason) {
  CheckProcess();
  if (queue_) queue_->Abort(reason);
}

void ProcessGroupEpic::SetQuantise(bool on) {
  CheckProcess();
  if (queue_) queue_->SetQuantise(on);
}

std::string ProcessGroupEpic::TextOfPath(const std::function<PathTaken(const Communicator&)>& ask) {
  CheckProcess();
  const PathTaken taken = queue_ ? queue_->Path(ask) : PathTaken();
  if (taken.path == PathChoice::kNetwork) return "through the switches";
  // What is refused has a reason; of a group that has been left there is none.
  const bool refused = taken.path == PathChoice::kDefault && !taken.reason.empty();
  const std::string way = refused ? kByGloo : "between the hosts";
  return taken.reason.empty() ? way : way + ": " + taken.reason;
}

std::string ProcessGroupEpic::Path() {
  return TextOfPath([](const Communicator& comm) { return comm.Path(); });
}

std::string ProcessGroupEpic::PathOfReduceScatter(const at::Tensor& output, const c10d::ReduceOp& op) {
  if (!IsPlain(output)) return kByGloo;
  const Reduction how = ReductionOf(output.scalar_type(), op);
  return TextOfPath([&](const Communicator& comm) {
    return comm.PathOfReduceScatter(how.CountOf(output), how.type, how.op);
  });
}

std::string ProcessGroupEpic::PathOf(const at::Tensor& tensor, const std::optional<c10d::ReduceOp>& op) {
  if (!IsPlain(tensor)) return kByGloo;
  const Reduction how = op ? ReductionOf(tensor.scalar_type(), *op) : Reduction{Datatype::kByte, {}};
  return TextOfPath(
      [&](const Communicator& comm) { return op ? comm.PathOf(how.type, how.op) : comm.PathOf(how.type); });
}

void ProcessGroupEpic::CheckProcess() const {
  TORCH_CHECK(getpid() == process_, "EPIC: a child of fork cannot use its parent's process group");
}

c10d::ProcessGroup& ProcessGroupEpic::Gloo() {
  CheckProcess();
  return *gloo_;
}

c10::intrusive_ptr<EpicWork> ProcessGroupEpic::MakeWork(Kind kind, const Tensors& inputs, Result result) {
  c10::IValue value = result.lists.empty() ? c10::IValue(result.outputs) : c10::IValue(result.lists);
  return c10::make_intrusive<EpicWork>(getRank(), kind.type, kind.title, inputs, std::move(result.outputs),
                                       std::move(value), TypeOfValue(!result.lists.empty()));
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::Start(Kind kind, const Tensors& inputs, Result result,
                                                  QueuedCall call, const std::function<WorkPtr()>& by_gloo) {
  CheckProcess();
  TORCH_CHECK(queue_, "EPIC: the group was not joined");
  const auto work = MakeWork(kind, inputs, std::move(result));
  call.work = work;
  if (queue_->Start(std::move(call))) return work;
  work->Complete(nullptr);
  return by_gloo();
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::StartReduction(Kind kind, const Tensors& inputs, Result result,
                                                           QueuedCall call, const c10d::ReduceOp& op,
                                                           const std::function<WorkPtr()>& by_gloo) {
  const at::ScalarType type = inputs[0].scalar_type();
  return Start(kind, inputs, std::move(result), std::move(call), [&] {
    if (by_gloo && GlooReduces(type, op)) return by_gloo();
    const Reduction how = ReductionOf(type, op);
    const PathTaken taken =
        queue_->Path([&](const Communicator& comm) { return comm.PathOf(how.type, how.op); });
    TORCH_CHECK(false, "EPIC: the group does not reduce ", c10::toString(type),
                " so, nor does Gloo: ", taken.reason);
  });
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::broadcast(Tensors& tensors,
                                                      const c10d::BroadcastOptions& options) {
  const auto by_gloo = [&] { return Gloo().broadcast(tensors, options); };
  const auto root = static_cast<int>(options.rootRank);
  if (tensors.size() != 1 || !ArePlain(tensors) || options.rootTensor != 0 || root < 0 || root >= getSize()) {
    return by_gloo();
  }
  const at::Tensor tensor = tensors[0];
  const bool sends = root == getRank();
  const at::Tensor place = sends ? tensor : PlaceFor(tensor);
  QueuedCall call;
  call.spans = {sends ? Reads(tensor) : Writes(tensor)};
  call.timeout = TimeoutOf(options.timeout);
  call.post = [tensor, place, sends, root, held = at::Tensor()](Communicator& comm,
                                                                Request* request) mutable {
    held = sends ? InOnePiece(tensor) : place;
    return BroadcastAsync(DataOf(held), DataOf(held), held.nbytes(), Datatype::kByte, root, comm, request);
  };
  if (!sends) call.finish = [tensor, place] { Copy(place, tensor); };
  return Start({c10d::OpType::BROADCAST, "epic:broadcast"}, tensors, {tensors, {}}, std::move(call), by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::allreduce(Tensors& tensors,
                                                      const c10d::AllreduceOptions& options) {
  const auto by_gloo = [&] { return Gloo().allreduce(tensors, options); };
  if (tensors.size() != 1 || !ArePlain(tensors)) return by_gloo();
  const at::Tensor tensor = tensors[0];
  const Reduction how = ReductionOf(tensor.scalar_type(), options.reduceOp);
  const at::Tensor place = PlaceFor(tensor);
  QueuedCall call;
  call.spans = {Writes(tensor)};
  call.timeout = TimeoutOf(options.timeout);
  call.post = [tensor, place, how](Communicator& comm, Request* request) {
    Copy(tensor, place);
    return AllReduceAsync(DataOf(place), DataOf(place), how.CountOf(place), how.type, how.op, comm, request);
  };
  call.finish = [tensor, place] { Copy(place, tensor); };
  return StartReduction({c10d::OpType::ALLREDUCE, "epic:all_reduce"}, tensors, {tensors, {}}, std::move(call),
                        options.reduceOp, by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const auto by_gloo = [&] { return Gloo().allreduce_coalesced(tensors, options); };
  if (tensors.empty() || !ArePlain(tensors)) return by_gloo();
  const Reduction how = ReductionOf(tensors[0].scalar_type(), options.reduceOp);
  QueuedCall call;
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != tensors[0].scalar_type()) return by_gloo();
    call.spans.push_back(Writes(tensor));
    count += tensor.numel();
  }
  CheckResults(tensors);
  const at::Tensor flat = Staging(tensors[0], count);
  call.timeout = TimeoutOf(options.timeout);
  call.post = [tensors, flat, how](Communicator& comm, Request* request) {
    Gather(tensors, flat);
    return AllReduceAsync(DataOf(flat), DataOf(flat), how.CountOf(flat), how.type, how.op, comm, request);
  };
  call.finish = [tensors, flat] { Scatter(flat, tensors); };
  return StartReduction({c10d::OpType::ALLREDUCE_COALESCED, "epic:all_reduce"}, tensors, {tensors, {}},
                        std::move(call), options.reduceOp, by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const auto by_gloo = [&] { return Gloo().reduce(tensors, options); };
  const auto root = static_cast<int>(options.rootRank);
  if (tensors.size() != 1 || !ArePlain(tensors) || options.rootTensor != 0 || root < 0 || root >= getSize()) {
    return by_gloo();
  }
  const at::Tensor tensor = tensors[0];
  const Reduction how = ReductionOf(tensor.scalar_type(), options.reduceOp);
  const bool receives = root == getRank();
  const at::Tensor place = receives ? PlaceFor(tensor) : tensor;
  QueuedCall call;
  call.spans = {receives ? Writes(tensor) : Reads(tensor)};
  call.timeout = TimeoutOf(options.timeout);
  call.post = [tensor, place, receives, how, root, held = at::Tensor()](Communicator& comm,
                                                                        Request* request) mutable {
    if (receives) Copy(tensor, place);
    held = receives ? place : InOnePiece(tensor);
    return ReduceAsync(DataOf(held), DataOf(held), how.CountOf(held), how.type, how.op, root, comm, request);
  };
  if (receives) call.finish = [tensor, place] { Copy(place, tensor); };
  return StartReduction({c10d::OpType::REDUCE, "epic:reduce"}, tensors, {tensors, {}}, std::move(call),
                        options.reduceOp, by_gloo);
}

ProcessGroupEpic::WorkPtr ProcessGroupEpic::barrier(const c10d::BarrierOptions& options) {
  QueuedCall call;
  call.timeout = TimeoutOf(options.timeout);
  call.post = [](Communicator& comm, Request* request) { return BarrierAsync(comm, request); };
  return Start({c10d::OpType::BARRIER, "epic:barrier"}, {}, {}, std::move(call),
               [&] { return Gloo().barrier(options); });
}

}  // namespace epic::pytorch
