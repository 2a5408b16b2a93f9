// The lives of a manager, its turns, and what it has its store keep, as incmanager/rpc/core_keeps.cc does it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "incmanager/rpc/convert_policy.h"
#include "incmanager/rpc/kept.h"
#include "sim/restarts/kept_manager.h"

namespace epic::sim {
namespace {

constexpr Nanos kTick = 100 * kMillisecond;
constexpr Nanos kKeepPeriod = kSecond;  // of what nobody waits for

}  // namespace

void KeptManager::Start() {
  store_ = std::make_unique<manager::MemoryStore>(rows_);
  auto kept = BeginEpoch(store_.get(), At());
  EPIC_CHECK(kept.ok());
  rows_ = store_->After(store_->count());
  ++life_;
  epoch_ = kept->epoch;
  const uint64_t seed = shape_.control.seed + 1'000'003 * life_;
  state_ = std::make_unique<manager::ManagerState>(topology_, shape_.control.groups, seed, seed,
                                                   static_cast<manager::ManagerWorld*>(this));
  Turn([&] { state_->Resume(At(), *kept, "memory"); });
  // Whoever has not been told it by the manager before has it from here on, and hears of it later.
  for (const proto::StoredGroup& stored : kept->running) {
    const manager::Group* const group = state_->groups().FindRunning(stored.id());
    if (group == nullptr) continue;
    for (const auto& [rank, member] : group->members)
      ends_.OnSent(RankEnds::RankOf(member.join.nonce), group->plan.replies[rank]);
  }
  if (life_ > 1) agents_.OnManager();
  TickFrom(world_.now() + kTick);
  more_by_ = world_.now() + kKeepPeriod;
  AwaitEnd();
}

void KeptManager::AwaitEnd() {
  armed_ = false;
  if (restarts_ == shape_.restarts.size()) return;
  const Restart& next = shape_.restarts[restarts_];
  AtLife(world_.now() + next.pause, [this, &next] {
    if (next.commit == 0) return Die();
    armed_ = true;
    commits_left_ = next.commit;
    AtLife(world_.now() + kSecond, [this] { Die(); });
  });
}

void KeptManager::Die() {
  const Nanos now = world_.now();
  state_.reset();
  armed_ = false;
  effects_.clear();
  held_.clear();
  sessions_.clear();
  for (const auto& stream : std::exchange(streams_, {})) {
    stream->cut = now + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(2 * shape_.control.message)));
    world_.At(stream->cut, [this, stream] { ends_.OnBroken(stream); });
  }
  agents_.OnManagerGone();
  contexts_.OnManagerLost();
  world_.At(now + shape_.restarts[restarts_++].away, [this] { Start(); });
}

void KeptManager::AtLife(Nanos time, std::function<void()> action) {
  world_.At(time, [this, life = life_, action = std::move(action)] {
    if (state_ && life == life_) action();
  });
}

void KeptManager::TickFrom(Nanos time) {
  AtLife(time, [this, time] {
    Turn([this] { state_->Tick(world_.now()); });
    if (world_.now() >= more_by_ && commits_by_ <= world_.now()) {
      more_by_ = world_.now() + kKeepPeriod;
      Post(state_->TakeUnkept(At()), [] {});
    }
    TickFrom(time + kTick);
  });
}

void KeptManager::Turn(uint64_t life, const std::function<void(manager::ManagerState&)>& call) {
  if (!state_ || life != life_) return;
  Turn([&] { call(*state_); });
}

void KeptManager::Turn(const std::function<void()>& call) {
  call();
  state_->CheckInvariants();
  manager::Batch batch = state_->TakeBefore(At());
  if (batch.empty() && effects_.empty()) return;
  const auto turn = std::make_shared<Held>(Held{batch.empty(), std::exchange(effects_, {})});
  held_.push_back(turn);
  if (turn->may) return Release();
  Post(std::move(batch), [this, turn] {
    turn->may = true;
    Release();
  });
}

void KeptManager::Release() {
  while (!held_.empty() && held_.front()->may) {
    const std::shared_ptr<Held> turn = std::move(held_.front());
    held_.pop_front();
    for (const Effect& effect : turn->effects) effect();
  }
}

void KeptManager::Post(manager::Batch batch, std::function<void()> kept) {
  commits_by_ = std::max(commits_by_, world_.now()) + Within(shape_.commit);
  AtLife(commits_by_, [this, batch = std::move(batch), kept = std::move(kept)] {
    const bool dies = armed_ && --commits_left_ == 0;
    const Restart* const end = dies ? &shape_.restarts[restarts_] : nullptr;
    if (!dies || end->kept) Keep(batch);
    if (dies) return Die();
    kept();
  });
}

void KeptManager::Keep(const manager::Batch& batch) {
  for (const manager::RowChange& change : batch) {
    if (change.value) {
      rows_[change.row] = *change.value;
    } else {
      rows_.erase(change.row);
    }
  }
}

template <typename Request, typename Do>
Status KeptManager::Change(const Request& request, const Do& change) {
  const StatusOr<manager::Batch> batch = state_->Keep(request);
  if (!batch.ok()) return batch.status();
  Keep(*batch);
  Status status;
  Turn([&] { status = change(*state_); });
  return status;
}

Status KeptManager::SetTenant(const manager::Tenant& tenant) {
  proto::SetTenantRequest request;
  *request.mutable_tenant() = manager::ToProto(tenant);
  return Change(
      request, [&](manager::ManagerState& state) { return state.SetTenant(world_.now(), request).status(); });
}

Status KeptManager::RemoveTenant(const std::string& name) {
  proto::RemoveTenantRequest request;
  request.set_name(name);
  return Change(request, [&](manager::ManagerState& state) {
    return state.RemoveTenant(world_.now(), request).status();
  });
}

void KeptManager::SetDefaultPolicy(manager::Policy policy) {
  proto::PolicyRequest request;
  request.set_policy(manager::Name(policy));
  EPIC_CHECK(Change(request, [&](manager::ManagerState& state) {
               return state.DefaultPolicy(world_.now(), request).status();
             }).ok());
}

Status KeptManager::Create(const manager::GroupSpec& spec) {
  const proto::CreateGroupRequest request = manager::RequestOf(spec);
  return Change(request, [&](manager::ManagerState& state) { return state.CreateGroup(request).status(); });
}

Status KeptManager::Destroy(const std::string& name) {
  proto::DestroyGroupRequest request;
  request.set_name(name);
  return Change(request, [&](manager::ManagerState& state) {
    return state.DestroyGroup(world_.now(), name, /*force=*/false).status();
  });
}

}  // namespace epic::sim
