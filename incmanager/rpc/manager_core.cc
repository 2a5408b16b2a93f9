#include "incmanager/rpc/manager_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <random>
#include <utility>

#include "base/system_random.h"
#include "incmanager/rpc/status.h"

namespace epic::manager {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
// With kPeerTimeoutMs of the server: a host that is gone is noticed within 15 s.
constexpr Nanos kSignOfLifePeriod = 5 * kSecond;
constexpr auto kDestroyTimeout = std::chrono::seconds(10);

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

std::string WordsOf(const Status& status) { return {status.message().data(), status.message().size()}; }

}  // namespace

ManagerCore::ManagerCore(Topology topology, const GroupOptions& options, const LinkDefaults& defaults,
                         Store* store, const Kept& kept, const CommitTimes& times)
    : state_(std::move(topology), options, RandomSeed(), RandomSeed(), this, defaults),
      dumps_(&Now),
      calls_(&Now),
      patience_(times.patience),
      committer_(store, times) {
  if (store != nullptr) {
    state_.Resume(At(), kept, store->Place());
  } else {
    state_.NameItself(SystemRandomBytes(kClusterBytes), 1, false);
  }
  ticker_ = std::thread([this] { TickLoop(); });
}

const std::string& ManagerCore::NameOf(NodeId node) const { return state_.topology().nodes[node].name; }

Nanos ManagerCore::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void ManagerCore::Stop() {
  const MutexLock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

bool ManagerCore::End() {
  Stop();
  if (ticker_.joinable()) {
    ticker_.join();
    const MutexLock lock(mutex_);  // answers of switches still come
    committer_.Post(state_.TakeBefore(At()));
    for (Batch rest = state_.TakeUnkept(At()); !rest.empty(); rest = state_.TakeUnkept(At()))
      committer_.Post(std::move(rest));
  }
  return committer_.Stop();
}

ManagerCore::~ManagerCore() {
  static_cast<void>(End());
  links_.clear();
}

void ManagerCore::TickLoop() {
  const MutexLock lock(mutex_);
  while (!stop_) {
    const Nanos now = Now();
    TakeProbeReplies(now);
    state_.Tick(now);
    SendSignsOfLife(now);
    KeepMore(now);
    EndTurn();
    changed_.wait_for(mutex_, kTick, [this] {
      mutex_.AssertHeld();
      return stop_;
    });
  }
}

void ManagerCore::SendSignsOfLife(Nanos now) {
  if (now - last_signs_of_life_ < kSignOfLifePeriod || !MayTell()) return;
  last_signs_of_life_ = now;
  for (const auto& [id, stream] : sessions_.streams) stream->SendSignOfLife();
  for (const auto& [id, stream] : hosts_.streams) stream->SendSignOfLife();
}

ManagerCore::SessionStream* ManagerCore::NewSession(const std::string& peer) {
  const MutexLock lock(mutex_);
  const SessionId id = state_.NewSession(peer);
  auto* stream = new SessionStream(id, &sessions_);
  sessions_.streams[id] = stream;
  stream->Start();
  return stream;
}

ManagerCore::HostStream* ManagerCore::NewHost() {
  const MutexLock lock(mutex_);
  const HostId id = hosts_.next++;
  auto* stream = new HostStream(id, &hosts_);
  hosts_.streams[id] = stream;
  stream->Start();
  return stream;
}

void ManagerCore::Sessions::OnMessage(SessionId id, const proto::ClientMessage& message) {
  const Turn turn(core, core->mutex_);
  core->state_.OnMessage(Now(), id, message);
}

void ManagerCore::Sessions::OnClosed(SessionId id) {
  const Turn turn(core, core->mutex_);
  // When the manager itself ends, no rank is lost.
  if (core->stop_) return;
  core->state_.OnClosed(Now(), id);
  core->changed_.notify_all();
}

void ManagerCore::Sessions::OnGone(SessionId id) {
  const MutexLock lock(core->mutex_);
  streams.erase(id);
}

void ManagerCore::Hosts::OnMessage(HostId id, const proto::FromHost& message) {
  const Turn turn(core, core->mutex_);
  core->state_.OnHostMessage(Now(), id, message);
  core->changed_.notify_all();
}

void ManagerCore::Hosts::OnClosed(HostId id) {
  const Turn turn(core, core->mutex_);
  if (core->stop_) return;
  core->state_.OnHostClosed(Now(), id);
  core->changed_.notify_all();
}

void ManagerCore::Hosts::OnGone(HostId id) {
  const MutexLock lock(core->mutex_);
  streams.erase(id);
}

void ManagerCore::Send(SessionId session, const proto::ServerMessage& message, bool last) {
  effects_.emplace_back([this, session, message, last] {
    mutex_.AssertHeld();
    if (!IsOver(message)) SendAtOnce(session, message, last);
  });
}

void ManagerCore::SendAtOnce(SessionId session, const proto::ServerMessage& message, bool last) {
  const auto found = sessions_.streams.find(session);
  if (found != sessions_.streams.end() && MayTell()) found->second->Send(message, last);
}

void ManagerCore::SendToHost(HostId host, const proto::ToHost& message) {
  effects_.emplace_back([this, host, message] {
    mutex_.AssertHeld();
    if (!IsOver(message.told().message())) SendToHostAtOnce(host, message);
  });
}

void ManagerCore::SendToHostAtOnce(HostId host, const proto::ToHost& message) {
  const auto found = hosts_.streams.find(host);
  if (found != hosts_.streams.end() && MayTell()) found->second->Send(message, false);
}

void ManagerCore::EndHost(HostId host, const Status& status) {
  effects_.emplace_back([this, host, status] {
    mutex_.AssertHeld();
    EndHostAtOnce(host, status);
  });
}

void ManagerCore::EndHostAtOnce(HostId host, const Status& status) {
  const auto found = hosts_.streams.find(host);
  if (found != hosts_.streams.end() && MayTell()) found->second->End(ToGrpc(status));
}

void ManagerCore::SetAgent(NodeId node, const std::string& address) { LinkTo(node).SetAddress(address); }

AgentLink& ManagerCore::LinkTo(NodeId node) {
  std::unique_ptr<AgentLink>& link = links_[node];
  if (link == nullptr) link = std::make_unique<AgentLink>(NameOf(node), &agents_, state_.fence());
  return *link;
}

void ManagerCore::SetForwarding(NodeId node, const proto::ForwardingTable& table) {
  effects_.emplace_back([this, node, table] {
    mutex_.AssertHeld();
    LinkTo(node).SetForwarding(table, ForwardingSet(node));
  });
}

void ManagerCore::KeepForwarding(NodeId node, uint64_t hash) {
  effects_.emplace_back([this, node, hash] {
    mutex_.AssertHeld();
    LinkTo(node).KeepForwarding(hash, ForwardingSet(node));
  });
}

AgentLink::Done ManagerCore::ForwardingSet(NodeId node) {
  return [this, node](const Status& status) {
    const Turn turn(this, mutex_);
    if (stop_) return;  // nothing more is asked of a link that goes
    state_.OnForwardingSet(Now(), node, status);
  };
}

void ManagerCore::Install(NodeId node, const proto::GroupConfig& group) {
  effects_.emplace_back([this, node, group] {
    mutex_.AssertHeld();
    LinkTo(node).Install(group, [this, node, id = group.group_id()](const InstallAnswer& answer) {
      const Turn turn(this, mutex_);
      if (stop_) return;  // nothing more is asked of a link that goes
      state_.OnInstalled(Now(), node, id, answer);
    });
  });
}

void ManagerCore::Fail(NodeId node, uint64_t group_id, uint32_t generation) {
  effects_.emplace_back([this, node, group_id, generation] {
    mutex_.AssertHeld();
    LinkTo(node).Fail(group_id, generation, [name = NameOf(node)](const Status& status) {
      // The context is removed soon in any case; a switch that does not answer drops leftovers when its agent
      // registers.
      if (!status.ok()) spdlog::warn("switch {}: group not stopped: {}", name, WordsOf(status));
    });
  });
}

void ManagerCore::Remove(NodeId node, uint64_t group_id, uint32_t generation) {
  effects_.emplace_back([this, node, group_id, generation] {
    mutex_.AssertHeld();
    LinkTo(node).Remove(group_id, generation, [this, node, group_id](const Status& status) {
      const Turn turn(this, mutex_);
      if (stop_) return;  // nothing more is asked of a link that goes
      state_.OnRemoved(Now(), node, group_id, status);
      changed_.notify_all();
    });
  });
}

void ManagerCore::Probe(NodeId witness, NodeId about, const proto::ProbeRequest& request) {
  LinkTo(witness).Probe(request, [this, witness, about, asked = Ipv4{request.ip()}](const auto& reply) {
    const MutexLock lock(probed_mutex_);
    probed_.push_back({witness, about, asked, reply});
  });
}

void ManagerCore::Locate(NodeId node, const proto::LocateRequest& request) {
  LinkTo(node).Locate(request, [this, node, ip = request.ip()](const StatusOr<proto::LocateReply>& reply) {
    const MutexLock lock(probed_mutex_);
    located_.push_back({node, ip, reply});
  });
}

void ManagerCore::TakeProbeReplies(Nanos now) {
  std::vector<Probed> probed;
  std::vector<Located> located;
  {
    const MutexLock lock(probed_mutex_);
    probed.swap(probed_);
    located.swap(located_);
  }
  for (const Located& answer : located) state_.OnLocated(now, answer.node, answer.ip, answer.reply);
  for (const Probed& answer : probed)
    state_.OnProbed(now, answer.witness, answer.about, answer.asked, answer.reply);
}

StatusOr<proto::DumpReply> ManagerCore::Tables(const proto::TablesRequest& request) {
  AgentLink* link = nullptr;
  {
    const MutexLock lock(mutex_);
    const std::string& name = request.switch_name();
    const std::optional<NodeId> node = state_.topology().FindSwitch(name);
    if (!node) return MakeStatus(StatusCode::kNotFound, fmt::format("the topology has no switch {}", name));
    link = &LinkTo(*node);
  }
  StatusOr<proto::DumpReply> reply = link->Dump(request.page());
  // UNAVAILABLE would tell the operator that the manager is out of reach.
  if (reply.status().code() == StatusCode::kUnavailable) {
    return MakeStatus(StatusCode::kFailedPrecondition, WordsOf(reply.status()));
  }
  return reply;
}

std::map<std::string, proto::DumpReply> ManagerCore::DumpsOf(const proto::GroupState& group, bool recent,
                                                             std::chrono::system_clock::time_point deadline) {
  proto::DumpRequest page;
  page.set_after_group(group.group_id() - 1);
  page.set_most_groups(1);
  std::vector<std::string> names;
  std::map<std::string, AgentLink*> links;
  {
    const MutexLock lock(mutex_);
    for (const proto::TreeNode& node : group.tree()) {
      const std::optional<NodeId> id = state_.topology().FindSwitch(node.switch_name());
      if (!id) continue;
      names.push_back(node.switch_name());
      links[node.switch_name()] = &LinkTo(*id);
    }
  }
  const auto patience =
      PatienceOf(deadline - std::chrono::system_clock::now(), std::chrono::seconds(AgentLink::kCallTimeoutS));
  const auto ask = [&links, &page](const std::string& name, SharedDumps::Answer answer) {
    links.at(name)->AskDump(page, std::move(answer));
  };
  return dumps_.Of(group.group_id(), names, recent, ask, std::chrono::steady_clock::now() + patience);
}

Status ManagerCore::DestroyGroup(const std::string& name, bool force) {
  proto::DestroyGroupRequest request;
  request.set_name(name);
  request.set_force(force);
  const StatusOr<uint64_t> id =
      Change(request, [&](ManagerState& state, Nanos now) { return state.DestroyGroup(now, name, force); });
  if (!id.ok()) return id.status();
  const MutexLock lock(mutex_);
  const auto gone = [this, &id] {
    mutex_.AssertHeld();
    return stop_ || !state_.groups().Removing(*id);
  };
  if (changed_.wait_for(mutex_, kDestroyTimeout, gone)) return absl::OkStatus();
  std::vector<std::string> late;
  const std::optional<std::set<NodeId>> removing = state_.groups().Removing(*id);
  for (const NodeId node : *removing) late.push_back(NameOf(node));
  return MakeStatus(
      StatusCode::kDeadlineExceeded,
      fmt::format("group {} is destroyed, but not yet removed from {}", name, fmt::join(late, ", ")));
}

}  // namespace epic::manager
