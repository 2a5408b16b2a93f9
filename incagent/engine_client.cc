#include "incagent/engine_client.h"

#include <fmt/format.h>

#include <utility>

#include "base/grpc/channel.h"

namespace epic::agent {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& socket_path) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // an attempt may take so long: the engine may be late
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  return ChannelTo("unix:" + socket_path, args);
}

}  // namespace

EngineClient::EngineClient(std::string socket_path)
    : socket_path_(std::move(socket_path)), stub_(proto::SwitchTable::NewStub(Connect(socket_path_))) {}

grpc::Status EngineClient::Describe(proto::EngineInfo* info, std::chrono::milliseconds timeout) {
  const grpc::Status status = Call(&Stub::Describe, proto::DescribeRequest(), info, timeout);
  if (status.ok()) Keep(*info);
  return status;
}

grpc::Status EngineClient::Hold(const proto::Fence& manager, bool takes_over) {
  proto::HoldRequest request;
  *request.mutable_fence() = manager;
  request.set_takes_over(takes_over);
  proto::HoldReply reply;
  const grpc::Status status = Call(&Stub::Hold, request, &reply);
  return status.error_code() == grpc::UNIMPLEMENTED ? grpc::Status::OK : status;
}

void EngineClient::Keep(const proto::EngineInfo& info) {
  const std::lock_guard lock(mutex_);
  info_ = info;
}

proto::EngineInfo EngineClient::info() const {
  const std::lock_guard lock(mutex_);
  return info_;
}

grpc::Status EngineClient::Watch(grpc::ClientContext* context, const std::function<void()>& told) {
  const auto reader = stub_->Watch(context, proto::WatchRequest());
  proto::EngineInfo info;
  while (reader->Read(&info)) told();
  return reader->Finish();
}

grpc::Status EngineClient::Explain(const grpc::Status& status) const {
  if (status.error_code() != grpc::UNAVAILABLE && status.error_code() != grpc::DEADLINE_EXCEEDED)
    return status;
  return {status.error_code(),
          fmt::format("the engine at {} does not answer: {}", socket_path_, status.error_message())};
}

EngineQuestion::EngineQuestion(EngineClient* client, std::chrono::milliseconds timeout,
                               const std::optional<proto::Fence>& heard)
    : client_(client) {
  if (heard) *request_.mutable_heard() = *heard;
  context_.set_deadline(std::chrono::system_clock::now() + timeout);
  client_->stub_->async()->Describe(&context_, &request_, &info_, [this](const grpc::Status& status) {
    if (status.ok()) client_->Keep(info_);
    // Whoever waits may destroy this when it has the mutex.
    const std::lock_guard lock(mutex_);
    end_ = client_->Explain(status);
    changed_.notify_all();
  });
}

EngineQuestion::~EngineQuestion() {
  context_.TryCancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return end_.has_value(); });
}

std::optional<grpc::Status> EngineQuestion::WaitFor(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return end_.has_value(); });
  return end_;
}

}  // namespace epic::agent
