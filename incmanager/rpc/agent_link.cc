#include "incmanager/rpc/agent_link.h"

#include <fmt/format.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/grpc/channel.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/status.h"
#include "proto/switch.grpc.pb.h"

namespace epic::manager {

namespace {

// For who is told the reply or what is wrong.
template <typename Reply>
auto Answered(std::function<void(const StatusOr<Reply>&)> done) {
  return [done = std::move(done)](const Status& status, const Reply& reply, const std::string&) {
    if (!status.ok()) return done(status);
    done(reply);
  };
}

}  // namespace

class AgentThread::Impl {
 public:
  // What the thread is told when it is over.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void OnEnd() = 0;
  };

  Impl() : thread_([this] { Loop(); }) {}
  ~Impl() {
    queue_.Shutdown();
    thread_.join();
  }
  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  // With its last call a channel may go whose address is not the agent's any more. That ends gRPC's threads
  // and waits for them, so that none of these may do it.
  void Loop() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      const std::unique_ptr<Pending> pending(static_cast<Pending*>(tag));
      pending->OnEnd();
    }
  }

  grpc::CompletionQueue queue_;
  std::thread thread_;
};

AgentThread::AgentThread() : impl_(std::make_unique<Impl>()) {}
AgentThread::~AgentThread() = default;

class AgentLink::Impl {
 public:
  using Stub = proto::SwitchTable::Stub;
  template <typename Request, typename Reply>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Stub::*)(grpc::ClientContext*,
                                                                                   const Request&,
                                                                                   grpc::CompletionQueue*);
  // In few words who is silent, without what gRPC has to say of it, which is long; empty if he is not.
  template <typename Reply>
  using Ended = std::function<void(const Status& status, const Reply& reply, const std::string& silent)>;

  Impl(std::string switch_name, grpc::CompletionQueue* queue) : switch_name_(std::move(switch_name)), queue_(queue) {}

  ~Impl() {
    std::unique_lock lock(mutex_);
    calls_.clear();
    stop_ = true;
    changed_.wait(lock, [this] { return under_way_ == 0; });
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

  // To be made when those that were asked for before are over.
  template <typename Request, typename Reply>
  void Enqueue(Method<Request, Reply> method, const Request& request, Ended<Reply> ended) {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    calls_.push_back([this, method, request, ended = std::move(ended)] {
      Begin<Request, Reply>(method, request, kCallTimeoutS, [this, ended](const auto&... how) {
        ended(how...);
        const std::lock_guard again(mutex_);
        TakeTurn();
      });
    });
    if (!std::exchange(busy_, true)) TakeTurn();
  }

  // Outside the queue; ended is called on the thread, or at once if the agent has not registered.
  template <typename Request, typename Reply>
  void Begin(Method<Request, Reply> method, const Request& request, int timeout_s, Ended<Reply> ended) {
    auto call = std::make_unique<AgentCall<Reply>>(this, std::move(ended));
    {
      const std::lock_guard lock(mutex_);
      call->stub = stub_;
      call->address = address_;
      ++under_way_;
    }
    if (call->stub == nullptr) {
      call->status = {grpc::UNAVAILABLE, fmt::format("the agent of {} has not registered", switch_name_)};
      return call->OnEnd();
    }
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(timeout_s));
    AgentCall<Reply>* const tag = call.release();
    tag->reader = ((*tag->stub).*method)(&tag->context, request, queue_);
    tag->reader->Finish(&tag->reply, &tag->status, tag);
  }

 private:
  // The thread's turn with this link's calls.
  struct Turn : AgentThread::Impl::Pending {
    explicit Turn(Impl* of) : link(of) {}
    void OnEnd() override {
      link->BeginNext();
      link->End();
    }
    Impl* const link;
    grpc::Alarm alarm;
  };

  template <typename Reply>
  struct AgentCall : AgentThread::Impl::Pending {
    AgentCall(Impl* of, Ended<Reply> to_tell) : link(of), ended(std::move(to_tell)) {}
    void OnEnd() override {
      const bool silent = stub != nullptr && (status.error_code() == grpc::UNAVAILABLE ||
                                              status.error_code() == grpc::DEADLINE_EXCEEDED);
      if (silent) {
        const std::string who = fmt::format("the agent of {} at {} does not answer", link->switch_name_, address);
        ended(MakeStatus(StatusCode::kUnavailable, fmt::format("{}: {}", who, status.error_message())), reply, who);
      } else {
        ended(FromGrpc(status), reply, "");
      }
      reader.reset();
      stub.reset();
      link->End();
    }
    Impl* const link;
    const Ended<Reply> ended;
    std::shared_ptr<Stub> stub;
    std::string address;
    grpc::ClientContext context;
    Reply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  };

  // With mutex_ held. The caller may hold locks, too, that the end of a call takes.
  void TakeTurn() {
    ++under_way_;
    auto* const turn = new Turn(this);
    turn->alarm.Set(queue_, std::chrono::system_clock::time_point(), turn);
  }

  void BeginNext() {
    std::function<void()> next;
    {
      const std::lock_guard lock(mutex_);
      busy_ = !calls_.empty();
      if (!busy_) return;
      next = std::move(calls_.front());
      calls_.pop_front();
    }
    next();
  }

  // Of what was under way. This may be gone then.
  void End() {
    const std::lock_guard lock(mutex_);
    --under_way_;
    changed_.notify_all();
  }

  const std::string switch_name_;
  grpc::CompletionQueue* const queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string address_;
  std::shared_ptr<Stub> stub_;
  std::deque<std::function<void()>> calls_;
  bool busy_ = false;  // one of calls_ is under way, or will be in a moment
  bool stop_ = false;
  int under_way_ = 0;  // calls and turns
};

AgentLink::AgentLink(std::string switch_name, AgentThread* thread, proto::Fence manager)
    : manager_(std::move(manager)),
      impl_(std::make_unique<Impl>(std::move(switch_name), thread->impl_->queue())) {}
AgentLink::~AgentLink() = default;

template <typename Request>
void AgentLink::Sign(Request* request) const {
  if (!manager_.cluster().empty()) *request->mutable_fence() = manager_;
}

void AgentLink::SetAddress(const std::string& address) { impl_->SetAddress(address); }

void AgentLink::Install(const proto::GroupConfig& config, std::function<void(const InstallAnswer&)> done) {
  proto::InstallRequest request;
  *request.mutable_group() = config;
  request.set_takes_refusal(true);
  Sign(&request);
  impl_->Enqueue<proto::InstallRequest, proto::InstallReply>(
      &Impl::Stub::AsyncInstall, request,
      [done = std::move(done)](const Status& status, const proto::InstallReply& reply, const std::string& silent) {
        done(status.ok() ? FromProto(reply) : InstallAnswer{.status = status, .silent = silent});
      });
}

void AgentLink::Remove(uint64_t group_id, uint32_t generation, Done done) {
  proto::RemoveRequest request;
  request.set_group_id(group_id);
  request.set_generation(generation);
  Sign(&request);
  impl_->Enqueue<proto::RemoveRequest, proto::RemoveReply>(
      &Impl::Stub::AsyncRemove, request,
      [done = std::move(done)](const Status& status, const auto&, const auto&) { done(status); });
}

void AgentLink::Fail(uint64_t group_id, uint32_t generation, Done done) {
  proto::FailRequest request;
  request.set_group_id(group_id);
  request.set_generation(generation);
  Sign(&request);
  impl_->Enqueue<proto::FailRequest, proto::FailReply>(
      &Impl::Stub::AsyncFail, request,
      [done = std::move(done)](const Status& status, const auto&, const auto&) { done(status); });
}

void AgentLink::SetForwarding(const proto::ForwardingTable& table, Done done) {
  proto::SetForwardingRequest request;
  *request.mutable_table() = table;
  AskForwarding(std::move(request), std::move(done));
}

void AgentLink::KeepForwarding(uint64_t hash, Done done) {
  proto::SetForwardingRequest request;
  request.set_keeps(hash);
  AskForwarding(std::move(request), std::move(done));
}

void AgentLink::AskForwarding(proto::SetForwardingRequest request, Done done) {
  Sign(&request);
  impl_->Enqueue<proto::SetForwardingRequest, proto::SetForwardingReply>(
      &Impl::Stub::AsyncSetForwarding, request,
      [done = std::move(done)](const Status& status, const auto&, const auto&) { done(status); });
}

void AgentLink::Probe(const proto::ProbeRequest& request,
                      std::function<void(const StatusOr<proto::ProbeReply>&)> done) {
  impl_->Begin<proto::ProbeRequest, proto::ProbeReply>(&Impl::Stub::AsyncProbe, request, kProbeTimeoutS,
                                                       Answered<proto::ProbeReply>(std::move(done)));
}

// A switch of an earlier version does not know the question.
void AgentLink::Locate(const proto::LocateRequest& request,
                       std::function<void(const StatusOr<proto::LocateReply>&)> done) {
  impl_->Begin<proto::LocateRequest, proto::LocateReply>(&Impl::Stub::AsyncLocate, request, kProbeTimeoutS,
                                                         Answered<proto::LocateReply>(std::move(done)));
}

void AgentLink::AskDump(const proto::DumpRequest& page,
                        std::function<void(const StatusOr<proto::DumpReply>&)> done) {
  impl_->Begin<proto::DumpRequest, proto::DumpReply>(&Impl::Stub::AsyncDump, page, kCallTimeoutS,
                                                     Answered<proto::DumpReply>(std::move(done)));
}

StatusOr<proto::DumpReply> AgentLink::Dump(const proto::DumpRequest& page) {
  std::promise<StatusOr<proto::DumpReply>> told;
  AskDump(page, [&told](const StatusOr<proto::DumpReply>& reply) { told.set_value(reply); });
  return told.get_future().get();
}

}  // namespace epic::manager
