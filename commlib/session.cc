#include "commlib/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <queue>

#include "commlib/log.h"
#include "proto/manager.grpc.pb.h"

namespace epic::internal {
namespace {

constexpr auto kConnectTimeout = std::chrono::seconds(10);
constexpr auto kFinishTimeout = std::chrono::seconds(1);
// Beyond the time in which the manager itself must have answered.
constexpr auto kJoinGrace = std::chrono::seconds(2);
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;

static_assert(static_cast<int>(ErrorCode::kInternal) == static_cast<int>(proto::ERROR_INTERNAL));

Error FromProto(const proto::Failure& failure) {
  const int code = failure.code();
  const bool known = code > 0 && code <= static_cast<int>(ErrorCode::kInternal);
  return {known ? static_cast<ErrorCode>(code) : ErrorCode::kInternal, failure.message()};
}

JoinedInfo FromProto(const proto::Joined& joined) {
  JoinedInfo info;
  info.group_id = joined.group_id();
  info.mode = joined.mode();
  info.message_packets = joined.message_packets();
  info.window_messages = joined.window_messages();
  info.connect = {.remote_ip = Ipv4{joined.remote_ip()},
                  .remote_qpn = joined.remote_qpn(),
                  .send_psn = joined.send_psn(),
                  .recv_psn = joined.recv_psn(),
                  .path_mtu = joined.path_mtu(),
                  .timeout = static_cast<uint8_t>(joined.qp_timeout()),
                  .retry_cnt = static_cast<uint8_t>(joined.retry_cnt()),
                  .rnr_retry = static_cast<uint8_t>(joined.rnr_retry()),
                  .min_rnr_timer = static_cast<uint8_t>(joined.min_rnr_timer())};
  return info;
}

proto::ClientMessage ToProto(const JoinInfo& info) {
  proto::ClientMessage message;
  proto::Join& join = *message.mutable_join();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  join.set_group(info.group);
  join.set_rank(info.rank);
  join.set_world_size(info.size);
  join.set_ip(Raw(info.ip));
  join.set_qpn(info.qpn);
  join.set_max_path_mtu(info.max_path_mtu);
  join.set_max_outstanding(info.max_outstanding);
  join.set_host_name(host);
  join.set_pid(getpid());
  join.set_version(fmt::format("{}.{}.{}", EPIC_VERSION_MAJOR, EPIC_VERSION_MINOR, EPIC_VERSION_PATCH));
  join.set_join_timeout_ms(static_cast<uint32_t>(info.join_timeout.count()));
  join.set_mode(static_cast<proto::Mode>(info.mode));
  return message;
}

}  // namespace

// A hold keeps the call open for writes from our threads; it is given back when the stream has ended or
// nobody wants it any more. The owner's Close waits for gRPC to be done: this object, and with it the
// channel, must not be destroyed on one of gRPC's threads, which that would join.
class Session::Stream : public grpc::ClientBidiReactor<proto::ClientMessage, proto::ServerMessage> {
 public:
  explicit Stream(std::string manager) : manager_(std::move(manager)) {}

  Error Connect() {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(manager_, grpc::InsecureChannelCredentials(), args);
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) {
      return {
          ErrorCode::kManagerUnreachable,
          fmt::format(
              "cannot reach the manager at {} within {} s (Options::manager, EPIC_MANAGER): is incmanager "
              "running there?",
              manager_, kConnectTimeout.count())};
    }
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
    if (ended_ || finishing_) return;
    writes_.push(std::move(message));
    if (writes_.size() == 1) StartWrite(&writes_.front());
  }

  // Waits until the answer to the join is there.
  Error WaitJoined(std::optional<std::chrono::milliseconds> timeout, JoinedInfo* joined) {
    std::unique_lock lock(mutex_);
    const auto answered = [this] { return joined_.has_value() || failure_.has_value(); };
    if (!timeout) {
      changed_.wait(lock, answered);
    } else if (!changed_.wait_for(lock, *timeout, answered)) {
      return {ErrorCode::kJoinTimeout,
              fmt::format("the manager at {} did not answer in time; {}", manager_, waiting_)};
    }
    if (failure_) return *failure_;
    *joined = *joined_;
    return {};
  }

  Error WaitLeft(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return left_ || failure_.has_value(); });
    if (left_) return {};
    if (failure_) return *failure_;
    return {ErrorCode::kTimeout, "not every rank has left the group in time"};
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
    if (!failure_) {
      handler_ = std::move(handler);
      return;
    }
    const Error failure = *failure_;
    lock.unlock();
    handler(failure);
  }

  // No handler runs when this has returned.
  void Close() {
    std::unique_lock lock(mutex_);
    handler_ = nullptr;
    left_ = true;  // whatever breaks from now on is no failure
    changed_.wait(lock, [this] { return !handling_; });
    lock.unlock();
    if (!started_) return;
    context_.TryCancel();
    End();
    std::unique_lock done_lock(done_->mutex);
    done_->changed.wait(done_lock, [this] { return done_->done; });
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Fail({ErrorCode::kManagerLost, fmt::format("the session with the manager at {} broke", manager_)});
      return End();
    }
    Handle(in_);
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

  void OnDone(const grpc::Status&) override {
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

  void Handle(const proto::ServerMessage& message) {
    if (message.has_failure()) return Fail(FromProto(message.failure()));
    const std::lock_guard lock(mutex_);
    if (message.has_joined()) joined_ = FromProto(message.joined());
    if (message.has_left()) left_ = true;
    if (message.has_waiting()) {
      waiting_ =
          fmt::format("ranks that have not come: {}", fmt::join(message.waiting().missing_ranks(), ", "));
      Log(LogLevel::kInfo, "{}", waiting_);
    }
    changed_.notify_all();
  }

  void Fail(const Error& failure) {
    std::unique_lock lock(mutex_);
    if (failure_ || left_) return;
    failure_ = failure;
    const FailureHandler handler = std::move(handler_);
    handler_ = nullptr;
    handling_ = handler != nullptr;
    changed_.notify_all();
    lock.unlock();
    if (!handler) return;
    handler(failure);
    lock.lock();
    handling_ = false;
    changed_.notify_all();
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

  const std::string manager_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<proto::Manager::Stub> stub_;
  grpc::ClientContext context_;
  proto::ServerMessage in_;
  const std::shared_ptr<Done> done_ = std::make_shared<Done>();
  bool started_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<proto::ClientMessage> writes_;  // the first is being written
  std::optional<JoinedInfo> joined_;
  std::optional<Error> failure_;
  std::string waiting_ = "it has said nothing about missing ranks";
  FailureHandler handler_;
  bool handling_ = false;
  bool left_ = false;
  bool finishing_ = false;
  bool ended_ = false;
};

Error Session::Join(const std::string& manager, const JoinInfo& info, std::unique_ptr<Session>* session,
                    JoinedInfo* joined) {
  std::unique_ptr<Session> result(new Session(std::make_unique<Stream>(manager)));
  Stream* stream = result->stream_.get();
  if (Error e = stream->Connect(); !e.ok()) return e;
  stream->Send(ToProto(info));
  std::optional<std::chrono::milliseconds> timeout;
  if (info.join_timeout.count() > 0) timeout = info.join_timeout + kJoinGrace;
  if (Error e = stream->WaitJoined(timeout, joined); !e.ok()) return e;
  *session = std::move(result);
  return {};
}

Session::Session(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

Session::~Session() { stream_->Close(); }

void Session::SetFailureHandler(FailureHandler handler) { stream_->SetFailureHandler(std::move(handler)); }

void Session::Abort(const std::string& reason) {
  proto::ClientMessage message;
  message.mutable_abort()->set_reason(reason);
  stream_->Send(std::move(message));
}

Error Session::Leave(std::chrono::milliseconds timeout) {
  proto::ClientMessage message;
  message.mutable_leave()->set_drained(true);
  stream_->Send(std::move(message));
  return stream_->WaitLeft(timeout);
}

void Session::Finish() { stream_->Finish(); }

}  // namespace epic::internal
