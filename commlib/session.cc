#include "commlib/session.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <queue>
#include <system_error>
#include <thread>

#include "base/signals_blocked.h"
#include "commlib/echo_probe.h"
#include "commlib/log.h"
#include "commlib/manager_channel.h"
#include "commlib/session_errors.h"
#include "commlib/session_messages.h"
#include "commlib/timeouts.h"
#include "commlib/wait_question.h"
#include "proto/manager.grpc.pb.h"

namespace epic::internal {
namespace {

constexpr auto kAskTimeout = std::chrono::seconds(15);
constexpr auto kFinishTimeout = std::chrono::seconds(1);
// Beyond the time in which the manager itself must have answered.
constexpr auto kJoinGrace = std::chrono::seconds(2);

}  // namespace

// A hold keeps the call open for writes from our threads; it is given back when the stream has ended or
// nobody wants it any more. The owner's Close waits for gRPC to be done: this object, and with it the
// channel, must not be destroyed on one of gRPC's threads, which that would join.
class Session::Stream : public grpc::ClientBidiReactor<proto::ClientMessage, proto::ServerMessage> {
 public:
  Stream(std::string manager, const JoinInfo& info)
      : manager_(std::move(manager)), group_(info.group), state_(info.size), echo_probe_(info.ip) {}

  // gives_up: as in Options.
  Error Connect(std::chrono::milliseconds timeout, const std::function<bool()>& gives_up) {
    if (Error e = ConnectToManager(manager_, timeout, gives_up, &channel_); !e.ok()) return e;
    stub_ = proto::Manager::NewStub(channel_);
    started_ = true;
    stub_->async()->Session(&context_, this);
    AddHold();
    StartRead(&in_);
    StartCall();
    return {};
  }

  void Send(proto::ClientMessage message) {
    const std::lock_guard lock(mutex_);
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

  // ask_ranks: as in the request.
  Error Show(bool ask_ranks, proto::GroupState* group) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAskTimeout);
    proto::ShowGroupRequest request;
    request.set_name(group_);
    request.set_ask_ranks(ask_ranks);
    const grpc::Status status = stub_->ShowGroup(&context, request, group);
    return status.ok() ? Error() : GroupUnknown(manager_, status);
  }

  void AskWait(std::chrono::milliseconds within) {
    const std::lock_guard lock(mutex_);
    if (closing_ || ended_ || (question_ && !question_->answered())) return;
    question_ = std::make_unique<WaitQuestion>(stub_.get(), group_, within);
  }

  std::string WaitInWords() {
    const std::lock_guard lock(mutex_);
    return question_ ? question_->words() : "";
  }

  // Half-closes the stream and waits for the manager to end it: a cancelled stream could lose what was
  // written.
  void Finish() {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    if (writes_.empty() && !ended_) StartWritesDone();
    changed_.wait_for(lock, kFinishTimeout, [this] { return ended_; });
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
    if (!started_) return;
    question_.reset();
    context_.TryCancel();
    End();
    std::unique_lock done_lock(done_->mutex);
    done_->changed.wait(done_lock, [this] { return done_->done; });
  }

  void OnReadDone(bool ok) override {
    std::unique_lock lock(mutex_);
    if (!ok && !heard_) {
      lock.unlock();
      return End();  // OnDone knows why
    }
    heard_ = true;
    if (!ok) {
      if (state_.Fail(SessionBroke(manager_))) TellFailure(&lock);
      lock.unlock();
      return End();
    }
    bool failed = state_.OnMessage(in_);
    if (in_.has_waiting()) Log(LogLevel::kInfo, "{}", state_.waiting());
    changed_.notify_all();
    if (const std::optional<Ipv4> about = state_.TakeProbe()) AnswerProbe(*about);
    failed |= !TellPeers();
    if (failed) TellFailure(&lock);
    if (!answering_) AnswerCalls(&lock);
    lock.unlock();
    StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writes_.pop();
    if (!ok || ended_) return;
    if (!writes_.empty()) {
      StartWrite(&writes_.front());
    } else if (finishing_) {
      StartWritesDone();
    }
  }

  void OnDone(const grpc::Status& status) override {
    FailUnheard(status);
    const std::shared_ptr<Done> done = done_;  // outlives this object, which Close gives free
    const std::lock_guard lock(done->mutex);
    done->done = true;
    done->changed.notify_all();
  }

 private:
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };

  // Of a session in which nothing has been said to us.
  void FailUnheard(const grpc::Status& status) {
    std::unique_lock lock(mutex_);
    if (heard_) return;
    if (state_.Fail(NothingHeard(manager_, status))) TellFailure(&lock);
  }

  void SendLocked(proto::ClientMessage message) {
    if (ended_ || finishing_) return;
    writes_.push(std::move(message));
    if (writes_.size() == 1) StartWrite(&writes_.front());
  }

  void AnswerProbe(Ipv4 about) {
    const EchoProbe::Answer answer = echo_probe_.Ask(about);
    proto::ClientMessage message;
    proto::Probed& probed = *message.mutable_probed();
    probed.set_ip(Raw(about));
    probed.set_asked(answer.asked);
    probed.set_answered(answer.answered);
    SendLocked(std::move(message));
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

  // With the lock held. Handlers block while they make connections: a thread of their own, from when there is
  // something to tell, leaves gRPC's to read what the manager says meanwhile. False if there can be none, and
  // the session has failed by that.
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

  void End() {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      changed_.notify_all();
    }
    RemoveHold();
  }

  const std::string manager_, group_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<proto::Manager::Stub> stub_;
  grpc::ClientContext context_;
  proto::ServerMessage in_;
  const std::shared_ptr<Done> done_ = std::make_shared<Done>();
  bool started_ = false;

  std::mutex mutex_;    // guards the rest
  bool heard_ = false;  // something was said to us
  std::condition_variable changed_;
  std::queue<proto::ClientMessage> writes_;  // the first is being written
  SessionState state_;
  EchoProbe echo_probe_;
  std::unique_ptr<WaitQuestion> question_;  // the last one
  FailureHandler handler_;
  PeerHandler peer_handler_;
  CallsHandler calls_handler_;
  bool handling_ = false;
  bool answering_ = false;
  bool closing_ = false;
  std::thread peers_teller_;  // joinable once it is needed
  bool finishing_ = false;
  bool ended_ = false;
};

Error Session::Join(const std::string& manager, const JoinInfo& info, std::unique_ptr<Session>* session,
                    JoinedInfo* joined) {
  std::unique_ptr<Session> result(new Session(std::make_unique<Stream>(manager, info)));
  Stream* stream = result->stream_.get();
  if (Error e = stream->Connect(info.manager_timeout, info.gives_up); !e.ok()) return e;
  stream->Send(ToProto(info));
  std::optional<Clock::time_point> deadline;
  if (info.join_timeout.count() > 0)
    deadline = DeadlineAfter(DeadlineAfter(Clock::now(), info.join_timeout), kJoinGrace);
  if (Error e = stream->WaitJoined(deadline, info.gives_up, joined); !e.ok()) return e;
  *session = std::move(result);
  return {};
}

Session::Session(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

Session::~Session() { stream_->Close(); }

void Session::SetFailureHandler(FailureHandler handler) { stream_->SetFailureHandler(std::move(handler)); }
void Session::SetPeerHandler(PeerHandler handler) { stream_->SetPeerHandler(std::move(handler)); }
void Session::SetCallsHandler(CallsHandler handler) { stream_->SetCallsHandler(std::move(handler)); }

void Session::TellPeer(const PeerEndInfo& end) { stream_->Send(ToProto(end)); }
void Session::Abort(const std::string& reason) { stream_->Send(AbortOf(reason)); }
void Session::TellMismatch(const std::string& how) {
  proto::ClientMessage message = AbortOf(how);
  message.mutable_abort()->set_mismatch(true);
  stream_->Send(std::move(message));
}
void Session::TellNotFinite(const std::string& how) {
  proto::ClientMessage message = AbortOf(how);
  message.mutable_abort()->set_not_finite(true);
  stream_->Send(std::move(message));
}
void Session::TellWindow(const WindowTrials::Found& found) { stream_->Send(ToProto(found)); }
void Session::TellDatagrams(const MulticastCounts& counts) { stream_->Send(ToProto(counts)); }

Error Session::Leave(std::chrono::milliseconds timeout, const Error& refused) {
  stream_->Send(LeaveOf(refused));
  return stream_->WaitLeft(timeout);
}

Error Session::Trouble(std::vector<TroubleCount>* counts) {
  proto::GroupState group;
  if (Error e = stream_->Show(false, &group); !e.ok()) return e;
  *counts = TroubleOf(group);
  return {};
}
Error Session::Waiting(WaitState* state) {
  proto::GroupState group;
  if (Error e = stream_->Show(true, &group); !e.ok()) return e;
  *state = WaitOf(group);
  return {};
}
void Session::AskWait(std::chrono::milliseconds within) { stream_->AskWait(within); }
std::string Session::WaitInWords() { return stream_->WaitInWords(); }
void Session::Finish() { stream_->Finish(); }

}  // namespace epic::internal
