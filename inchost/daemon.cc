#include "inchost/daemon.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/grpc/acceptor.h"
#include "base/grpc/channel.h"
#include "base/grpc/host_name.h"
#include "base/grpc/in_turn.h"
#include "base/grpc/listener.h"
#include "base/grpc/questions.h"
#include "base/grpc/self_check.h"
#include "base/grpc/server_stream.h"
#include "base/grpc/standing_by.h"
#include "base/printable.h"
#include "inchost/hello.h"
#include "inchost/lending.h"
#include "inchost/ports.h"
#include "inchost/relay.h"
#include "inchost/servers/servers.h"
#include "io/unix_socket.h"
#include "proto/manager.grpc.pb.h"

namespace epic::host {
namespace {

using RankStream = ServerStream<proto::ClientMessage, proto::ServerMessage>;
using ManagerStream = grpc::ClientReaderWriter<proto::FromHost, proto::ToHost>;

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kRetry = std::chrono::seconds(1);
// That the manager's host is known is looked up at the start, and no more than said.
constexpr auto kFindHostTimeout = std::chrono::seconds(2);
constexpr auto kHello = std::chrono::seconds(1);
constexpr int kHellosPerRead = 5;
constexpr auto kAskTimeout = std::chrono::seconds(12);
// A rank whose process is stopped is late, not lost: it is never pinged. Its own pings are answered.
constexpr int kPingPeriodMs = 2'000'000'000;
constexpr int kMinPingIntervalMs = 5'000;
constexpr int kExitDeaf = 1;
constexpr auto kShutdownGrace = std::chrono::milliseconds(200);

Nanos Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

grpc::ChannelArguments ManagerArguments(bool are_many) {
  grpc::ChannelArguments args;
  are_many ? PingPeersOfMany(&args) : PingPeers(&args);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return args;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

class Daemon::Impl : public RelayWorld, public RankStream::Sink {
 public:
  explicit Impl(const HostOptions& options)
      : options_(options),
        service_(this),
        manager_(options.manager, ManagerArguments(AddressesOf(options.manager).size() > 1)),
        relay_(options.manager, this, options.manager_wait) {
    info_.set_name(options.name.empty() ? HostName() : options.name);
    info_.set_version(options.version);
    ReadPorts(&info_);
  }

  ~Impl() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      relay_.OnStop();
      if (context_ != nullptr) context_->TryCancel();
    }
    changed_.notify_all();
    check_.reset();
    if (acceptor_) acceptor_->Stop();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
      server_->Wait();
      acceptor_.reset();
    }
    if (reader_.joinable()) reader_.join();
    if (writer_.joinable()) writer_.join();
    if (watcher_.joinable()) watcher_.join();
  }

  Status Serve() {
    if (const Status lends = Lend(); !lends.ok()) return lends;
    if (const Status claimed = io::ClaimSocketPath(options_.socket); !claimed.ok())
      return MakeStatus(claimed.code(), fmt::format("socket: {}", std::string(claimed.message())));
    // Programs of all users of the host connect to it.
    StatusOr<Listener> listener = Listener::AtPath(options_.socket, 0666);
    if (!listener.ok()) {
      return MakeStatus(StatusCode::kUnavailable,
                        fmt::format("socket: {}: is its folder there, and may we write to it?",
                                    std::string(listener.status().message())));
    }
    acceptor_.emplace(*std::move(listener),
                      AcceptorOptions{.say = [](const std::string& line) { spdlog::warn("{}", line); }});
    grpc::ServerBuilder builder;
    acceptor_->AddTo(&builder, {.streams = 64});
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingPeriodMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr)
      return MakeStatus(StatusCode::kUnavailable, fmt::format("socket: cannot serve on {}", options_.socket));
    acceptor_->Start();
    check_.emplace(&*acceptor_, [](const std::string& why) {
      spdlog::critical("ends: {}", why);
      std::_Exit(kExitDeaf);
    });
    reader_ = std::thread([this] { ReadManager(); });
    writer_ = std::thread([this] { WriteManager(); });
    watcher_ = std::thread([this] { WatchPorts(); });
    return absl::OkStatus();
  }

  // RelayWorld; with the lock held.
  void ToManager(const proto::FromHost& message) override {
    to_manager_.push_back(message);
    changed_.notify_all();
  }
  void ToRank(RankId rank, const proto::ServerMessage& message, bool last) override {
    const auto found = ranks_.find(rank);
    if (found != ranks_.end()) found->second->Send(message, last);
  }

  void Break(RankId rank, bool manager_lives) override {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end()) return;
    found->second->End(manager_lives
                           ? grpc::Status(grpc::UNAVAILABLE, "this host's daemon stood still, or ends")
                           : grpc::Status(grpc::ABORTED, "this host has lost the manager"));
  }

  // RankStream::Sink.
  void OnMessage(uint64_t rank, const proto::ClientMessage& message) override {
    const std::lock_guard lock(mutex_);
    relay_.OnRank(Now(), rank, message);
  }
  void OnClosed(uint64_t rank) override {
    const std::lock_guard lock(mutex_);
    relay_.OnRankClosed(rank);
  }
  void OnGone(uint64_t rank) override {
    const std::lock_guard lock(mutex_);
    ranks_.erase(rank);
  }

 private:
  // Before any thread of this daemon.
  Status Lend() {
    if (options_.fallback_bytes == 0) return absl::OkStatus();
    const auto say = [this](const auto& said) {
      const std::lock_guard lock(mutex_);
      ToManager(Lending::ToManager(said, info_));
    };
    auto servers = Servers::Open({.bytes = options_.fallback_bytes, .ifname = options_.fallback_ifname},
                                 {.made = say, .ended = say});
    if (!servers.ok()) {
      return MakeStatus(servers.status().code(),
                        fmt::format("fallback: {}", std::string(servers.status().message())));
    }
    servers_ = *std::move(servers);
    lending_ = Lending(servers_.get());
    return absl::OkStatus();
  }
  // With the lock held: who the host is, and what it lends now.
  void SayWho() {
    proto::HostInfo info = info_;
    lending_.AddTo(&info);
    relay_.OnStream(Now(), info);
  }

  // What a rank asks of the manager, served to the ranks of this host.
  class Service : public proto::Manager::WithCallbackMethod_Session<proto::Manager::Service> {
   public:
    explicit Service(Impl* daemon) : daemon_(daemon) {}
    grpc::ServerBidiReactor<proto::ClientMessage, proto::ServerMessage>* Session(
        grpc::CallbackServerContext*) override {
      return daemon_->NewRank();
    }
    grpc::Status ShowGroup(grpc::ServerContext* asked, const proto::ShowGroupRequest* request,
                           proto::GroupState* reply) override {
      const Questions::One question(&questions_);
      if (!question.status().ok()) return {grpc::RESOURCE_EXHAUSTED, std::string(question.status().message())};
      grpc::ClientContext context;
      // The rank's, by which the manager knows how long it may wait for switches.
      context.set_deadline(std::min(asked->deadline(), std::chrono::system_clock::now() + kAskTimeout));
      return daemon_->manager_->ShowGroup(&context, *request, reply);
    }

   private:
    Impl* const daemon_;
    Questions questions_;
  };

  RankStream* NewRank() {
    const std::lock_guard lock(mutex_);
    const RankId rank = next_rank_++;
    auto* stream = new RankStream(rank, this);
    ranks_[rank] = stream;
    stream->Start();
    return stream;
  }

  // One line per change of state, however often the same thing is tried.
  void Say(const std::string& state, bool good) {
    if (state == said_) return;
    said_ = state;
    const std::string line = Printable(fmt::format("{}: {}", info_.name(), state));
    good ? spdlog::info("{}", line) : spdlog::warn("{}", line);
  }

  void ReadManager() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      grpc::ClientContext context;
      context_ = &context;
      lock.unlock();
      const std::shared_ptr<ManagerStream> stream = manager_->HostSession(&context);
      lock.lock();
      to_manager_.clear();
      stream_ = stream;
      SayWho();
      proto::ToHost message;
      while (true) {
        lock.unlock();
        const bool ok = stream->Read(&message);
        lock.lock();
        if (!ok) break;
        relay_.OnManager(Now(), message);
        lending_.OnManager(message);
        if (!message.has_welcome()) continue;
        Say(fmt::format("registered at the manager {}", manager_.address()), true);
      }
      stream_ = nullptr;
      changed_.wait(lock, [this] { return !writing_; });
      lock.unlock();
      const grpc::Status status = stream->Finish();
      lock.lock();
      context_ = nullptr;
      const std::string why = Why(status, StandsBy(context));
      if (!stop_) relay_.OnStreamEnd(why, status.error_code() == grpc::DEADLINE_EXCEEDED);
      lending_.OnStreamEnd(Now());
      if (!stop_) Say(fmt::format("waiting for the manager at {}: {}", options_.manager, why), false);
      const auto warn = [](const std::string& line) { spdlog::warn("{}", Printable(line)); };
      const bool is_other = IsGone(status) || manager_.IsPassedOver(status, warn);
      if (!is_other || !manager_.NextConnected()) changed_.wait_for(lock, kRetry, [this] { return stop_; });
    }
  }

  // Another one may lead then.
  static bool IsGone(const grpc::Status& status) {
    return status.error_code() == grpc::UNAVAILABLE || status.error_code() == grpc::CANCELLED || status.ok();
  }

  std::string Why(const grpc::Status& status, bool stands_by) const {
    // Of several each has its own answer.
    const bool has_no_lead = IsGone(status) || status.error_code() == grpc::UNIMPLEMENTED;
    if (manager_.are_many() && has_no_lead) return "none of them answers and leads";
    if (stands_by) return status.error_message();
    switch (status.error_code()) {
      case grpc::UNAVAILABLE:
      case grpc::CANCELLED:
        return "it does not answer";
      case grpc::OK:
        return "it has ended";
      case grpc::UNIMPLEMENTED:
        return status.error_message().empty() ? "it is of a version that knows of no host daemons, or no manager"
                                              : "it is no manager: " + status.error_message();
      default:
        return "it refuses this host: " + status.error_message();
    }
  }

  // Writes what is to be written, and keeps the time. While this thread is held up the manager hears nothing
  // of the host, and has its switch ask whether it lives.
  void WriteManager() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (stream_ != nullptr && !to_manager_.empty()) {
        const std::shared_ptr<ManagerStream> stream = stream_;
        const proto::FromHost message = std::move(to_manager_.front());
        to_manager_.pop_front();
        writing_ = true;
        lock.unlock();
        stream->Write(message);
        lock.lock();
        writing_ = false;
        changed_.notify_all();
        continue;
      }
      changed_.wait_for(lock, kTick,
                        [this] { return stop_ || (stream_ != nullptr && !to_manager_.empty()); });
      relay_.Tick(Now());
      lending_.Tick(Now());
    }
  }

  // Asks devices, which may take their time, and says hello by them.
  void WatchPorts() {
    std::unique_lock lock(mutex_);
    for (int round = 1; !changed_.wait_for(lock, kHello, [this] { return stop_; }); ++round) {
      proto::HostInfo info = info_;
      lock.unlock();
      // NICs and addresses come and go.
      const bool read = round % kHellosPerRead == 0;
      if (read) ReadPorts(&info);
      const std::string wrong = hellos_.Say(info);
      lock.lock();
      if (read) TakeInfo(info);
      if (wrong == hello_wrong_) continue;
      hello_wrong_ = wrong;
      if (!wrong.empty()) {
        spdlog::warn("{}: cannot say hello by {}; switches know this host by its ARP alone", info_.name(),
                     wrong);
      }
    }
  }

  void TakeInfo(const proto::HostInfo& read) {
    if (read.SerializeAsString() == info_.SerializeAsString()) return;
    info_ = read;
    if (stream_ != nullptr) SayWho();
  }

  const HostOptions options_;
  Service service_;
  InTurn<proto::Manager> manager_;
  std::optional<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<SelfCheck> check_;

  std::mutex mutex_;
  std::condition_variable changed_;  // to_manager_, stream_, writing_ or stop_
  bool stop_ = false;
  proto::HostInfo info_;
  Relay relay_;
  Lending lending_{nullptr};
  std::map<RankId, RankStream*> ranks_;
  RankId next_rank_ = 1;
  std::shared_ptr<ManagerStream> stream_;  // while it is read
  grpc::ClientContext* context_ = nullptr;
  std::deque<proto::FromHost> to_manager_;
  bool writing_ = false;  // the writer uses the stream, without the lock
  Hellos hellos_;         // of the writer
  std::string said_, hello_wrong_;
  std::thread reader_, writer_, watcher_;
  std::unique_ptr<Servers> servers_;  // if this host lends memory
};

StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const HostOptions& options) {
  const auto invalid = [](const std::string& message) {
    return MakeStatus(StatusCode::kInvalidArgument, message);
  };
  HostOptions checked = options;
  const auto manager = ManagerAddress(options.manager);
  if (!manager.ok()) return invalid("manager (--manager, EPIC_MANAGER): " + std::string(manager.status().message()));
  // A name that is not known yet may be in a moment: its owner may start later.
  if (const Status host = FindHosts(*manager, kFindHostTimeout); !host.ok())
    spdlog::warn("manager (--manager, EPIC_MANAGER): {}; trying again", std::string(host.message()));
  checked.manager = *manager;
  auto impl = std::make_unique<Impl>(checked);
  if (const Status status = impl->Serve(); !status.ok()) return status;
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

}  // namespace epic::host
