#include "incengine/daemon/sharded_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "base/check.h"
#include "io/packet_filter.h"

namespace epic::daemon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kCallTimeout(5);

Status Silent() {
  return MakeStatus(StatusCode::kUnavailable,
                    fmt::format("the data path did not answer within {} s", kCallTimeout.count()));
}

// Work that has been handed to a loop, and its result.
template <typename Reply>
class PostedCall {
 public:
  PostedCall(io::EventLoop& loop, std::function<StatusOr<Reply>()> work)
      : state_(std::make_shared<State>()), done_(state_->done.get_future()) {
    loop.Post([state = state_, work = std::move(work)] {
      if (!state->taken.exchange(true)) state->done.set_value(work());
    });
  }

  // Work that has not begun by then never will, so that a caller who was told "unavailable" is not surprised
  // later.
  StatusOr<Reply> Wait(Clock::time_point deadline) {
    if (done_.wait_until(deadline) != std::future_status::ready && !state_->taken.exchange(true))
      return Silent();
    return done_.get();
  }

 private:
  struct State {
    std::promise<StatusOr<Reply>> done;
    std::atomic<bool> taken = false;  // by the loop, or given up by the caller
  };
  std::shared_ptr<State> state_;
  std::future<StatusOr<Reply>> done_;
};

// The shard that all of the group's QPNs belong to. What else is wrong with them, the shard will say.
StatusOr<size_t> ShardOfGroup(const proto::GroupConfig& group, size_t shards) {
  if (group.children().empty()) return size_t{0};
  const auto count = static_cast<uint32_t>(shards);
  const uint32_t first = group.children(0).local_qpn();
  const uint32_t shard = io::ShardOf(Qpn{first}, count);
  const auto check = [&](const proto::EndpointConfig& endpoint, const std::string& field) -> Status {
    if (io::ShardOf(Qpn{endpoint.local_qpn()}, count) == shard) return {};
    return MakeStatus(
        StatusCode::kInvalidArgument,
        fmt::format(
            "{}.local_qpn: {:#x} is of another core than {:#x} of children[0]; with --cores {} the QPNs "
            "of a group must have the same low byte, and an older incmanager does not see to that",
            field, endpoint.local_qpn(), first, shards));
  };
  for (int i = 1; i < group.children_size(); ++i) {
    if (Status s = check(group.children(i), fmt::format("children[{}]", i)); !s.ok()) return s;
  }
  if (group.has_parent()) {
    if (Status s = check(group.parent(), "parent"); !s.ok()) return s;
  }
  if (group.has_server()) {
    if (Status s = check(group.server(), "server"); !s.ok()) return s;
  }
  return size_t{shard};
}

void Add(const proto::Pool& more, proto::Pool* sum) {
  sum->set_bytes(sum->bytes() + more.bytes());
  sum->set_buffers(sum->buffers() + more.buffers());
  sum->set_spare_buffers(sum->spare_buffers() + more.spare_buffers());
  sum->set_places(sum->places() + more.places());
  sum->set_places_in_use(sum->places_in_use() + more.places_in_use());
}

// Adds what another shard says. All have the same ports in the same order.
void Add(const proto::EngineInfo& more, proto::EngineInfo* sum) {
  proto::Capability& capability = *sum->mutable_capability();
  capability.set_arena_bytes(capability.arena_bytes() + more.capability().arena_bytes());
  capability.set_arena_free_bytes(capability.arena_free_bytes() + more.capability().arena_free_bytes());
  if (more.capability().has_pool()) Add(more.capability().pool(), capability.mutable_pool());
  EPIC_CHECK(more.ports_size() == sum->ports_size());
  for (int i = 0; i < more.ports_size(); ++i) {
    proto::PortInfo& port = *sum->mutable_ports(i);
    port.set_up(port.up() && more.ports(i).up());
    port.set_super_frames(port.super_frames() && more.ports(i).super_frames());
    port.set_rx_frames(port.rx_frames() + more.ports(i).rx_frames());
    port.set_tx_frames(port.tx_frames() + more.ports(i).tx_frames());
  }
  sum->mutable_group_ids()->MergeFrom(more.group_ids());
  std::sort(sum->mutable_group_ids()->begin(), sum->mutable_group_ids()->end());
  sum->mutable_contexts()->MergeFrom(more.contexts());
  sum->mutable_refused()->MergeFrom(more.refused());
}

// The same; what forwards is shard 0 alone. Nothing but groups has neither ports nor counters.
void Add(const proto::DumpReply& more, proto::DumpReply* sum) {
  if (more.has_info()) Add(more.info(), sum->mutable_info());
  sum->mutable_groups()->MergeFrom(more.groups());
  sum->set_more(sum->more() || more.more());
  std::sort(sum->mutable_groups()->begin(), sum->mutable_groups()->end(),
            [](const proto::GroupDump& a, const proto::GroupDump& b) {
              return a.config().group_id() < b.config().group_id();
            });
  EPIC_CHECK(more.counters_size() == sum->counters_size());
  for (int i = 0; i < more.counters_size(); ++i) {
    proto::Counter& counter = *sum->mutable_counters(i);
    EPIC_CHECK(counter.name() == more.counters(i).name());
    counter.set_value(counter.value() + more.counters(i).value());
  }
}

// Of the answers of all shards.
template <typename Reply>
StatusOr<Reply> Sum(StatusOr<std::vector<Reply>> replies) {
  if (!replies.ok()) return replies.status();
  for (size_t i = 1; i < replies->size(); ++i) Add((*replies)[i], &replies->front());
  return std::move(replies->front());
}

// Of answers without content.
template <typename Reply>
StatusOr<Reply> AnyOf(const StatusOr<std::vector<Reply>>& replies) {
  if (!replies.ok()) return replies.status();
  return replies->front();
}

ManagerId ManagerOf(const proto::Fence& fence) {
  return {.cluster = fence.cluster(), .epoch = fence.epoch(), .keeps = fence.keeps()};
}

proto::Fence FenceOf(const ManagerId& manager) {
  proto::Fence fence;
  fence.set_cluster(manager.cluster);
  fence.set_epoch(manager.epoch);
  fence.set_keeps(manager.keeps);
  return fence;
}

Nanos SteadyNow() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

}  // namespace

ShardedControl::ShardedControl(std::vector<Shard> shards) : shards_(std::move(shards)) {
  EPIC_CHECK(!shards_.empty());
}

template <typename Reply>
StatusOr<Reply> ShardedControl::Ask(size_t shard, const Work<Reply>& work) {
  const auto deadline = Clock::now() + kCallTimeout;
  SwitchControl* const control = shards_[shard].control;
  return PostedCall<Reply>(*shards_[shard].loop, [control, work] { return work(*control); }).Wait(deadline);
}

template <typename Reply>
StatusOr<std::vector<Reply>> ShardedControl::AskAll(const Work<Reply>& work) {
  const auto deadline = Clock::now() + kCallTimeout;
  std::vector<PostedCall<Reply>> calls;
  for (const Shard& shard : shards_)
    calls.emplace_back(*shard.loop, [control = shard.control, work] { return work(*control); });
  std::vector<Reply> replies;
  Status failed;
  // Of each, also behind one that fails: a call that nobody waits for could still be taken.
  for (PostedCall<Reply>& call : calls) {
    StatusOr<Reply> reply = call.Wait(deadline);
    if (reply.ok()) {
      replies.push_back(*std::move(reply));
    } else if (failed.ok()) {
      failed = reply.status();
    }
  }
  if (!failed.ok()) return failed;
  return StatusOr<std::vector<Reply>>(std::move(replies));
}

template <typename Act>
auto ShardedControl::Change(const proto::Fence& manager, const Act& act, bool takes_over) -> decltype(act()) {
  const auto deadline = Clock::now() + kCallTimeout;
  const std::lock_guard changing(changing_);
  if (Clock::now() > deadline) return Silent();  // by now its caller has been told so
  {
    const std::lock_guard lock(fencing_);
    const auto use = [this] { return Use().value_or(ContextUse{.any = true, .merged = fence_.merged()}); };
    if (Status fenced = fence_.Enter(SteadyNow(), ManagerOf(manager), takes_over, use); !fenced.ok())
      return fenced;
  }
  return act();
}

std::optional<ContextUse> ShardedControl::Use() {
  const auto of_shards = AskAll<ContextUse>([](SwitchControl& control) { return control.Use(); });
  if (!of_shards.ok()) return std::nullopt;
  ContextUse sum;
  for (const ContextUse& use : *of_shards) {
    sum.any |= use.any;
    sum.merged += use.merged;
  }
  return sum;
}

StatusOr<proto::HoldReply> ShardedControl::Hold(const proto::HoldRequest& request) {
  const auto held = [] { return StatusOr<proto::HoldReply>(proto::HoldReply()); };
  return Change(request.fence(), held, request.takes_over());
}

StatusOr<proto::EngineInfo> ShardedControl::Describe(const proto::DescribeRequest& request) {
  StatusOr<proto::EngineInfo> info =
      Sum(AskAll<proto::EngineInfo>([](SwitchControl& control) { return control.Describe(); }));
  const std::optional<ContextUse> use = Use();
  const std::lock_guard lock(fencing_);
  if (use) fence_.Saw(SteadyNow(), use->merged);
  if (request.has_heard()) fence_.Heard(SteadyNow(), ManagerOf(request.heard()));
  if (!info.ok() || fence_.manager().cluster.empty()) return info;
  *info->mutable_fence() = FenceOf(fence_.manager());
  info->set_fenced(fence_.Holds(SteadyNow(), info->group_ids_size() != 0));
  return info;
}

StatusOr<proto::DumpReply> ShardedControl::Dump(const proto::DumpRequest& page) {
  StatusOr<proto::DumpReply> sum =
      Sum(AskAll<proto::DumpReply>([page](SwitchControl& control) { return control.Dump(page); }));
  const int most = static_cast<int>(page.most_groups());
  // Each shard has said as many as asked for: of all these the first ones.
  if (sum.ok() && most != 0 && sum->groups_size() > most) {
    sum->mutable_groups()->DeleteSubrange(most, sum->groups_size() - most);
    sum->set_more(true);
  }
  return sum;
}

StatusOr<proto::InstallReply> ShardedControl::Install(const proto::InstallRequest& request) {
  const StatusOr<size_t> shard = ShardOfGroup(request.group(), shards_.size());
  if (!shard.ok()) return Refused(request, shard.status());
  return Change(request.fence(), [&]() -> StatusOr<proto::InstallReply> {
    if (const Status free = CheckIdIsFree(request.group().group_id(), *shard); !free.ok())
      return Refused(request, free);
    return Ask<proto::InstallReply>(*shard,
                                    [request](SwitchControl& control) { return control.Install(request); });
  });
}

Status ShardedControl::CheckIdIsFree(uint64_t group_id, size_t shard) {
  if (shards_.size() == 1) return {};
  const auto has = AskAll<int>([group_id](SwitchControl& control) { return control.Has(group_id) ? 1 : 0; });
  if (!has.ok()) return has.status();
  for (size_t i = 0; i < has->size(); ++i) {
    if (i != shard && (*has)[i] != 0)
      return MakeStatus(StatusCode::kAlreadyExists, fmt::format("group_id {} is installed", group_id));
  }
  return {};
}

StatusOr<proto::RemoveReply> ShardedControl::Remove(const proto::RemoveRequest& request) {
  return Change(request.fence(), [&] {
    return AnyOf(
        AskAll<proto::RemoveReply>([request](SwitchControl& control) { return control.Remove(request); }));
  });
}

StatusOr<proto::FailReply> ShardedControl::Fail(const proto::FailRequest& request) {
  return Change(request.fence(), [&] {
    return AnyOf(
        AskAll<proto::FailReply>([request](SwitchControl& control) { return control.Fail(request); }));
  });
}

StatusOr<proto::SetForwardingReply> ShardedControl::SetForwarding(
    const proto::SetForwardingRequest& request) {
  return Change(request.fence(), [&] {
    return Ask<proto::SetForwardingReply>(
        0, [request](SwitchControl& control) { return control.SetForwarding(request); });
  });
}

StatusOr<proto::ProbeReply> ShardedControl::Probe(const proto::ProbeRequest& request) {
  return Ask<proto::ProbeReply>(0, [request](SwitchControl& control) { return control.Probe(request); });
}

StatusOr<proto::LocateReply> ShardedControl::Locate(const proto::LocateRequest& request) {
  return Ask<proto::LocateReply>(0, [request](SwitchControl& control) { return control.Locate(request); });
}

}  // namespace epic::daemon
