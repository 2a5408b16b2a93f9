#include "incmanager/rpc/agent_link.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/grpc/channel.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/status.h"
#include "proto/switch.grpc.pb.h"

namespace epic::manager {

class AgentLink::Impl {
 public:
  using Stub = proto::SwitchTable::Stub;
  using Call = std::function<void(Impl*)>;

  explicit Impl(std::string switch_name)
      : switch_name_(std::move(switch_name)), thread_([this] { Loop(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_.empty(); });
  }

  void SetAddress(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (address == address_) return;
    address_ = address;
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // of an attempt to connect
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    GiveUpDeadPeers(&args);
    stub_ = proto::SwitchTable::NewStub(ChannelTo(address, args));
  }

  void Enqueue(Call call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    changed_.notify_all();
  }

  // Runs method with a deadline; an agent that does not answer is named: in few words, without what gRPC has
  // to say of it, which is long, to silent as well.
  template <typename Request, typename Reply>
  Status Invoke(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                const Request& request, Reply* reply, std::string* silent = nullptr) {
    const auto [stub, address] = Current();
    if (stub == nullptr) return NotRegistered();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kCallTimeoutS));
    const grpc::Status status = ((*stub).*method)(&context, request, reply);
    if (status.error_code() == grpc::UNAVAILABLE || status.error_code() == grpc::DEADLINE_EXCEEDED) {
      const std::string who = fmt::format("the agent of {} at {} does not answer", switch_name_, address);
      if (silent != nullptr) *silent = who;
      return MakeStatus(StatusCode::kUnavailable, fmt::format("{}: {}", who, status.error_message()));
    }
    return FromGrpc(status);
  }

  // Outside the queue; done is called on a thread of gRPC's, or at once.
  template <typename Request, typename Reply>
  void Ask(void (Stub::async_interface::*method)(grpc::ClientContext*, const Request*, Reply*,
                                                 std::function<void(grpc::Status)>),
           const Request& request, std::function<void(const StatusOr<Reply>&)> done,
           int timeout_s = kProbeTimeoutS) {
    auto* call = Begin<Request, Reply>(request, timeout_s);
    if (call == nullptr) return done(NotRegistered());
    (call->stub->async()->*method)(&call->context, &call->request, &call->reply,
                                   [this, call, done = std::move(done)](const grpc::Status& status) {
                                     if (status.ok()) {
                                       done(call->reply);
                                     } else {
                                       done(FromGrpc(status));
                                     }
                                     End(call);
                                   });
  }

 private:
  std::pair<std::shared_ptr<Stub>, std::string> Current() {
    const std::lock_guard lock(mutex_);
    return {stub_, address_};
  }
  Status NotRegistered() const {
    return MakeStatus(StatusCode::kUnavailable,
                      fmt::format("the agent of {} has not registered", switch_name_));
  }

  // With its last call a channel may go whose address is not the agent's any more. That ends gRPC's threads
  // and waits for them, so that none of these may do it.
  template <typename Request, typename Reply>
  struct AsyncCall {
    std::shared_ptr<Stub> stub;
    grpc::ClientContext context;
    Request request;
    Reply reply;
  };

  // Kept until End; null if the agent has not registered.
  template <typename Request, typename Reply>
  AsyncCall<Request, Reply>* Begin(const Request& request, int timeout_s) {
    auto call = std::make_shared<AsyncCall<Request, Reply>>();
    call->stub = Current().first;
    if (call->stub == nullptr) return nullptr;
    call->request = request;
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(timeout_s));
    const std::lock_guard lock(mutex_);
    under_way_.emplace(call.get(), call);
    return call.get();
  }
  void End(const void* call) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(under_way_.extract(call).mapped()));
    changed_.notify_all();
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !calls_.empty() || !ended_.empty(); });
      if (auto ended = std::exchange(ended_, {}); !ended.empty()) {
        lock.unlock();
        ended.clear();
        lock.lock();
        continue;
      }
      if (stop_) return;
      const Call call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call(this);
      lock.lock();
    }
  }

  const std::string switch_name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string address_;
  std::shared_ptr<Stub> stub_;
  std::deque<Call> calls_;
  bool stop_ = false;
  std::map<const void*, std::shared_ptr<void>> under_way_;  // calls that are not in the queue
  std::vector<std::shared_ptr<void>> ended_;                // to be given free by the link's thread
  std::thread thread_;                                      // last: it uses all of the above
};

AgentLink::AgentLink(std::string switch_name) : impl_(std::make_unique<Impl>(std::move(switch_name))) {}
AgentLink::~AgentLink() = default;

void AgentLink::SetAddress(const std::string& address) { impl_->SetAddress(address); }

void AgentLink::Install(const proto::GroupConfig& config, std::function<void(const InstallAnswer&)> done) {
  proto::InstallRequest request;
  *request.mutable_group() = config;
  request.set_takes_refusal(true);
  impl_->Enqueue([request, done = std::move(done)](Impl* impl) {
    proto::InstallReply reply;
    std::string silent;
    const Status status = impl->Invoke(&Impl::Stub::Install, request, &reply, &silent);
    done(status.ok() ? FromProto(reply) : InstallAnswer{.status = status, .silent = silent});
  });
}

void AgentLink::Remove(uint64_t group_id, uint32_t generation, Done done) {
  proto::RemoveRequest request;
  request.set_group_id(group_id);
  request.set_generation(generation);
  impl_->Enqueue([request, done = std::move(done)](Impl* impl) {
    proto::RemoveReply reply;
    done(impl->Invoke(&Impl::Stub::Remove, request, &reply));
  });
}

void AgentLink::Fail(uint64_t group_id, uint32_t generation, Done done) {
  proto::FailRequest request;
  request.set_group_id(group_id);
  request.set_generation(generation);
  impl_->Enqueue([request, done = std::move(done)](Impl* impl) {
    proto::FailReply reply;
    done(impl->Invoke(&Impl::Stub::Fail, request, &reply));
  });
}

void AgentLink::SetForwarding(const proto::ForwardingTable& table, Done done) {
  proto::SetForwardingRequest request;
  *request.mutable_table() = table;
  impl_->Enqueue([request, done = std::move(done)](Impl* impl) {
    proto::SetForwardingReply reply;
    done(impl->Invoke(&Impl::Stub::SetForwarding, request, &reply));
  });
}

void AgentLink::Probe(const proto::ProbeRequest& request,
                      std::function<void(const StatusOr<proto::ProbeReply>&)> done) {
  impl_->Ask<proto::ProbeRequest, proto::ProbeReply>(&Impl::Stub::async_interface::Probe, request,
                                                     std::move(done));
}

// A switch of an earlier version does not know the question.
void AgentLink::Locate(const proto::LocateRequest& request,
                       std::function<void(const StatusOr<proto::LocateReply>&)> done) {
  impl_->Ask<proto::LocateRequest, proto::LocateReply>(&Impl::Stub::async_interface::Locate, request,
                                                       std::move(done));
}

void AgentLink::AskDump(const proto::DumpRequest& page,
                        std::function<void(const StatusOr<proto::DumpReply>&)> done) {
  impl_->Ask<proto::DumpRequest, proto::DumpReply>(&Impl::Stub::async_interface::Dump, page, std::move(done),
                                                   kCallTimeoutS);
}

StatusOr<proto::DumpReply> AgentLink::Dump(const proto::DumpRequest& page) {
  proto::DumpReply reply;
  const Status status = impl_->Invoke(&Impl::Stub::Dump, page, &reply);
  if (!status.ok()) return status;
  return reply;
}

}  // namespace epic::manager
