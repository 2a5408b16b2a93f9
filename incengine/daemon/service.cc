#include "incengine/daemon/service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <chrono>

#include "proto/switch.grpc.pb.h"

namespace epic::daemon {
namespace {

constexpr std::chrono::seconds kShutdownTimeout(1);

// The one place where a Status becomes gRPC's: the codes are the same by definition.
grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

class Service final : public proto::SwitchTable::Service {
 public:
  explicit Service(ShardedControl& control) : control_(control) {}

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*,
                        proto::EngineInfo* reply) override {
    return Answer(control_.Describe(), reply);
  }
  grpc::Status Dump(grpc::ServerContext*, const proto::DumpRequest*, proto::DumpReply* reply) override {
    return Answer(control_.Dump(), reply);
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

 private:
  template <typename Reply>
  static grpc::Status Answer(StatusOr<Reply> result, Reply* reply) {
    if (result.ok()) *reply = *std::move(result);
    return ToGrpc(result.status());
  }

  ShardedControl& control_;
};

class GrpcControlServer final : public ControlServer {
 public:
  explicit GrpcControlServer(ShardedControl& control) : service_(control) {}
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
                                                              ShardedControl& control) {
  auto server = std::make_unique<GrpcControlServer>(control);
  if (!server->Listen(socket_path)) {
    return MakeStatus(StatusCode::kUnavailable, fmt::format("{}: cannot listen there", socket_path));
  }
  return StatusOr<std::unique_ptr<ControlServer>>(std::move(server));
}

}  // namespace epic::daemon
