// Of a session (session_stream.h) what it does while its manager is away, and what it says at last
// (docs/PROTOCOL-CONTROL.md, section 15).
#include "base/grpc/standing_by.h"
#include "commlib/session_stream.h"
#include "commlib/stream_end.h"

namespace epic::internal {

void SessionStream::Finish(std::chrono::milliseconds timeout, std::chrono::milliseconds away) {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  DropOver();
  finishing_ = true;
  if (away_ && unsaid_.has_end()) {
    // Its next attempt may be later than this rank has time.
    for (const auto& channel : managers_.channels())
      grpc::experimental::ChannelResetConnectionBackoff(channel.get());
    lock.unlock();
    ComeBack();
    lock.lock();
  }
  if (writes_.empty() && CanWrite()) call_->EndWrites();
  const auto is_over = [this] { return call_ == nullptr && !coming_back_; };
  if (changed_.wait_until(lock, begin + timeout, is_over) || !away_ || !unsaid_.has_end()) return;
  changed_.wait_until(lock, begin + std::min(away, away_timeout_), is_over);
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
    const auto warn = [this](const std::string& line) { Log(LogLevel::kWarn, "group {}: {}", group_, line); };
    const bool is_another = StandsBy(call->context) || managers_.IsPassedOver(status, warn);
    call_ = nullptr;
    writes_ = {};
    if (MayReturn(status, is_another)) {
      GoAway(*call, is_another, is_another ? status.error_message() : "");
    } else if (state_.Fail(call->heard || away_ ? SessionBroke(manager_) : NothingHeard(manager_, status))) {
      TellFailure(&lock);
    }
  }
  call->over = true;  // Close may give all free as soon as the lock is
  changed_.notify_all();
}

// Of a session whose stream has broken. While it joins, only if the manager has gone by that.
bool SessionStream::MayReturn(const grpc::Status& status, bool is_another) const {
  if (closing_ || state_.left() || state_.failure()) return false;
  // A join that nobody has taken is no absence.
  if (is_another && !state_.joined()) return true;
  if (away_timeout_.count() == 0) return false;
  // A manager that ends the stream in order has read all.
  if (finishing_ && (status.ok() || !unsaid_.has_end())) return false;
  return StreamMayReturn(manager_, state_.joined(), status.error_code());
}

// Who has said nothing yet may be no manager: it has no longer than one that cannot be reached.
void SessionStream::GoAway(const ManagerCall& call, bool is_there, const std::string& answer) {
  no_answer_ = answer;
  const bool is_news = !std::exchange(state_.joined() ? away_ : joins_again_, true);
  if (is_news) {
    Log(LogLevel::kWarn, "group {}: rank {}: {}{}", group_, rank_, WhoIsAt(manager_),
        answer.empty() ? " is away" : ": " + answer);
    const auto longest =
        is_there && !state_.joined() ? manager_timeout_ : std::min(away_timeout_, manager_timeout_);
    const auto patience = call.heard ? away_timeout_ : longest;
    patience_ = alarms_.Ring(patience, [this, patience, absence = absences_] { GiveUp(absence, patience); });
  }
  coming_back_ = true;
  // Of several the others are asked before it takes a rest.
  const auto rest = managers_.NextConnected() ? std::chrono::milliseconds(0) : backoff_.Next();
  alarms_.Ring(rest, [this] { ComeBack(); });
}

void SessionStream::ComeBack() {
  ManagerCall* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    coming_back_ = false;
    changed_.notify_all();
    const bool has_nothing_to_say = finishing_ && !unsaid_.has_end();
    if (closing_ || call_ != nullptr || state_.failure() || state_.left() || has_nothing_to_say) return;
    DropOver();
    // It waits for one alone; of several it asks another one that cannot be reached.
    call = NewCall(!managers_.are_many());
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
  if (state_.Fail(ManagerAway(manager_, patience, no_answer_))) TellFailure(&lock);
}

}  // namespace epic::internal
