// A manager without anything behind it, for tests of sessions.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/grpc/not_a_manager.h"
#include "base/grpc/standing_by.h"
#include "commlib/session.h"
#include "proto/manager.grpc.pb.h"

namespace epic::internal {

using Stream = grpc::ServerReaderWriter<proto::ServerMessage, proto::ClientMessage>;

// A manager whose one session runs a script.
class FakeManager : public proto::Manager::Service {
 public:
  using Script = std::function<void(Stream*)>;

  // end: of each session, when its script has run.
  explicit FakeManager(Script script, grpc::Status end = {})
      : script_(std::move(script)), end_(std::move(end)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeManager() override { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1)); }

  grpc::Status Session(grpc::ServerContext*, Stream* stream) override {
    script_(stream);
    return end_;
  }
  grpc::Status ShowGroup(grpc::ServerContext*, const proto::ShowGroupRequest* request,
                         proto::GroupState* reply) override {
    if (request->name() != "g") return {grpc::StatusCode::NOT_FOUND, "no group " + request->name()};
    if (waits) {
      reply->mutable_wait()->set_words("allreduce 17: waits for rank 1 (h1)");
      reply->mutable_wait()->set_collective("allreduce");
      reply->mutable_wait()->set_call(17);
      reply->mutable_wait()->add_for_ranks(1);
      reply->mutable_wait()->add_silent("s3");
      reply->mutable_wait()->set_ms(4200);
    }
    for (const char* name : {"s1", "s2"}) {
      proto::TreeNode& node = *reply->add_tree();
      node.set_switch_name(name);
      for (const uint64_t value : {0, 7}) {
        proto::Counter& counter = *node.add_trouble();
        counter.set_name(value == 0 ? "drop_gap" : "repeats");
        counter.set_value(value);
      }
    }
    return grpc::Status::OK;
  }
  std::atomic<bool> waits = false;  // a call of the group is open
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  Script script_;
  const grpc::Status end_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// What has a manager's port and is none.
class OtherServer {
 public:
  OtherServer()
      : service_(proto::RegisterRequest::descriptor()->file()->FindServiceByName("Manager"), "a test") {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  NotAManager service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A manager that does not lead.
class StandbyManager {
 public:
  StandbyManager() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~StandbyManager() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  int asked() const { return asked_; }

 private:
  std::atomic<int> asked_ = 0;
  StandingBy service_{[this] {
    ++asked_;
    return "stands by: b leads";
  }};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

inline proto::ClientMessage ReadOne(Stream* stream) {
  proto::ClientMessage message;
  stream->Read(&message);
  return message;
}

inline void WriteJoined(Stream* stream) {
  proto::ServerMessage message;
  auto& joined = *message.mutable_joined();
  joined.set_group_id(5);
  joined.set_remote_ip(0x0a000001);
  joined.set_remote_qpn(0x100000);
  joined.set_send_psn(1);
  joined.set_recv_psn(2);
  joined.set_path_mtu(1024);
  joined.set_message_packets(8);
  joined.set_window_messages(4);
  joined.set_start_messages(3);
  joined.set_qp_timeout(18);
  stream->Write(message);
}

inline void WriteFailure(Stream* stream, proto::ErrorCode code, const std::string& text) {
  proto::ServerMessage message;
  message.mutable_failure()->set_code(code);
  message.mutable_failure()->set_message(text);
  stream->Write(message);
}

inline const JoinInfo kJoin{
    .group = "g", .rank = 1, .size = 2, .ip = Ipv4{0x0a000002}, .qpn = 17, .max_path_mtu = 1024};

inline constexpr std::chrono::seconds kLongEnough(20);

}  // namespace epic::internal
