#include "incengine/daemon/service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/grpc/acceptor.h"
#include "base/grpc/listener.h"
#include "base/grpc/not_a_manager.h"
#include "base/grpc/self_check.h"
#include "proto/manager.pb.h"
#include "proto/switch.grpc.pb.h"

namespace epic::daemon {
namespace {

constexpr std::chrono::seconds kShutdownTimeout(1);
// Who has gone is noticed so soon.
constexpr std::chrono::milliseconds kWatchInterval(500);
// What changes all the time is told so often.
constexpr std::chrono::milliseconds kBetweenChanges(100);
constexpr int kMostWatchers = 8;
// Of calls; those that watch among them.
constexpr int kMostThreads = 256;
constexpr size_t kMostMemory = size_t{64} << 20;
constexpr int kExitDeaf = 1;

// The one place where a Status becomes gRPC's: the codes are the same by definition.
grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

class Service final : public proto::SwitchTable::Service {
 public:
  Service(ShardedControl& control, Changes& changes) : control_(control), changes_(changes) {}

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest* request,
                        proto::EngineInfo* reply) override {
    return Answer(control_.Describe(*request), reply);
  }
  grpc::Status Hold(grpc::ServerContext*, const proto::HoldRequest* request,
                    proto::HoldReply* reply) override {
    return Answer(control_.Hold(*request), reply);
  }
  grpc::Status Dump(grpc::ServerContext*, const proto::DumpRequest* page, proto::DumpReply* reply) override {
    return Answer(control_.Dump(*page), reply);
  }
  grpc::Status Install(grpc::ServerContext*, const proto::InstallRequest* request,
                       proto::InstallReply* reply) override {
    return Answer(control_.Install(*request), reply);
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::RemoveRequest* request,
                      proto::RemoveReply* reply) override {
    return Answer(control_.Remove(*request), reply);
  }
  grpc::Status Fail(grpc::ServerContext*, const proto::FailRequest* request,
                    proto::FailReply* reply) override {
    return Answer(control_.Fail(*request), reply);
  }
  grpc::Status SetForwarding(grpc::ServerContext*, const proto::SetForwardingRequest* request,
                             proto::SetForwardingReply* reply) override {
    return Answer(control_.SetForwarding(*request), reply);
  }
  grpc::Status Probe(grpc::ServerContext*, const proto::ProbeRequest* request,
                     proto::ProbeReply* reply) override {
    return Answer(control_.Probe(*request), reply);
  }
  grpc::Status Locate(grpc::ServerContext*, const proto::LocateRequest* request,
                      proto::LocateReply* reply) override {
    return Answer(control_.Locate(*request), reply);
  }
  // On a thread of its own for as long as the caller watches.
  grpc::Status Watch(grpc::ServerContext* context, const proto::WatchRequest*,
                     grpc::ServerWriter<proto::EngineInfo>* writer) override {
    const Watcher watcher(&watchers_);
    if (watcher.number() > kMostWatchers) return {grpc::RESOURCE_EXHAUSTED, "too many watch this engine"};
    uint64_t seen = 0;
    for (bool tell = true; !ended_ && !context->IsCancelled();) {
      if (tell) {
        seen = changes_.Await(0, {});
        const auto info = control_.Describe();
        if (!info.ok()) return ToGrpc(info.status());
        if (!writer->Write(*info)) break;
        std::this_thread::sleep_for(kBetweenChanges);
      }
      tell = changes_.Await(seen + 1, kWatchInterval) > seen;
    }
    return grpc::Status::OK;
  }
  // Watch returns soon.
  void End() {
    ended_ = true;
    changes_.Note();
  }

 private:
  // Counts itself for as long as it lives.
  class Watcher {
   public:
    explicit Watcher(std::atomic<int>* count) : count_(*count), number_(++count_) {}
    ~Watcher() { --count_; }
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;
    int number() const { return number_; }

   private:
    std::atomic<int>& count_;
    const int number_;
  };

  template <typename Reply>
  static grpc::Status Answer(StatusOr<Reply> result, Reply* reply) {
    if (result.ok()) *reply = *std::move(result);
    return ToGrpc(result.status());
  }

  ShardedControl& control_;
  Changes& changes_;
  std::atomic<int> watchers_ = 0;
  std::atomic<bool> ended_ = false;
};

class GrpcControlServer final : public ControlServer {
 public:
  GrpcControlServer(ShardedControl& control, Changes& changes) : service_(control, changes) {}
  ~GrpcControlServer() override {
    check_.reset();
    service_.End();
    if (acceptor_) acceptor_->Stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTimeout);
  }

  Status Listen(const std::string& socket_path) {
    StatusOr<Listener> listener = Listener::AtPath(socket_path, 0660);
    if (!listener.ok()) return listener.status();
    acceptor_.emplace(*std::move(listener),
                      AcceptorOptions{.say = [](const std::string& line) { spdlog::warn("{}", line); }});
    grpc::ServerBuilder builder;
    // One caller, the agent: two threads do, and one more for as long as it watches.
    acceptor_->AddTo(&builder, {.streams = 64, .memory = kMostMemory, .threads = kMostThreads, .queues = 1});
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    builder.RegisterService(&service_);
    builder.RegisterService(&not_a_manager_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return MakeStatus(StatusCode::kUnavailable, socket_path + ": cannot serve there");
    acceptor_->Start();
    check_.emplace(&*acceptor_, [](const std::string& why) {
      spdlog::critical("ends: {}", why);
      std::_Exit(kExitDeaf);
    });
    return absl::OkStatus();
  }

 private:
  Service service_;
  NotAManager not_a_manager_{proto::RegisterRequest::descriptor()->file()->FindServiceByName("Manager"),
                             "the engine of a switch"};
  std::optional<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<SelfCheck> check_;
};

}  // namespace

StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& socket_path,
                                                              ShardedControl& control, Changes& changes) {
  auto server = std::make_unique<GrpcControlServer>(control, changes);
  if (Status status = server->Listen(socket_path); !status.ok()) return status;
  return StatusOr<std::unique_ptr<ControlServer>>(std::move(server));
}

}  // namespace epic::daemon
