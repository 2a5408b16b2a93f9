#include "incengine/daemon/service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <future>

#include "proto/switch.grpc.pb.h"

namespace epic::daemon {
namespace {

constexpr std::chrono::seconds kCallTimeout(5);
constexpr std::chrono::seconds kShutdownTimeout(1);

// The one place where a Status becomes gRPC's: the codes are the same by definition.
grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

class Service final : public proto::SwitchTable::Service {
 public:
  Service(io::EventLoop& loop, SwitchControl& control) : loop_(loop), control_(control) {}

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*,
                        proto::EngineInfo* reply) override {
    return OnLoop<proto::EngineInfo>([this] { return control_.Describe(); }, reply);
  }
  grpc::Status Dump(grpc::ServerContext*, const proto::DumpRequest*, proto::DumpReply* reply) override {
    return OnLoop<proto::DumpReply>([this] { return control_.Dump(); }, reply);
  }
  grpc::Status Install(grpc::ServerContext*, const proto::InstallRequest* request,
                       proto::InstallReply* reply) override {
    return OnLoop<proto::InstallReply>([this, r = *request] { return control_.Install(r); }, reply);
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::RemoveRequest* request,
                      proto::RemoveReply* reply) override {
    return OnLoop<proto::RemoveReply>([this, r = *request] { return control_.Remove(r); }, reply);
  }
  grpc::Status Fail(grpc::ServerContext*, const proto::FailRequest* request,
                    proto::FailReply* reply) override {
    return OnLoop<proto::FailReply>([this, r = *request] { return control_.Fail(r); }, reply);
  }
  grpc::Status SetForwarding(grpc::ServerContext*, const proto::SetForwardingRequest* request,
                             proto::SetForwardingReply* reply) override {
    return OnLoop<proto::SetForwardingReply>([this, r = *request] { return control_.SetForwarding(r); },
                                             reply);
  }
  grpc::Status Probe(grpc::ServerContext*, const proto::ProbeRequest* request,
                     proto::ProbeReply* reply) override {
    return OnLoop<proto::ProbeReply>([this, r = *request] { return control_.Probe(r); }, reply);
  }

 private:
  // Runs work on the loop's thread and waits for it. Work that has not begun in time never will, so that a
  // caller who was told "unavailable" is not surprised later.
  template <typename Reply>
  grpc::Status OnLoop(std::function<StatusOr<Reply>()> work, Reply* reply) {
    struct Call {
      std::promise<StatusOr<Reply>> done;
      std::atomic<bool> taken = false;  // by the loop, or given up by the caller
    };
    const auto call = std::make_shared<Call>();
    auto done = call->done.get_future();
    loop_.Post([call, work = std::move(work)] {
      if (!call->taken.exchange(true)) call->done.set_value(work());
    });
    if (done.wait_for(kCallTimeout) != std::future_status::ready && !call->taken.exchange(true)) {
      return {grpc::StatusCode::UNAVAILABLE,
              fmt::format("the data path did not answer within {} s", kCallTimeout.count())};
    }
    StatusOr<Reply> result = done.get();
    if (result.ok()) *reply = *std::move(result);
    return ToGrpc(result.status());
  }

  io::EventLoop& loop_;
  SwitchControl& control_;
};

class GrpcControlServer final : public ControlServer {
 public:
  GrpcControlServer(io::EventLoop& loop, SwitchControl& control) : service_(loop, control) {}
  ~GrpcControlServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTimeout);
  }

  bool Listen(const std::string& socket_path) {
    grpc::ServerBuilder builder;
    // One caller, the agent: two threads do.
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    const mode_t umask_before = umask(0117);
    server_ = builder.BuildAndStart();
    umask(umask_before);
    return server_ != nullptr;
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& socket_path,
                                                              io::EventLoop& loop, SwitchControl& control) {
  auto server = std::make_unique<GrpcControlServer>(loop, control);
  if (!server->Listen(socket_path)) {
    return MakeStatus(StatusCode::kUnavailable, fmt::format("{}: cannot listen there", socket_path));
  }
  return StatusOr<std::unique_ptr<ControlServer>>(std::move(server));
}

}  // namespace epic::daemon
