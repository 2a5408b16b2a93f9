// What the manager has of a former one, and what its store is to keep.
#include <fmt/format.h>

#include <utility>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/convert_policy.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/stored.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// Of one batch, which stays below Store::kMostBytes.
constexpr Nanos kSettlesIn = 10 * kSecond;
constexpr Nanos kEndsKeptFor = 600 * kSecond;
constexpr size_t kMostEvents = 500, kMostBegun = 1'000;

}  // namespace

void ManagerState::Resume(const Moment& at, const Kept& kept, const std::string& place) {
  now_ = at.now;
  NameItself(kept.cluster, kept.epoch, true);
  events_.Resume(kept.events);
  groups_.Resume(kept.groups);
  groups_.StartKeeping();
  Note(fmt::format("manager: started with the store {}: cluster {}, epoch {}, {}, {}", place,
                   ClusterName(kept.cluster), kept.epoch,
                   Counted(kept.groups.reserved.size(), "reserved group"),
                   Counted(kept.groups.tenants.size(), "tenant")));
  ResumeGroups(at.now, kept);
}

void ManagerState::ResumeGroups(Nanos now, const Kept& kept) {
  for (const GroupEnd& end : kept.ended) {
    groups_.ResumeEnd(end);
    ends_kept_.emplace_back(end.at, end.name);
  }
  switches_kept_ = kept.switches;
  for (const std::string& name : kept.switches) {
    if (graph_.discovers() || topology_.FindSwitch(name)) {
      awaited_.insert(name);
    } else {
      ForgetSwitch(name, "the topology has it no more");
    }
  }
  settled_at_ = now + kSettlesIn;
  for (const proto::StoredGroup& stored : kept.running) ResumeServer(now, stored);
  if (graph_.discovers()) unfound_ = kept.running;
  for (const proto::StoredGroup& stored : kept.running) {
    if (graph_.discovers()) break;
    StatusOr<Group> group = FromStored(topology_, stored);
    group.ok() ? groups_.ResumeGroup(now, *std::move(group)) : EndResumed(now, stored, group.status());
    OnResumed(now, stored);
  }
  if (kept.running.empty()) return;
  Note(fmt::format("manager: {} from before; ranks have {} s to come back",
                   Counted(kept.running.size(), "group"), GroupLife::kBackWithin / kSecond));
  if (!graph_.discovers()) ComputeTables(now);
}

void ManagerState::EndResumed(Nanos now, const proto::StoredGroup& stored, const Status& why) {
  const Group gone{.spec = FromProto(stored.spec()), .id = stored.id(), .generation = stored.generation()};
  groups_.EndResumed(now, gone, std::string(why.message()));
}

void ManagerState::OnSettled(Nanos now, NodeId node, const proto::EngineInfo& engine,
                             const ContextReports& contexts) {
  groups_.OnContexts(now, node, contexts, 0, WhoElse(engine));
  if (!unfound_.empty()) had_[node] = contexts;
  const std::string& name = topology_.nodes[node].name;
  if (switches_kept_.insert(name).second) switches_changed_.insert(name);
  awaited_.erase(name);
}

void ManagerState::Settle(Nanos now) {
  for (const std::string& name : std::exchange(awaited_, {})) {
    ForgetSwitch(
        name, fmt::format("it has not registered within {} s of the manager's start", kSettlesIn / kSecond));
  }
  for (const auto& [id, join] : held_.Take()) OnJoin(now, id, join);
}

void ManagerState::ForgetSwitch(const std::string& name, const std::string& why) {
  switches_kept_.erase(name);
  switches_changed_.insert(name);
  Note(fmt::format("switch {}: not awaited when a manager starts, until it registers: {}", name, why));
}

void ManagerState::OnRejoin(Nanos now, SessionId id, const proto::Rejoin& rejoin) {
  if (groups_.HasSession(id) || waiting_.contains(id) || held_.Contains(id))
    return Refuse(id, Failure{ErrorCode::kInvalidArgument, "a session joins one group only", -1, ""});
  groups_.OnRejoin(now, id,
                   {.group = Shortened(rejoin.group()),
                    .group_id = rejoin.group_id(),
                    .generation = rejoin.generation(),
                    .rank = rejoin.rank(),
                    .secret = rejoin.secret()});
}

Batch ManagerState::TakeBefore(const Moment& at, std::vector<uint64_t>* begun) {
  Batch batch;
  const GroupLife::Changed changed = groups_.TakeChanged();
  for (const std::string& name : changed.ended) {
    const GroupEnd* const end = groups_.EndOf(name);
    if (end == nullptr) continue;  // 10,000 others have ended since
    batch.push_back(RowOf(*end, at));
    ends_kept_.emplace_back(end->at, name);
  }
  // Behind these: a turn that needs several transactions leaves no group without either, when the manager
  // dies between them.
  for (const uint64_t id : changed.ids) {
    const Group* const group = groups_.FindKept(id);
    batch.push_back(group == nullptr ? RowChange{GroupKey(id), {}} : RowOf(ToStored(topology_, *group)));
    if (group != nullptr && begun != nullptr) begun->push_back(id);
  }
  return batch;
}

void ManagerState::OnNotKept(Nanos now, const std::vector<uint64_t>& begun, const Status& why) {
  now_ = now;
  OnStoreHealth(now, why);
  for (const uint64_t id : begun) {
    if (const Group* const group = groups_.FindKept(id); group != nullptr)
      groups_.FailWith(now, id, {ErrorCode::kNoResource, NothingNew(group->spec.name), -1, ""});
  }
}

StatusOr<Batch> ManagerState::Keep(const proto::CreateGroupRequest& request) const {
  const StatusOr<GroupSpec> spec = groups_.MayCreate(FromProto(request));
  if (!spec.ok()) return spec.status();
  return Batch{RowOf(*spec)};
}

StatusOr<Batch> ManagerState::Keep(const proto::DestroyGroupRequest& request) const {
  if (Status status = groups_.MayDestroy(request.name(), request.force()); !status.ok()) return status;
  if (groups_.FindReserved(request.name()) == nullptr) return Batch{};
  return Batch{{{RowKind::kReserved, request.name()}, {}}, {{RowKind::kLives, request.name()}, {}}};
}

StatusOr<Batch> ManagerState::Keep(const proto::PolicyRequest& request) const {
  if (request.policy().empty()) return Batch{};
  const auto policy = PolicyFromProto(request);
  if (!policy.ok()) return policy.status();
  return Batch{RowOf(*policy)};
}

StatusOr<Batch> ManagerState::Keep(const proto::SetTenantRequest& request) const {
  const StatusOr<Tenant> tenant = FromProto(request.tenant());
  if (!tenant.ok()) return tenant.status();
  if (Status status = groups_.MaySetTenant(*tenant); !status.ok()) return status;
  return Batch{RowOf(*tenant)};
}

StatusOr<Batch> ManagerState::Keep(const proto::RemoveTenantRequest& request) const {
  if (Status status = groups_.MayRemoveTenant(request.name()); !status.ok()) return status;
  return Batch{{{RowKind::kTenant, request.name()}, {}}};
}

RowChange ManagerState::TruthOf(const RowKey& row) const {
  switch (row.kind) {
    case RowKind::kMeta:  // of the two only the policy changes
      return RowOf(groups_.default_policy());
    case RowKind::kReserved: {
      const GroupSpec* const spec = groups_.FindReserved(row.key);
      return spec == nullptr ? RowChange{row, {}} : RowOf(*spec);
    }
    case RowKind::kLives: {
      const uint32_t lives = groups_.LivesOf(row.key);
      return lives == 0 ? RowChange{row, {}} : RowOfLives(row.key, lives);
    }
    case RowKind::kTenant: {
      const Tenant* const tenant = groups_.tenants().Find(row.key);
      return tenant == nullptr ? RowChange{row, {}} : RowOf(*tenant);
    }
    case RowKind::kEvent:  // written by TakeUnkept and TakeBefore alone
    case RowKind::kSwitch:
    case RowKind::kGroup:
    case RowKind::kEnded:
      break;
  }
  return {row, {}};
}

Batch ManagerState::TruthOf(const Batch& of) const {
  Batch truth;
  for (const RowChange& change : of) truth.push_back(TruthOf(change.row));
  return truth;
}

Batch ManagerState::TakeUnkept(const Moment& at, const std::set<RowKey>& changing) {
  Batch batch;
  std::set<std::string> later;
  for (const RowKey& row : changing) {
    if (row.kind == RowKind::kLives) later.insert(row.key);
  }
  for (const std::string& name : groups_.TakeBegun(kMostBegun, later))
    batch.push_back(TruthOf({RowKind::kLives, name}));
  for (const std::string& name : std::exchange(switches_changed_, {}))
    batch.push_back(switches_kept_.contains(name) ? RowOfSwitch(name)
                                                  : RowChange{{RowKind::kSwitch, name}, {}});
  size_t old = 0;
  for (; old < ends_kept_.size() && at.now - ends_kept_[old].first > kEndsKeptFor; ++old) {
    const GroupEnd* const end = groups_.EndOf(ends_kept_[old].second);
    // There may be a later one of this name.
    if (end == nullptr || at.now - end->at > kEndsKeptFor)
      batch.push_back({{RowKind::kEnded, ends_kept_[old].second}, {}});
  }
  ends_kept_.erase(ends_kept_.begin(), ends_kept_.begin() + static_cast<std::ptrdiff_t>(old));
  const EventLog::Changes changes = events_.TakeChanges(kMostEvents);
  for (const uint64_t number : changes.dropped) batch.push_back({EventKey(number), {}});
  for (const Event& event : changes.events) batch.push_back(RowOf(event, at));
  return batch;
}

void ManagerState::OnStoreHealth(Nanos now, const Status& health) {
  const std::string trouble = health.ok() ? "" : Shortened(std::string(health.message()));
  if (trouble == store_trouble_) return;
  now_ = now;
  store_trouble_ = trouble;
  store_hangs_ = health.code() == StatusCode::kDeadlineExceeded;
  if (trouble.empty()) return Note("manager: its store can be written again");
  if (store_hangs_) {
    return Warn(fmt::format(
        "manager: its store hangs, so that what is new is refused, and what happens to groups is told "
        "when it goes on: {}",
        trouble));
  }
  Warn(fmt::format("manager: its store cannot be written, so that nothing new is promised; groups run on: {}",
                   trouble));
}

std::string ManagerState::StoreTrouble(const std::string& so) const {
  return fmt::format("the manager's store {}{}: {}", store_hangs_ ? "hangs" : "cannot be written", so,
                     store_trouble_);
}

std::string ManagerState::NothingNew(const std::string& group) const {
  return fmt::format("group {}: {}", group, StoreTrouble(", and nothing new is promised"));
}

void ManagerState::OnRowLost(Nanos now, const std::string& row) {
  now_ = now;
  Warn(fmt::format("manager: its store does not take a row, so that this does not outlive it: {}",
                   Shortened(row)));
}

proto::EventsReply ManagerState::Events(Nanos now, const proto::EventsRequest& request) const {
  proto::EventsReply reply;
  bool more = false;
  const EventQuery query{.after = request.after(), .about = request.about(), .last = request.last()};
  for (const Event& event : events_.Find(query, &more)) *reply.add_events() = ToProto(event, now);
  reply.set_more(more);
  reply.set_newest(events_.newest());
  return reply;
}

}  // namespace epic::manager
