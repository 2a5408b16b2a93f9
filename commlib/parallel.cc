#include "commlib/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <system_error>
#include <vector>

#include "base/fork.h"
#include "base/signals_blocked.h"
#include "commlib/arguments.h"
#include "commlib/comm.h"
#include "commlib/config.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "epic/parallel.h"
#include "protocol/types.h"
#include "reduce/reduce.h"

namespace epic::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How soon the end of one group becomes that of the others, if no call of this rank finds it. "At once" is
// within a second, by way of two ranks at most.
constexpr milliseconds kWatchPeriod(100);
// How long the calls of Init wait for the other ranks if the options do not say: as the manager's default.
constexpr milliseconds kJoinTime(120'000);

// Waits for all of them; the buffers are the caller's again. The first error.
Error WaitAll(std::span<Request> requests) {
  Error first;
  for (Request& request : requests) {
    const Error error = request.Wait();
    if (first.ok()) first = error;
  }
  return first;
}

// The call was not made, and the group is as it was.
bool IsRefused(const Error& error, const Communicator& comm) {
  const ErrorCode code = error.code();
  const bool refuses = code == ErrorCode::kInvalidArgument || code == ErrorCode::kUnsupported ||
                       code == ErrorCode::kNoResource;
  return refuses && comm.AsyncError().ok();
}

// What switches are asked for is the rings'.
Options ByHosts(Options options) {
  options.path = PathChoice::kHosts;
  options.mode = 0;
  options.max_bytes = 0;
  options.types.clear();
  options.quantise = 0;
  options.quantise_int8 = false;
  return options;
}

uint8_t* At(uint8_t* base, size_t elements, Datatype type) {
  return base + elements * ElementBytes(static_cast<DataType>(type));
}
const uint8_t* At(const void* base, size_t elements, Datatype type) {
  return static_cast<const uint8_t*>(base) + elements * ElementBytes(static_cast<DataType>(type));
}

}  // namespace

Parallel::Parallel(const Options& options)
    : options_(options), fork_depth_(ForkDepth()), timeout_(options.timeout) {}

bool Parallel::InChild() const { return ForkDepth() != fork_depth_; }

Error Parallel::Create(const Options& options, const std::string& host, std::shared_ptr<Parallel>* out) {
  std::shared_ptr<Parallel> result(new Parallel(options), [](const Parallel* parallel) {
    if (!parallel->InChild()) delete parallel;
  });
  if (Error e = result->Join(host); !e.ok()) return e;
  *out = std::move(result);
  return {};
}

Options Parallel::OptionsOf(const std::string& group, int rank, int size) const {
  Options options = options_;
  options.group = options_.group + "." + group;
  options.rank = rank;
  options.size = size;
  options.environment = false;  // it has been asked
  return options;
}

// Of a host or a ring. Who waits in it for a rank that cannot join has nobody to tell but the group of all.
Options Parallel::OptionsOfPart(const std::string& group, int rank, int size) const {
  Options options = OptionsOf(group, rank, size);
  options.gives_up = [this, own = options_.gives_up] { return !everyone_.AsyncError().ok() || (own && own()); };
  return options;
}

// Whoever has no place among the others leaves in order, so that all are told the same.
Error Parallel::JoinEveryone(const std::string& host) {
  std::vector<RankHost> all(static_cast<size_t>(size()));
  if (Error e = FindRankHost(host, &all[static_cast<size_t>(rank())]); !e.ok()) return e;
  Options options = ByHosts(OptionsOf("all", rank(), size()));
  options.while_waiting = nullptr;
  // Its calls until all ranks are in wait for joins, and not for calls.
  options.timeout = options_.join_timeout.count() > 0 ? options_.join_timeout : kJoinTime;
  if (Error e = everyone_.Init(options); !e.ok()) return e;
  const RankHost& mine = all[static_cast<size_t>(rank())];
  if (Error e = AllGather(&mine, all.data(), sizeof mine, Datatype::kByte, everyone_); !e.ok())
    return End(OfGroup("all", e));
  const Error placed = PlaceRank(all, rank(), &place_);
  if (!placed.ok()) (void)everyone_.Destroy();
  return placed;
}

Error Parallel::Join(const std::string& host) {
  if (Error e = JoinEveryone(host); !e.ok()) return e;
  host_name_ = fmt::format("host {}", place_.host);
  ring_name_ = fmt::format("ring {}", place_.local_rank);
  const Options in_host = OptionsOfPart(fmt::format("host-{}", place_.host), place_.local_rank, place_.local_size);
  if (Error e = host_.Init(ByHosts(in_host)); !e.ok()) return End(OfGroup(host_name_, e));
  // Rings would wait for a host whose ranks have not come so far until their time is over.
  if (Error e = Barrier(everyone_); !e.ok()) return End(OfGroup("all", e));
  const Options in_ring = OptionsOfPart(fmt::format("ring-{}", place_.local_rank), place_.host, place_.hosts);
  if (Error e = ring_.Init(in_ring); !e.ok()) return End(OfGroup(ring_name_, e));
  if (Error e = StartWatching(); !e.ok()) return End(e);
  // Nobody is in before all are; and a call that one ring would refuse must not begin on the others.
  doable_ = DoableBy(ring_);
  if (Error e = epic::AllReduce(doable_.data(), doable_.data(), doable_.size(), Datatype::kUint64,
                                RedOp::kBitAnd, everyone_);
      !e.ok())
    return End(OfGroup("all", e));
  everyone_.SetTimeout(timeout_);
  return {};
}

Error Parallel::Check(const void* send, void* recv, size_t count, Datatype type, RedOp op) const {
  const CallArguments call = {.collective = Collective::kAllReduce,
                              .send = send,
                              .recv = recv,
                              .count = count,
                              .type = type,
                              .op = op};
  ControlHeader header;
  const GroupAbilities& abilities = ring_.impl()->abilities();
  if (Error e = CheckArguments(call, rank(), size(), abilities, false, &header); !e.ok()) return e;
  if (Has(doable_, type, op)) return {};
  return {ErrorCode::kUnsupported,
          fmt::format("operation {} of type {} is not in the switches of another ring", RedOpName(op),
                      DatatypeName(type))};
}

void Parallel::Limit(Communicator* comm) const {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - steady_clock::now());
  comm->SetTimeout(std::max(left, milliseconds(1)));
}

Error Parallel::AllReduce(const void* send, void* recv, size_t count, Datatype type, RedOp op) {
  if (InChild()) return ForkedError();
  if (Error e = Check(send, recv, count, type, op); !e.ok()) return e;
  const std::lock_guard turn(turn_);
  if (Error e = AsyncError(); !e.ok()) return e;
  deadline_ = steady_clock::now() + std::min<milliseconds>(timeout_, std::chrono::hours(24 * 365));
  const Division division = Divide(count, place_.local_size);
  // An average of averages of integers would be rounded twice.
  const RedOp in_stages = op == RedOp::kAvg ? RedOp::kSum : op;
  auto* const out = static_cast<uint8_t*>(recv);
  if (Error e = InHost(send, out, division, type, in_stages); !e.ok()) return e;
  if (Error e = InRing(out, division, type, in_stages); !e.ok()) return e;
  if (Error e = Spread(out, division, type); !e.ok()) return e;
  const auto wire = static_cast<DataType>(type);
  if (op == RedOp::kAvg && count > 0)
    ScaleToAverage(wire, {out, count * ElementBytes(wire)}, static_cast<uint32_t>(size()));
  return {};
}

Error Parallel::InHost(const void* send, uint8_t* recv, const Division& d, Datatype type, RedOp op) {
  Limit(&host_);
  std::array<Request, 2> requests;
  Error error;
  bool begun = false;
  if (d.share > 0) {
    uint8_t* const own = At(recv, d.share * static_cast<size_t>(place_.local_rank), type);
    error = ReduceScatterAsync(send, own, d.share, type, op, host_, &requests[0]);
    begun = error.ok();
  }
  if (error.ok() && d.has_rest_stage()) {
    const size_t at = d.share * static_cast<size_t>(place_.local_size);
    error = AllReduceAsync(At(send, at, type), At(recv, at, type), d.rest, type, op, host_, &requests[1]);
    begun |= error.ok();
  }
  if (!error.ok() && !begun && IsRefused(error, host_)) return error;
  if (!error.ok()) error = End(OfGroup(host_name_, error));
  const Error waited = WaitAll(requests);
  if (error.ok() && !waited.ok()) error = End(OfGroup(host_name_, waited));
  return error;
}

Error Parallel::InRing(uint8_t* recv, const Division& d, Datatype type, RedOp op) {
  Limit(&ring_);
  std::array<Request, 3> requests;
  Error error;
  if (d.share > 0) {
    uint8_t* const own = At(recv, d.share * static_cast<size_t>(place_.local_rank), type);
    error = AllReduceAsync(own, own, d.share, type, op, ring_, &requests[0]);
  }
  if (error.ok() && d.has_rest_stage()) {
    // The barrier tells it from a share: hosts whose calls differ would sum the one into the other else.
    error = BarrierAsync(ring_, &requests[1]);
    uint8_t* const rest = At(recv, d.share * static_cast<size_t>(place_.local_size), type);
    if (error.ok()) error = AllReduceAsync(rest, rest, d.rest, type, op, ring_, &requests[2]);
  }
  if (!error.ok()) error = End(OfGroup(ring_name_, error));
  const Error waited = WaitAll(requests);
  if (error.ok() && !waited.ok()) error = End(OfGroup(ring_name_, waited));
  return error;
}

Error Parallel::Spread(uint8_t* recv, const Division& d, Datatype type) {
  if (d.share == 0) return {};
  Limit(&host_);
  const uint8_t* const own = At(recv, d.share * static_cast<size_t>(place_.local_rank), type);
  const Error error = AllGather(own, recv, d.share, type, host_);
  return error.ok() ? error : End(OfGroup(host_name_, error));
}

Error Parallel::Found() const {
  if (Error e = everyone_.AsyncError(); !e.ok()) return ErrorOf(e);
  const Error of_host = host_.valid() ? host_.AsyncError() : Error();
  if (!of_host.ok()) return OfGroup(host_name_, of_host);
  const Error of_ring = ring_.valid() ? ring_.AsyncError() : Error();
  return of_ring.ok() ? Error() : OfGroup(ring_name_, of_ring);
}

Error Parallel::AsyncError() {
  if (InChild()) return ForkedError();
  {
    const std::lock_guard lock(mutex_);
    if (!error_.ok()) return error_;
  }
  const Error found = Found();
  return found.ok() ? found : End(found);
}

// The group of all ranks knows best: who of the ranks it was, by the number that the user knows.
Error Parallel::End(const Error& found) {
  const Error of_all = ErrorOf(everyone_.AsyncError());
  Error error;
  {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = of_all.ok() ? found : of_all;
    error = error_;
  }
  const std::string reason = ReasonOf(error);
  for (Communicator* comm : {&ring_, &host_, &everyone_}) comm->Abort(reason);
  return error;
}

void Parallel::Abort(const std::string& reason) {
  if (InChild()) return;
  (void)End({ErrorCode::kAborted, reason.empty() ? "no reason given" : reason});
}

Error Parallel::StartWatching() {
  try {
    const SignalsBlocked blocked;
    watcher_ = std::thread([this] { Watch(); });
    return {};
  } catch (const std::system_error& e) {
    return {ErrorCode::kNoResource, fmt::format("no thread that looks after the groups: {}", e.what())};
  }
}

void Parallel::Watch() {
  pthread_setname_np(pthread_self(), "epic-parallel");
  std::unique_lock lock(mutex_);
  while (!stops_.wait_for(lock, kWatchPeriod, [this] { return stop_ || !error_.ok(); })) {
    lock.unlock();
    (void)AsyncError();
    lock.lock();
  }
}

void Parallel::StopWatching() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stops_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

// While ranks wait for those that have not called it the watcher goes on.
Error Parallel::Destroy() {
  if (InChild()) return ForkedError();
  const std::lock_guard turn(turn_);
  Error error = AsyncError();
  if (error.ok()) {
    everyone_.SetTimeout(timeout_);
    if (const Error e = Barrier(everyone_); !e.ok()) error = End(OfGroup("all", e));
  }
  StopWatching();
  for (Communicator* comm : {&ring_, &host_, &everyone_}) {
    comm->SetTimeout(timeout_);
    const Error left = comm->Destroy();
    if (error.ok()) error = ErrorOf(left);
  }
  return error;
}

Parallel::~Parallel() { StopWatching(); }

}  // namespace epic::internal

namespace epic {
namespace {

Error NotJoined() { return {ErrorCode::kInvalidArgument, "the communicator is not initialised"}; }

Error Unsupported(const char* collective) {
  return {ErrorCode::kUnsupported,
          fmt::format("{} is no call of a ParallelCommunicator, which has AllReduce alone: make it on "
                      "everyone(), or on a Communicator",
                      collective)};
}

Error Refuse(const char* collective, const ParallelCommunicator& comm) {
  return comm.valid() ? Unsupported(collective) : NotJoined();
}

}  // namespace

ParallelCommunicator::ParallelCommunicator() = default;
ParallelCommunicator::~ParallelCommunicator() = default;
ParallelCommunicator::ParallelCommunicator(ParallelCommunicator&&) noexcept = default;
ParallelCommunicator& ParallelCommunicator::operator=(ParallelCommunicator&&) noexcept = default;

Error ParallelCommunicator::Init(const Options& options, const std::string& host) {
  // First of all, as in Communicator::Init.
  if (!internal::Progress::Claim()) return internal::ForkedInitError();
  if (impl_) return {ErrorCode::kInvalidArgument, "the communicator is initialised already"};
  Options resolved = options;
  const auto get_env = [](const char* name) -> const char* { return std::getenv(name); };
  if (Error e = internal::ResolveOptions(get_env, &resolved, internal::HostDaemon()); !e.ok()) return e;
  return internal::Parallel::Create(resolved, host, &impl_);
}

Error ParallelCommunicator::Destroy() {
  if (!impl_) return NotJoined();
  Error error = impl_->Destroy();
  impl_ = nullptr;
  return error;
}

void ParallelCommunicator::Abort(const std::string& reason) {
  if (impl_) impl_->Abort(reason);
}
Error ParallelCommunicator::AsyncError() const { return impl_ ? impl_->AsyncError() : NotJoined(); }
int ParallelCommunicator::rank() const { return impl_ ? impl_->rank() : -1; }
int ParallelCommunicator::size() const { return impl_ ? impl_->size() : 0; }
int ParallelCommunicator::local_rank() const { return impl_ ? impl_->place().local_rank : -1; }
int ParallelCommunicator::local_size() const { return impl_ ? impl_->place().local_size : 0; }
int ParallelCommunicator::host() const { return impl_ ? impl_->place().host : -1; }
int ParallelCommunicator::hosts() const { return impl_ ? impl_->place().hosts : 0; }
void ParallelCommunicator::SetTimeout(std::chrono::milliseconds timeout) {
  if (impl_ && timeout.count() > 0) impl_->SetTimeout(timeout);
}

const Communicator& ParallelCommunicator::ring() const {
  static const Communicator nobody;  // refuses everything
  return impl_ ? impl_->ring() : nobody;
}
Communicator& ParallelCommunicator::everyone() {
  static Communicator nobody;
  return impl_ ? impl_->everyone() : nobody;
}

Error AllReduce(const void* sendbuff, void* recvbuff, size_t count, Datatype datatype, RedOp op,
                ParallelCommunicator& comm) {
  return comm.impl_ ? comm.impl_->AllReduce(sendbuff, recvbuff, count, datatype, op) : NotJoined();
}
Error Reduce(const void*, void*, size_t, Datatype, RedOp, int, ParallelCommunicator& comm) {
  return Refuse("Reduce", comm);
}
Error Broadcast(const void*, void*, size_t, Datatype, int, ParallelCommunicator& comm) {
  return Refuse("Broadcast", comm);
}
Error ReduceScatter(const void*, void*, size_t, Datatype, RedOp, ParallelCommunicator& comm) {
  return Refuse("ReduceScatter", comm);
}
Error AllGather(const void*, void*, size_t, Datatype, ParallelCommunicator& comm) {
  return Refuse("AllGather", comm);
}
Error Barrier(ParallelCommunicator& comm) { return Refuse("Barrier", comm); }

}  // namespace epic
