// torch's process group whose collectives EPIC computes.
#pragma once

#include <epic/epic.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "pytorch/call_queue.h"

namespace epic::pytorch {

// What EPIC has a type, an operation and plain tensors for goes through it, all else to a group of Gloo's
// that the caller has made of the same ranks; which, is decided by what is the same on every rank. Every
// function throws in a child of fork, where neither group may be touched: the destructor leaves both as they
// are there.
class ProcessGroupEpic : public c10d::ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `gloo`: for what EPIC does not do. `timeout`: of each call.
  ProcessGroupEpic(c10::intrusive_ptr<c10d::ProcessGroup> gloo, int rank, int size,
                   std::chrono::milliseconds timeout);
  // Leaves the group, without waiting for anybody.
  ~ProcessGroupEpic() override;

  // Joins a group of EPIC of this name; all ranks call it before they use anything else. Returns why not, if
  // so, and whether others know more of it.
  std::pair<std::string, bool> Join(const std::string& name);
  // The group is not to be used after all, or no more.
  void Abort(const std::string& reason);
  // As CallQueue's.
  void SetQuantise(bool on);
  // "through the switches", or "between the hosts" and why.
  std::string Path();
  // The same, or "by Gloo" and why, of a reduce_scatter whose output is like this, and of other calls of such
  // a tensor: reductions by `op`, or copies without.
  std::string PathOfReduceScatter(const at::Tensor& output, const c10d::ReduceOp& op);
  std::string PathOf(const at::Tensor& tensor, const std::optional<c10d::ReduceOp>& op);

  const std::string getBackendName() const override { return "epic"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // Gloo's, of any type and layout where tensors are plain.
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  // Gloo's, as it has them.
  WorkPtr send(Tensors& tensors, int rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  void setSequenceNumberForGroup() override;
  uint64_t getSequenceNumberForGroup() override;

 private:
  struct Kind {
    c10d::OpType type;
    const char* title;
  };
  struct Result {
    Tensors outputs;
    std::vector<Tensors> lists;  // instead, if there are several
  };

  // A call's own deadline; 0 if it has none.
  static std::chrono::milliseconds TimeoutOf(std::chrono::milliseconds timeout);
  c10d::ProcessGroup& Gloo();
  void CheckProcess() const;
  std::string TextOfPath(const std::function<PathTaken(const Communicator&)>& ask);
  // For the result, which Complete ends.
  c10::intrusive_ptr<EpicWork> MakeWork(Kind kind, const Tensors& inputs, Result result);
  // Starts a call; if a switch lacks what it needs, what `by_gloo` does instead.
  WorkPtr Start(Kind kind, const Tensors& inputs, Result result, QueuedCall call,
                const std::function<WorkPtr()>& by_gloo);
  // The same of a reduction, if Gloo has it; else throws why the group does not.
  WorkPtr StartReduction(Kind kind, const Tensors& inputs, Result result, QueuedCall call,
                         const c10d::ReduceOp& op, const std::function<WorkPtr()>& by_gloo);
  // A call of Gloo's that is under way, behind which `finish` runs in a thread of Gloo's.
  WorkPtr ByGloo(Kind kind, const Tensors& inputs, Result result, const WorkPtr& call,
                 std::function<void()> finish);
  // An all_gather of lists, which may have another length for each rank.
  WorkPtr GatherLists(Kind kind, const std::vector<Tensors>& outputs, const Tensors& inputs, Result result,
                      std::chrono::milliseconds timeout, const std::function<WorkPtr()>& by_gloo);

  c10::intrusive_ptr<c10d::ProcessGroup> gloo_;
  std::shared_ptr<CallQueue> queue_;
  const std::chrono::milliseconds timeout_;
  const pid_t process_;
};

}  // namespace epic::pytorch
