// How the manager's changes come into its store: PROTOCOL-CONTROL.md, 15.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_core.h"

namespace epic::manager {
namespace {

constexpr Nanos kKeepPeriod = kSecond;  // of what nobody waits for

}  // namespace

Moment ManagerCore::At() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {.now = Now(), .unix_us = std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count()};
}

void ManagerCore::EndTurn() {
  std::vector<uint64_t> begun;
  Batch batch = state_.TakeBefore(At(), &begun);
  if (!committer_.keeps()) batch.clear();
  if (batch.empty() && effects_.empty()) return;
  const auto turn = std::make_shared<Held>(Held{batch.empty(), std::exchange(effects_, {})});
  held_.push_back(turn);
  if (turn->may) return Release();
  committer_.Post(std::move(batch), [this, turn, begun = std::move(begun)](const Status& kept) {
    const Turn now(this, mutex_);
    turn->may = true;
    if (!kept.ok() && committer_.MayTell()) state_.OnNotKept(Now(), begun, kept);
    Release();
  });
}

void ManagerCore::Release() {
  while (!held_.empty() && held_.front()->may) {
    const std::shared_ptr<Held> turn = std::move(held_.front());
    held_.pop_front();
    // What is asked of switches and ranks by a manager that ends is the next one's to ask.
    if ((stop_ && committer_.keeps()) || !committer_.MayTell()) continue;
    for (const Effect& effect : turn->effects) effect();
  }
}

bool ManagerCore::IsOver(const proto::ServerMessage& message) const {
  return message.has_joined() && state_.groups().FindRunning(message.joined().group_id()) == nullptr;
}

bool ManagerCore::AwaitOthers(const Batch& batch, std::chrono::steady_clock::time_point deadline) {
  const auto is_free = [&] {
    mutex_.AssertHeld();
    for (const RowChange& change : batch) {
      if (changing_.contains(change.row)) return false;
    }
    return true;
  };
  if (is_free()) return false;
  // Who has waited long enough is refused by the store, as those before him.
  return changed_.wait_until(mutex_, deadline, is_free);
}

Status ManagerCore::Commit(const Batch& batch) {
  for (const RowChange& change : batch) {
    if (changing_.contains(change.row))
      return MakeStatus(StatusCode::kDeadlineExceeded,
                        "the manager's store does not answer those who came before");
  }
  for (const RowChange& change : batch) changing_.insert(change.row);
  const auto late = [this, batch](bool kept) {
    const MutexLock lock(mutex_);
    // It was not done.
    if (kept) committer_.Post(state_.TruthOf(batch));
    for (const RowChange& change : batch) changing_.erase(change.row);
    changed_.notify_all();
  };
  Status status;
  {
    const MutexUnlock unlock(mutex_);
    status = committer_.Commit(batch, late);
  }
  if (status.ok() || status.code() == StatusCode::kDeadlineExceeded) return status;
  for (const RowChange& change : batch) changing_.erase(change.row);
  changed_.notify_all();
  return status;
}

void ManagerCore::EndChange(const Batch& batch) {
  if (Batch truth = state_.TruthOf(batch); truth != batch) committer_.Post(std::move(truth));
  for (const RowChange& change : batch) changing_.erase(change.row);
  changed_.notify_all();
}

void ManagerCore::KeepMore(Nanos now) {
  state_.OnStoreHealth(now, committer_.Health());
  for (const std::string& row : committer_.TakeLost()) state_.OnRowLost(now, row);
  if (now - kept_at_ < kKeepPeriod || !committer_.IsIdle()) return;
  kept_at_ = now;
  committer_.Post(state_.TakeUnkept(At(), changing_));
}

}  // namespace epic::manager
