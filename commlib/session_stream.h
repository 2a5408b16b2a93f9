// What a session does (session.h): its stream to the manager, or one after the other where that has been away
// (docs/PROTOCOL-CONTROL.md, section 15). Thread-safe.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/grpc/in_turn.h"
#include "base/signals_blocked.h"
#include "commlib/alarms.h"
#include "commlib/backoff.h"
#include "commlib/echo_probe.h"
#include "commlib/log.h"
#include "commlib/manager_call.h"
#include "commlib/manager_channel.h"
#include "commlib/session.h"
#include "commlib/session_errors.h"
#include "commlib/session_messages.h"
#include "commlib/timeouts.h"
#include "commlib/unsaid.h"
#include "commlib/wait_question.h"
#include "proto/manager.grpc.pb.h"

namespace epic::internal {

// The owner's Close waits for gRPC to be done: this object, and with it the channel, must not be destroyed on
// one of gRPC's threads, which that would join.
class SessionStream : private ManagerCall::Owner {
 public:
  using FailureHandler = Session::FailureHandler;
  using PeerHandler = Session::PeerHandler;
  using CallsHandler = Session::CallsHandler;

  SessionStream(std::string manager, const JoinInfo& info)
      : manager_(std::move(manager)),
        group_(info.group),
        managers_(manager_, ManagerArguments(manager_)),
        rank_(info.rank),
        manager_timeout_(info.manager_timeout),
        away_timeout_(info.away_timeout),
        join_(ToProto(info)),
        state_(info.size),
        echo_probe_(info.ip) {}

  // gives_up: as in Options.
  Error Connect(std::chrono::milliseconds timeout, const std::function<bool()>& gives_up) {
    if (Error e = ConnectToManager(manager_, timeout, gives_up, &managers_); !e.ok()) return e;
    ManagerCall* call = nullptr;
    {
      const std::lock_guard lock(mutex_);
      call = NewCall(false);
      SendLocked(join_);
    }
    call->StartCall();
    return {};
  }

  void Send(proto::ClientMessage message) {
    const std::lock_guard lock(mutex_);
    DropOver();
    SendLocked(std::move(message));
  }

  // Waits until the answer to the join is there.
  Error WaitJoined(std::optional<Clock::time_point> deadline, const std::function<bool()>& gives_up,
                   JoinedInfo* joined) {
    std::unique_lock lock(mutex_);
    const auto answered = [this] { return state_.joined().has_value() || state_.failure().has_value(); };
    const auto wait = [&](Clock::time_point until) {
      if (until != Clock::time_point::max()) return changed_.wait_until(lock, until, answered);
      changed_.wait(lock, answered);
      return true;
    };
    if (GivesUp(gives_up, deadline.value_or(Clock::time_point::max()), wait)) return GivenUp();
    if (!answered()) {
      return {ErrorCode::kJoinTimeout,
              fmt::format("the manager at {} did not answer in time; {}", manager_, state_.waiting())};
    }
    if (state_.joined()) *joined = *state_.joined();
    return state_.failure().value_or(Error());
  }

  Error WaitLeft(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, DeadlineAfter(Clock::now(), timeout),
                        [this] { return state_.left() || state_.failure().has_value(); });
    if (state_.left()) return {};
    if (state_.failure()) return *state_.failure();
    return {ErrorCode::kTimeout, "not every rank has left the group in time"};
  }

  void AskWait(std::chrono::milliseconds within) {
    const std::lock_guard lock(mutex_);
    DropOver();
    if (closing_ || call_ == nullptr || (question_ && !question_->answered())) return;
    question_ = std::make_unique<WaitQuestion>(managers_.operator->(), group_, within);
  }

  std::string WaitInWords() {
    const std::lock_guard lock(mutex_);
    return question_ ? question_->words() : "";
  }

  // Half-closes the stream and waits for the manager to end it: a cancelled stream could lose what was
  // written. If the manager is away and may not have heard this rank's leaving or abort, the rank goes back
  // to it to say so, again and again; `away` is for that, in which another manager leads, but no more than
  // the away timeout.
  void Finish(std::chrono::milliseconds timeout = std::chrono::seconds(1),
              std::chrono::milliseconds away = std::chrono::seconds(10));

  bool is_away() {
    const std::lock_guard lock(mutex_);
    return away_;
  }
  // Calls and alarms that have not been given free.
  size_t kept() {
    const std::lock_guard lock(mutex_);
    return calls_.size() + alarms_.size();
  }

  void SetFailureHandler(FailureHandler handler) {
    std::unique_lock lock(mutex_);
    if (!state_.failure()) {
      handler_ = std::move(handler);
      return;
    }
    const Error failure = *state_.failure();
    lock.unlock();
    handler(failure);
  }

  void SetPeerHandler(PeerHandler handler) {
    std::unique_lock lock(mutex_);
    peer_handler_ = std::move(handler);
    if (!TellPeers()) TellFailure(&lock);
  }

  void SetCallsHandler(CallsHandler handler) {
    std::unique_lock lock(mutex_);
    calls_handler_ = std::move(handler);
    if (!answering_) AnswerCalls(&lock);
  }

  // No handler runs when this has returned.
  void Close() {
    std::unique_lock lock(mutex_);
    handler_ = nullptr;
    peer_handler_ = nullptr;
    calls_handler_ = nullptr;
    state_.SetLeft();
    closing_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !handling_ && !answering_; });
    lock.unlock();
    if (peers_teller_.joinable()) peers_teller_.join();
    question_.reset();
    lock.lock();
    alarms_.End(&lock);  // from now on there are no more calls
    for (const auto& call : calls_) {
      call->context.TryCancel();
      call->GiveUpHold();
    }
    changed_.wait(
        lock, [this] { return std::ranges::all_of(calls_, [](const auto& call) { return call->over; }); });
  }

 protected:
  const std::string manager_, group_;  // manager_: or several, as ManagerAddress gives them
  InTurn<proto::Manager> managers_;    // another is chosen with the lock

 private:
  void OnRead(ManagerCall* call, bool ok) override {
    std::unique_lock lock(mutex_);
    if (!ok || call != call_) {
      call->GiveUpHold();  // OnOver knows why
      return;
    }
    call->heard = true;
    if (std::exchange(joins_again_, false)) EndAbsence();
    bool failed = away_ ? OnAnswerToReturn(call->in) : state_.OnMessage(call->in);
    if (call->in.has_waiting()) Log(LogLevel::kInfo, "{}", state_.waiting());
    changed_.notify_all();
    if (const std::optional<Ipv4> about = state_.TakeProbe()) AnswerProbe(*about);
    failed |= !TellPeers();
    if (failed) TellFailure(&lock);
    if (!answering_) AnswerCalls(&lock);
    lock.unlock();
    call->StartRead(&call->in);
  }

  void OnWritten(ManagerCall* call, bool ok) override {
    const std::lock_guard lock(mutex_);
    if (call != call_) return;
    writes_.pop();
    if (!ok) return;
    if (!writes_.empty()) {
      call->StartWrite(&writes_.front());
    } else if (finishing_) {
      call->EndWrites();
    }
  }

  // session_away.cc.
  void OnOver(ManagerCall* call, const grpc::Status& status) override;
  bool OnAnswerToReturn(const proto::ServerMessage& message);
  // is_another: who has answered is not the manager that leads.
  bool MayReturn(const grpc::Status& status, bool is_another) const;
  // is_there: such a one has answered, with these words.
  void GoAway(const ManagerCall& call, bool is_there, const std::string& answer);
  void ComeBack();
  void GiveUp(uint64_t absence, std::chrono::milliseconds patience);

  // With the lock, as all that follows. The caller starts it without the lock.
  ManagerCall* NewCall(bool waits) {
    calls_.push_back(std::make_unique<ManagerCall>(static_cast<Owner*>(this), managers_.operator->(), waits));
    return call_ = calls_.back().get();
  }

  void EndAbsence() {
    ++absences_;
    alarms_.Stop(patience_);
    backoff_.Reset();
  }

  // Of those before. Not in a call of theirs; in one of an alarm, which is not over until it returns.
  void DropOver() {
    std::erase_if(calls_, [](const auto& call) { return call->over; });
    alarms_.DropOver();
  }

  void SendLocked(const proto::ClientMessage& message) {
    if (finishing_) return;
    unsaid_.OnSaid(message);
    // What is said while nobody hears it is said when somebody does.
    if (CanWrite()) Write(message);
  }

  bool CanWrite() const { return call_ != nullptr && call_->held(); }

  void Write(const proto::ClientMessage& message) {
    writes_.push(message);
    if (writes_.size() == 1) call_->StartWrite(&writes_.front());
  }

  void AnswerProbe(Ipv4 about) {
    const EchoProbe::Answer answer = echo_probe_.Ask(about);
    SendLocked(ProbedOf(about, answer.asked, answer.answered));
  }

  // What has been asked, if anything; the handler runs without the lock, which is held before and afterwards.
  void AnswerCalls(std::unique_lock<std::mutex>* lock) {
    while (calls_handler_ && state_.TakeCallsAsked()) {
      const CallsHandler handler = calls_handler_;
      answering_ = true;
      lock->unlock();
      std::vector<CallsInfo> calls = handler();
      lock->lock();
      answering_ = false;
      changed_.notify_all();
      if (calls.empty()) continue;
      const CallsInfo own = std::move(calls.front());
      calls.erase(calls.begin());
      SendLocked(ToProto(own, calls));
    }
  }

  // Runs the handler without the lock, which is held before and afterwards.
  void TellFailure(std::unique_lock<std::mutex>* lock) {
    const FailureHandler handler = std::move(handler_);
    handler_ = nullptr;
    handling_ = handler != nullptr;
    changed_.notify_all();
    if (!handler) return;
    const Error failure = *state_.failure();
    lock->unlock();
    handler(failure);
    lock->lock();
    handling_ = false;
    changed_.notify_all();
  }

  // Handlers block while they make connections: a thread of their own, from when there is something to tell,
  // leaves gRPC's to read meanwhile. False if there can be none, and the session has failed by that.
  bool TellPeers() {
    if (closing_ || !peer_handler_ || !state_.has_peers()) return true;
    changed_.notify_all();
    if (peers_teller_.joinable()) return true;
    try {
      const SignalsBlocked blocked;
      peers_teller_ = std::thread([this] { RunPeersTeller(); });
      return true;
    } catch (const std::system_error& e) {
      return !FailHere({ErrorCode::kNoResource,
                        fmt::format("no thread for the connections with other ranks: {}", e.what())});
    }
  }

  // What the manager does not know of: it tells the other ranks. False if the session had failed before.
  bool FailHere(const Error& failure) {
    if (!state_.Fail(failure)) return false;
    SendLocked(AbortOf(failure.message()));
    return true;
  }

  void RunPeersTeller() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closing_ || state_.has_peers(); });
      if (closing_) return;
      const PeerHandler handler = peer_handler_;
      const std::vector<PeerEndInfo> ends = state_.TakePeers();
      lock.unlock();
      for (const PeerEndInfo& end : ends) handler(end);
      lock.lock();
    }
  }

  const uint32_t rank_;
  const std::chrono::milliseconds manager_timeout_, away_timeout_;
  const proto::ClientMessage join_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ManagerCall>> calls_;  // until DropOver or Close
  ManagerCall* call_ = nullptr;                      // that of now; null: it has broken
  std::queue<proto::ClientMessage> writes_;          // of it; the first is being written
  Alarms alarms_{&mutex_};
  bool away_ = false, joins_again_ = false;  // the manager has gone, and it had joined or had not
  bool coming_back_ = false;                 // by an alarm, which makes the next call
  uint64_t absences_ = 0;                    // that are over
  uint64_t patience_ = 0;                    // the alarm that ends the absence of now
  Backoff backoff_;                          // of the calls of one absence
  std::string no_answer_;                    // what has been said last by who is not the manager that leads
  Unsaid unsaid_;
  SessionState state_;
  EchoProbe echo_probe_;
  std::unique_ptr<WaitQuestion> question_;  // the last one
  FailureHandler handler_;
  PeerHandler peer_handler_;
  CallsHandler calls_handler_;
  bool handling_ = false, answering_ = false, closing_ = false, finishing_ = false;
  std::thread peers_teller_;  // joinable once it is needed
};

}  // namespace epic::internal
