// The C++ interface: checks arguments and hands over to Comm.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "commlib/arguments.h"
#include "commlib/comm.h"
#include "commlib/config.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "epic/epic.h"
#include "epic/priority.h"
#include "protocol/priority.h"

extern char** environ;

namespace epic {
namespace {

using internal::Comm;

constexpr double kLeast = ValueOf(kLeastPriority);

Error NotInitialised() { return {ErrorCode::kInvalidArgument, "the communicator is not initialised"}; }

void WarnOfUnknownVariables() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& name : internal::UnknownVariables(environ)) {
      internal::Log(internal::LogLevel::kWarn, "unknown variable {}; see docs/HOST.md for those there are",
                    name);
    }
  });
}

}  // namespace

Communicator::Communicator() = default;
Communicator::~Communicator() {
  if (impl_) impl_->Drop();
}
Communicator::Communicator(Communicator&& other) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  if (impl_) impl_->Drop();
  impl_ = std::move(other.impl_);
  return *this;
}

Error Communicator::Init(const Options& options) {
  // First of all: in a child a lock may be held by a thread that is only its parent's.
  if (!internal::Progress::Claim()) return internal::ForkedInitError();
  if (impl_) return {ErrorCode::kInvalidArgument, "the communicator is initialised already"};
  WarnOfUnknownVariables();
  Options resolved = options;
  const auto get_env = [](const char* name) -> const char* { return std::getenv(name); };
  if (Error e = internal::ResolveOptions(get_env, &resolved, internal::HostDaemon()); !e.ok()) return e;
  return Comm::Create(resolved, &impl_);
}

Error Communicator::Destroy() {
  if (!impl_) return NotInitialised();
  Error error = impl_->Destroy();
  impl_ = nullptr;
  return error;
}

void Communicator::Abort(const std::string& reason) {
  if (impl_) impl_->Abort(reason);
}

Error Communicator::Trouble(std::vector<TroubleCount>* counts) const {
  if (counts == nullptr) return {ErrorCode::kInvalidArgument, "counts is null"};
  return impl_ ? impl_->Trouble(counts) : NotInitialised();
}
Error Communicator::Waiting(WaitState* state) const {
  if (state == nullptr) return {ErrorCode::kInvalidArgument, "state is null"};
  return impl_ ? impl_->WaitsFor(state) : NotInitialised();
}
Error Communicator::AsyncError() const { return impl_ ? impl_->AsyncError() : NotInitialised(); }
int Communicator::rank() const { return impl_ ? impl_->rank() : -1; }
int Communicator::size() const { return impl_ ? impl_->size() : 0; }
PathTaken Communicator::Path() const { return impl_ ? impl_->path() : PathTaken{}; }
PathTaken Communicator::PathOf(Datatype type) const {
  return impl_ ? impl_->PathOf({.collective = Collective::kBroadcast, .count = 1, .type = type})
               : PathTaken{};
}
PathTaken Communicator::PathOf(Datatype type, RedOp op) const {
  return impl_ ? impl_->PathOf({.collective = Collective::kAllReduce, .count = 1, .type = type, .op = op})
               : PathTaken{};
}
PathTaken Communicator::PathOfReduceScatter(size_t recvcount, Datatype type, RedOp op) const {
  return impl_ ? impl_->PathOf(
                     {.collective = Collective::kReduceScatter, .count = recvcount, .type = type, .op = op})
               : PathTaken{};
}
PathTaken Communicator::PathOfBroadcast(size_t count, Datatype type) const {
  return impl_ ? impl_->PathOf({.collective = Collective::kBroadcast, .count = count, .type = type})
               : PathTaken{};
}
PathTaken Communicator::PathOfAllGather(size_t sendcount, Datatype type) const {
  return impl_ ? impl_->PathOf({.collective = Collective::kAllGather, .count = sendcount, .type = type})
               : PathTaken{};
}
Sharing Communicator::Shared() const { return impl_ ? impl_->Shared() : Sharing{}; }
DatagramCounts Communicator::Datagrams() const { return impl_ ? impl_->CountDatagrams() : DatagramCounts{}; }
Quantisation Communicator::Quantised() const { return impl_ ? impl_->Quantised() : Quantisation{}; }
void Communicator::SetQuantise(bool on) {
  if (impl_) impl_->SetQuantise(on);
}
Error Communicator::SetPriority(double priority) {
  if (!IsPriority(priority))
    return {ErrorCode::kInvalidArgument, fmt::format("priority: {} is not a number from 0 on", priority)};
  if (!impl_) return NotInitialised();
  impl_->SetPriority(PriorityOf(priority));
  return {};
}
int Communicator::path_mtu() const { return impl_ ? impl_->path_mtu() : 0; }

void Communicator::SetTimeout(std::chrono::milliseconds timeout) {
  if (impl_ && timeout.count() > 0) impl_->SetTimeout(timeout);
}

double TensorPriority(double remaining, int layers, int layer, double comm, double comp) {
  const double weight = static_cast<double>(std::max(layers, 1)) / std::max(layer, 1);
  const double priority = weight * comm / std::max(comp, kLeast) / remaining;
  // Also if it is no number, as nothing is left of what takes no time.
  return priority >= kLeast ? std::min(priority, ValueOf(kMostPriority)) : kLeast;
}

Request::Request() = default;
Request::~Request() = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;

bool Request::Test() { return !call_ || comm_->Test(*call_); }
Error Request::Wait() { return call_ ? comm_->Wait(*call_) : Error(); }

namespace internal {

// Checks arguments and posts calls, to wait for at once or by a request.
class Starter {
 public:
  static Error Run(const CallArguments& arguments, Communicator& comm) {
    std::shared_ptr<Call> call;
    if (Error e = Post(arguments, comm, true, &call); !e.ok()) return e;
    return comm.impl()->Wait(*call);
  }

  static Error Start(const CallArguments& arguments, Communicator& comm, Request* request) {
    if (request == nullptr) return {ErrorCode::kInvalidArgument, "request is null"};
    std::shared_ptr<Call> call;
    if (Error e = Post(arguments, comm, false, &call); !e.ok()) return e;
    request->comm_ = comm.impl();
    request->call_ = std::move(call);
    return {};
  }

 private:
  static Error Post(const CallArguments& a, Communicator& comm, bool wait_follows,
                    std::shared_ptr<Call>* call) {
    if (!comm.valid()) return NotInitialised();
    ControlHeader header;
    if (Error e = CheckArguments(a, comm.rank(), comm.size(), comm.impl()->abilities(),
                                 comm.impl()->quantises(), &header);
        !e.ok())
      return e;
    return comm.impl()->Post(header, a.send, a.recv, wait_follows, call);
  }
};

namespace {

CallArguments AllReduceOf(const void* send, void* recv, size_t count, Datatype type, RedOp op) {
  return {.collective = Collective::kAllReduce,
          .send = send,
          .recv = recv,
          .count = count,
          .type = type,
          .op = op};
}

CallArguments ReduceOf(const void* send, void* recv, size_t count, Datatype type, RedOp op, int root) {
  return {.collective = Collective::kReduce,
          .send = send,
          .recv = recv,
          .count = count,
          .type = type,
          .op = op,
          .root = root};
}

CallArguments BroadcastOf(const void* send, void* recv, size_t count, Datatype type, int root) {
  return {.collective = Collective::kBroadcast,
          .send = send,
          .recv = recv,
          .count = count,
          .type = type,
          .root = root};
}

CallArguments ReduceScatterOf(const void* send, void* recv, size_t count, Datatype type, RedOp op) {
  return {.collective = Collective::kReduceScatter,
          .send = send,
          .recv = recv,
          .count = count,
          .type = type,
          .op = op};
}

CallArguments AllGatherOf(const void* send, void* recv, size_t count, Datatype type) {
  return {.collective = Collective::kAllGather, .send = send, .recv = recv, .count = count, .type = type};
}

}  // namespace
}  // namespace internal

using internal::Starter;

Error AllReduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                Communicator& comm) {
  return Starter::Run(internal::AllReduceOf(sendbuff, recvbuff, count, datatype, op), comm);
}

Error Reduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op, int root,
             Communicator& comm) {
  return Starter::Run(internal::ReduceOf(sendbuff, recvbuff, count, datatype, op, root), comm);
}

Error Broadcast(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, int root,
                Communicator& comm) {
  return Starter::Run(internal::BroadcastOf(sendbuff, recvbuff, count, datatype, root), comm);
}

Error ReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, Datatype datatype, RedOp op,
                    Communicator& comm) {
  return Starter::Run(internal::ReduceScatterOf(sendbuff, recvbuff, recvcount, datatype, op), comm);
}

Error AllGather(const void* sendbuff, void* recvbuff, size_t sendcount, Datatype datatype,
                Communicator& comm) {
  return Starter::Run(internal::AllGatherOf(sendbuff, recvbuff, sendcount, datatype), comm);
}

Error Barrier(Communicator& comm) { return Starter::Run({}, comm); }

Error AllReduceAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                     Communicator& comm, Request* request) {
  return Starter::Start(internal::AllReduceOf(sendbuff, recvbuff, count, datatype, op), comm, request);
}

Error ReduceAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op, int root,
                  Communicator& comm, Request* request) {
  return Starter::Start(internal::ReduceOf(sendbuff, recvbuff, count, datatype, op, root), comm, request);
}

Error BroadcastAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, int root,
                     Communicator& comm, Request* request) {
  return Starter::Start(internal::BroadcastOf(sendbuff, recvbuff, count, datatype, root), comm, request);
}

Error ReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t recvcount, Datatype datatype, RedOp op,
                         Communicator& comm, Request* request) {
  return Starter::Start(internal::ReduceScatterOf(sendbuff, recvbuff, recvcount, datatype, op), comm,
                        request);
}

Error AllGatherAsync(const void* sendbuff, void* recvbuff, size_t sendcount, Datatype datatype,
                     Communicator& comm, Request* request) {
  return Starter::Start(internal::AllGatherOf(sendbuff, recvbuff, sendcount, datatype), comm, request);
}

Error BarrierAsync(Communicator& comm, Request* request) { return Starter::Start({}, comm, request); }

Registration::Registration() = default;
Registration::~Registration() { Reset(); }
Registration::Registration(Registration&&) noexcept = default;
Registration& Registration::operator=(Registration&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  comm_ = std::move(other.comm_);
  region_ = std::move(other.region_);
  return *this;
}

void Registration::Reset() {
  if (region_) comm_->Deregister(region_);
  region_ = nullptr;
  comm_ = nullptr;
}

Error Register(Communicator& comm, void* buffer, size_t bytes, Registration* registration) {
  if (!comm.valid()) return NotInitialised();
  if (buffer == nullptr || bytes == 0) return {ErrorCode::kInvalidArgument, "nothing to register"};
  if (registration == nullptr) return {ErrorCode::kInvalidArgument, "registration is null"};
  registration->Reset();
  std::shared_ptr<internal::Region> region;
  if (Error e = comm.impl()->Register(buffer, bytes, &region); !e.ok()) return e;
  registration->comm_ = comm.impl();
  registration->region_ = std::move(region);
  return {};
}

}  // namespace epic
