// Calls to the local engine, each with a deadline, and what it said about itself last. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "proto/switch.grpc.pb.h"

namespace epic::agent {

class EngineClient;

// A question to an engine who it is, which stays open while whoever asked does other things: an engine that is late answers
// it whenever it runs. Thread-safe.
class EngineQuestion {
 public:
  // client outlives this. heard: a manager of which there has been word, which the engine is told; none:
  // absent. UNAVAILABLE as EngineClient::Call, DEADLINE_EXCEEDED after that time.
  EngineQuestion(EngineClient* client, std::chrono::milliseconds timeout,
                 const std::optional<proto::Fence>& heard);
  // Takes the question back if it is open.
  ~EngineQuestion();
  EngineQuestion(const EngineQuestion&) = delete;
  EngineQuestion& operator=(const EngineQuestion&) = delete;

  // How it has ended; nothing if it is still open after that time.
  std::optional<grpc::Status> WaitFor(std::chrono::milliseconds time);
  // After an end with OK.
  const proto::EngineInfo& info() const { return info_; }

 private:
  EngineClient* const client_;
  grpc::ClientContext context_;
  proto::DescribeRequest request_;
  proto::EngineInfo info_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<grpc::Status> end_;
};

class EngineClient {
 public:
  using Stub = proto::SwitchTable::Stub;
  static constexpr std::chrono::milliseconds kTimeout{3000};

  // socket_path: of the engine's control socket.
  explicit EngineClient(std::string socket_path);

  // UNAVAILABLE naming the socket when the engine does not answer within the time.
  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply, std::chrono::milliseconds timeout = kTimeout) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    return Explain(((*stub_).*method)(&context, request, reply));
  }

  // Asks the engine who it is; what it says is kept for info().
  grpc::Status Describe(proto::EngineInfo* info, std::chrono::milliseconds timeout = kTimeout);
  proto::EngineInfo info() const;

  // Makes the switch this manager's (SwitchTable.Hold). Ok, too, of an engine of an earlier version, which is
  // everybody's.
  grpc::Status Hold(const proto::Fence& manager, bool takes_over);

  // Calls back each time that the engine tells of its ports, the first time at once. Returns when the engine
  // has gone or the context is cancelled; UNIMPLEMENTED from an engine of an earlier version.
  grpc::Status Watch(grpc::ClientContext* context, const std::function<void()>& told);

 private:
  friend class EngineQuestion;
  void Keep(const proto::EngineInfo& info);
  grpc::Status Explain(const grpc::Status& status) const;

  const std::string socket_path_;
  std::unique_ptr<Stub> stub_;
  mutable std::mutex mutex_;
  proto::EngineInfo info_;
};

}  // namespace epic::agent
