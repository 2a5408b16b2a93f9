// Of a session (session_stream.h) what it does while its manager is away, and what it says at last
// (docs/PROTOCOL-CONTROL.md, section 15).
#include "commlib/session_stream.h"
#include "commlib/stream_end.h"

namespace epic::internal {

void SessionStream::Finish(std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  std::unique_lock lock(mutex_);
  DropOver();
  finishing_ = true;
  if (away_ && unsaid_.has_end()) {
    // Its next attempt may be later than this rank has time.
    grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
    lock.unlock();
    ComeBack();
    lock.lock();
  }
  if (writes_.empty() && CanWrite()) call_->EndWrites();
  changed_.wait_until(lock, until, [this] { return call_ == nullptr && !coming_back_; });
}

// To a rank that comes back; what else is said before the answer is none. True if the session has failed by
// it.
bool SessionStream::OnAnswerToReturn(const proto::ServerMessage& message) {
  if (message.has_rejoined()) {
    away_ = false;
    EndAbsence();
    Log(LogLevel::kInfo, "group {}: rank {}: {} is back", group_, rank_, WhoIsAt(manager_));
    return false;
  }
  // Who does not know this life of the group, or such a rank, is not its manager.
  const proto::ErrorCode code = message.failure().code();
  if (message.has_failure() && (code == proto::ERROR_INVALID_ARGUMENT || code == proto::ERROR_MANAGER_LOST))
    return state_.Fail(NotTakenBack(manager_, message.failure().message()));
  return message.has_failure() || message.has_left() ? state_.OnMessage(message) : false;
}

void SessionStream::OnOver(ManagerCall* call, const grpc::Status& status) {
  std::unique_lock lock(mutex_);
  if (call == call_) {
    call_ = nullptr;
    writes_ = {};
    if (MayReturn(status)) {
      GoAway(call->heard);
    } else if (state_.Fail(call->heard || away_ ? SessionBroke(manager_) : NothingHeard(manager_, status))) {
      TellFailure(&lock);
    }
  }
  call->over = true;  // Close may give all free as soon as the lock is
  changed_.notify_all();
}

// Of a session whose stream has broken. While it joins, only if the manager has gone by that.
bool SessionStream::MayReturn(const grpc::Status& status) const {
  if (closing_ || state_.left() || state_.failure() || away_timeout_.count() == 0) return false;
  // A manager that ends the stream in order has read all.
  if (finishing_ && (status.ok() || !unsaid_.has_end())) return false;
  return StreamMayReturn(manager_, state_.joined(), status.error_code());
}

// Who has said nothing yet may be no manager: it has no longer than one that cannot be reached.
void SessionStream::GoAway(bool heard) {
  const bool is_news = !std::exchange(state_.joined() ? away_ : joins_again_, true);
  if (is_news) {
    Log(LogLevel::kWarn, "group {}: rank {}: {} is away", group_, rank_, WhoIsAt(manager_));
    const auto patience = heard ? away_timeout_ : std::min(away_timeout_, manager_timeout_);
    patience_ = alarms_.Ring(patience, [this, patience, absence = absences_] { GiveUp(absence, patience); });
  }
  coming_back_ = true;
  alarms_.Ring(backoff_.Next(), [this] { ComeBack(); });
}

void SessionStream::ComeBack() {
  ManagerCall* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    coming_back_ = false;
    changed_.notify_all();
    const bool has_nothing_to_say = finishing_ && !unsaid_.has_end();
    if (closing_ || call_ != nullptr || state_.failure() || state_.left() || has_nothing_to_say) return;
    call = NewCall(true);
    if (away_) {
      Write(RejoinOf(group_, rank_, *state_.joined()));
      for (const proto::ClientMessage& message : unsaid_.Again()) Write(message);
    } else {
      Write(join_);
    }
  }
  call->StartCall();
}

void SessionStream::GiveUp(uint64_t absence, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if ((!away_ && !joins_again_) || absences_ != absence) return;
  if (call_ != nullptr) call_->context.TryCancel();
  if (state_.Fail(ManagerAway(manager_, patience))) TellFailure(&lock);
}

}  // namespace epic::internal
