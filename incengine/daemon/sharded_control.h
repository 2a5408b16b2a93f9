// What the control plane can do to a switch whose groups are divided among shards (docs/ARCHITECTURE.md,
// "Threads of the engine"): takes each call to those that it is for, and makes one answer of theirs. From any
// thread. No shard waits for another, only who calls does.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "incengine/daemon/control.h"
#include "incengine/daemon/fence.h"
#include "io/event_loop.h"
#include "proto/switch.pb.h"

namespace epic::daemon {

class ShardedControl {
 public:
  struct Shard {
    io::EventLoop* loop;  // the thread that control belongs to
    SwitchControl* control;
  };
  // By number, at least one. They outlive this, and their loops run while it is called.
  explicit ShardedControl(std::vector<Shard> shards);

  // Errors are those of SwitchControl, and UNAVAILABLE if a shard's loop does not take the call in time; then
  // it never will, though others may have.
  //
  // Counters, frames and bytes of the arena are sums, groups those of all shards by their ids; a port is up,
  // and carries super-frames, if it does so for all.
  //
  // A manager changes a switch that is its own (incengine/daemon/fence.h); else FAILED_PRECONDITION.
  StatusOr<proto::EngineInfo> Describe(const proto::DescribeRequest& request = {});
  StatusOr<proto::DumpReply> Dump(const proto::DumpRequest& page = {});
  // The switch is this manager's from now on.
  StatusOr<proto::HoldReply> Hold(const proto::HoldRequest& request);
  // On the shard of the group's QPNs. INVALID_ARGUMENT also if these are not all of one shard.
  StatusOr<proto::InstallReply> Install(const proto::InstallRequest& request);
  // On every shard: that which has the group acts.
  StatusOr<proto::RemoveReply> Remove(const proto::RemoveRequest& request);
  StatusOr<proto::FailReply> Fail(const proto::FailRequest& request);
  // On shard 0, which has the traffic that they are about.
  StatusOr<proto::SetForwardingReply> SetForwarding(const proto::SetForwardingRequest& request);
  StatusOr<proto::ProbeReply> Probe(const proto::ProbeRequest& request);
  StatusOr<proto::LocateReply> Locate(const proto::LocateRequest& request);

 private:
  // What is to be done with a shard's control, on its thread.
  template <typename Reply>
  using Work = std::function<StatusOr<Reply>(SwitchControl&)>;

  // What one shard answers, or all of them, by number, which are asked at the same time.
  template <typename Reply>
  StatusOr<Reply> Ask(size_t shard, const Work<Reply>& work);
  template <typename Reply>
  StatusOr<std::vector<Reply>> AskAll(const Work<Reply>& work);

  // No shard but this one, which sees to it itself, has a group of this id; else ALREADY_EXISTS.
  Status CheckIdIsFree(uint64_t group_id, size_t shard);

  // Does what this manager asks for, if it may, and then the switch is its. Nobody else changes anything
  // meanwhile: else another one could take a switch whose first context is being installed.
  template <typename Act>
  auto Change(const proto::Fence& manager, const Act& act, bool takes_over = false) -> decltype(act());
  // Of all shards; nothing if one does not say so in time.
  std::optional<ContextUse> Use();

  const std::vector<Shard> shards_;
  std::mutex fencing_;  // guards fence_
  Fence fence_;
  std::mutex changing_;  // taken before fencing_
};

}  // namespace epic::daemon
