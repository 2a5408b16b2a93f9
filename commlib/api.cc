// The C++ interface: checks arguments and hands over to Comm.
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

#include "commlib/comm.h"
#include "commlib/config.h"
#include "commlib/log.h"
#include "epic/epic.h"

extern char** environ;

namespace epic {
namespace {

using internal::Comm;

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

Error CheckAllReduce(const void* sendbuff, const void* recvbuff, size_t count, Datatype datatype, RedOp op,
                     ControlHeader* header) {
  if (datatype != Datatype::kFloat32 && datatype != Datatype::kInt32) {
    return {ErrorCode::kUnsupported,
            fmt::format("datatype {} is not supported (float32 and int32 are)", static_cast<int>(datatype))};
  }
  if (op != RedOp::kSum) {
    return {ErrorCode::kUnsupported,
            fmt::format("operation {} is not supported (sum is)", static_cast<int>(op))};
  }
  header->collective = Collective::kAllReduce;
  header->op = ReduceOp::kSum;
  header->type = datatype == Datatype::kFloat32 ? DataType::kFloat32 : DataType::kInt32;
  header->count = count;
  const uint64_t element = ElementBytes(header->type);
  if (count > kMaxBytes / element) {
    return {ErrorCode::kInvalidArgument, fmt::format("{} elements are more than 1 GiB", count)};
  }
  if (count == 0) return {};
  if (sendbuff == nullptr || recvbuff == nullptr) return {ErrorCode::kInvalidArgument, "a buffer is null"};
  const auto send = reinterpret_cast<uintptr_t>(sendbuff), recv = reinterpret_cast<uintptr_t>(recvbuff);
  const uint64_t bytes = count * element;
  if (send != recv && send < recv + bytes && recv < send + bytes) {
    return {ErrorCode::kInvalidArgument, "sendbuff and recvbuff overlap without being the same"};
  }
  return {};
}

Error StartAllReduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                     Communicator& comm, bool wait_follows, std::shared_ptr<internal::Call>* call) {
  if (!comm.valid()) return NotInitialised();
  ControlHeader header;
  if (Error e = CheckAllReduce(sendbuff, recvbuff, count, datatype, op, &header); !e.ok()) return e;
  return comm.impl()->Post(header, sendbuff, recvbuff, wait_follows, call);
}

Error StartBarrier(Communicator& comm, bool wait_follows, std::shared_ptr<internal::Call>* call) {
  if (!comm.valid()) return NotInitialised();
  return comm.impl()->Post({}, nullptr, nullptr, wait_follows, call);
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
  if (impl_) return {ErrorCode::kInvalidArgument, "the communicator is initialised already"};
  WarnOfUnknownVariables();
  Options resolved = options;
  const auto get_env = [](const char* name) -> const char* { return std::getenv(name); };
  if (Error e = internal::ResolveOptions(get_env, &resolved); !e.ok()) return e;
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

Error Communicator::AsyncError() const { return impl_ ? impl_->AsyncError() : NotInitialised(); }
int Communicator::rank() const { return impl_ ? impl_->rank() : -1; }
int Communicator::size() const { return impl_ ? impl_->size() : 0; }
int Communicator::path_mtu() const { return impl_ ? impl_->path_mtu() : 0; }

void Communicator::SetTimeout(std::chrono::milliseconds timeout) {
  if (impl_ && timeout.count() > 0) impl_->SetTimeout(timeout);
}

Request::Request() = default;
Request::~Request() = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;

bool Request::Test() { return !call_ || comm_->Test(*call_); }
Error Request::Wait() { return call_ ? comm_->Wait(*call_) : Error(); }

Error AllReduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                Communicator& comm) {
  std::shared_ptr<internal::Call> call;
  if (Error e = StartAllReduce(sendbuff, recvbuff, count, datatype, op, comm, true, &call); !e.ok()) return e;
  return comm.impl()->Wait(*call);
}

Error Barrier(Communicator& comm) {
  std::shared_ptr<internal::Call> call;
  if (Error e = StartBarrier(comm, true, &call); !e.ok()) return e;
  return comm.impl()->Wait(*call);
}

Error AllReduceAsync(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                     Communicator& comm, Request* request) {
  std::shared_ptr<internal::Call> call;
  if (Error e = StartAllReduce(sendbuff, recvbuff, count, datatype, op, comm, false, &call); !e.ok())
    return e;
  request->comm_ = comm.impl();
  request->call_ = std::move(call);
  return {};
}

Error BarrierAsync(Communicator& comm, Request* request) {
  std::shared_ptr<internal::Call> call;
  if (Error e = StartBarrier(comm, false, &call); !e.ok()) return e;
  request->comm_ = comm.impl();
  request->call_ = std::move(call);
  return {};
}

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
  registration->Reset();
  std::shared_ptr<internal::Region> region;
  if (Error e = comm.impl()->Register(buffer, bytes, &region); !e.ok()) return e;
  registration->comm_ = comm.impl();
  registration->region_ = std::move(region);
  return {};
}

}  // namespace epic
