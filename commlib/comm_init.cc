// How a communicator comes and goes; comm.cc has what lies between.
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "base/fork.h"
#include "commlib/comm.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "protocol/bounds.h"

namespace epic::internal {
namespace {

constexpr auto kLeaveAfterRefusal = std::chrono::seconds(2);
constexpr Nanos kDefaultSpin = 500 * kMicrosecond;
constexpr long kMaxSpinUs = 1'000'000;

// How long to poll at most, if the environment says so.
std::optional<Nanos> SpinFromEnvironment() {
  const char* text = std::getenv("EPIC_SPIN_US");
  if (text == nullptr) return std::nullopt;
  return std::clamp(std::strtol(text, nullptr, 10), 0L, kMaxSpinUs) * kMicrosecond;
}

}  // namespace

Error Comm::Create(const Options& options, std::shared_ptr<Comm>* comm) {
  std::shared_ptr<Comm> result(new Comm(options), [](const Comm* c) {
    if (!c->InChild()) delete c;
  });
  if (Error e = result->Open(); !e.ok()) {
    result->Shutdown();
    return e;
  }
  *comm = std::move(result);
  return {};
}

bool Comm::InChild() const { return ForkDepth() != fork_depth_; }

Error Comm::Open() {
  if (!CountsForks()) return {ErrorCode::kNoResource, "there was no memory to tell of forks"};
  const std::optional<Nanos> spin = SpinFromEnvironment();
  // Polling is for machines that have a processor to spare.
  const bool polls = std::thread::hardware_concurrency() > 1;
  spin_ = Spin(polls ? spin.value_or(kDefaultSpin) : 0);
  always_polls_ = spin.has_value();
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0)
    return {ErrorCode::kNoResource, fmt::format("cannot create an eventfd: {}", std::strerror(errno))};
  if (alone_) {
    path_ = {.path = PathChoice::kHosts, .reason = "the group has one rank"};
    abilities_.scale = options_.quantise;
    return {};
  }
  if (Error e = verbs::Device::Open(options_.ifname, &device_); !e.ok()) return e;
  if (Error e = verbs::Memory::Register(device_, calls_.memory().data(), calls_.memory().size(), true,
                                        &own_memory_);
      !e.ok()) {
    return e;
  }
  constexpr uint32_t kSends = MaxSendRequests(kMaxWindowPackets), kRecvs = MaxRecvRequests(kMaxWindowPackets);
  if (Error e = verbs::CompletionQueue::Create(device_, kSends + kRecvs, &cq_); !e.ok()) return e;
  if (Error e = verbs::QueuePair::Create(device_, cq_, kSends, kRecvs, &qp_); !e.ok()) return e;
  JoinInfo join{.group = options_.group,
                .rank = static_cast<uint32_t>(options_.rank),
                .size = static_cast<uint32_t>(options_.size),
                .ip = device_->ip(),
                .qpn = qp_->qpn(),
                .max_path_mtu = device_->max_path_mtu(),
                .max_outstanding = device_->max_outstanding(),
                .join_timeout = options_.join_timeout,
                .manager_timeout = options_.manager_timeout,
                .gives_up = options_.gives_up,
                .away_timeout = options_.manager_away,
                .mode = options_.mode,
                .super_frames = device_->takes_super_frames(),
                .path = options_.path,
                .max_bytes = options_.max_bytes,
                .types = options_.types,
                .quantise = options_.quantise,
                .quantise_int8 = options_.quantise_int8};
  if (Error e = OfferDatagrams(&join); !e.ok()) return e;
  Log(LogLevel::kInfo, "rank {} of {} joins group {} at {} with {}", options_.rank, options_.size,
      options_.group, options_.manager, device_->description());
  JoinedInfo joined;
  if (Error e = Session::Join(options_.manager, join, &session_, &joined); !e.ok()) {
    // Another rank that was told why there is no multicast may have left before this one has looked: that is
    // a consequence.
    if (!joined.multicast_reason.empty()) {
      if (Error refused = TakeMulticast(joined); !refused.ok()) return refused;
    }
    return e;
  }
  if (Error e = Connect(joined); !e.ok()) {
    session_->Abort(e.message());
    session_->Finish();
    return e;
  }
  return {};
}

Error Comm::OfferDatagrams(JoinInfo* join) {
  if (options_.path == PathChoice::kNetwork) return {};
  const bool asks = options_.algorithm == HostAlgorithm::kMulticast;
  // Where it is never the shorter way nothing is paid for it.
  join->datagrams_offered = options_.algorithm == HostAlgorithm::kAuto && MayChooseMulticast(join->size);
  if (!asks && !join->datagrams_offered) return {};
  join->datagram_reach = device_->datagram_reach();
  if (!asks && join->datagram_reach == verbs::DatagramReach::kNone) return {};
  datagrams_.emplace();
  if (Error e =
          verbs::DatagramQp::Create(device_, cq_, options_.receives, options_.receives, &datagrams_->qp);
      !e.ok()) {
    if (asks) return e;
    no_multicast_ = e.message();
    Log(LogLevel::kInfo, "group {}: no multicast: {}", options_.group, no_multicast_);
    datagrams_.reset();
    join->datagrams_offered = false;
    return {};
  }
  join->datagram_qpn = datagrams_->qp->qpn();
  join->datagram_receives = options_.receives;
  return {};
}

Error Comm::Connect(const JoinedInfo& joined) {
  const bool by_hosts = joined.path == PathChoice::kHosts;
  if (options_.path == (by_hosts ? PathChoice::kNetwork : PathChoice::kHosts)) {
    return {ErrorCode::kUnsupported,
            fmt::format("group {} goes by the {}, not by the {}", options_.group,
                        by_hosts ? "hosts" : "network", by_hosts ? "network" : "hosts")};
  }
  // A manager that knows of scales has seen to it.
  if (options_.quantise != 0 && options_.quantise != joined.abilities.scale) {
    return {ErrorCode::kUnsupported, fmt::format("group {} has the scale {}, not {} (quantise; 0: none)",
                                                 options_.group, joined.abilities.scale, options_.quantise)};
  }
  if (options_.quantise_int8 && !joined.abilities.blocks)
    return {ErrorCode::kUnsupported,
            fmt::format("group {} has no blocks of int8 (quantise)", options_.group)};
  path_ = {.path = joined.path, .reason = joined.path_reason};
  abilities_ = joined.abilities;
  connect_ = joined.connect;
  if (Error e = TakeMulticast(joined); !e.ok()) return e;
  if (Error e = by_hosts ? ConnectByHosts(joined) : ConnectToSwitch(joined); !e.ok()) return e;
  Progress::Get().Add(shared_from_this(), cq_->channel_fd());
  session_->SetFailureHandler([weak = weak_from_this()](const Error& error) {
    if (const auto comm = weak.lock()) comm->OnSessionFailure(error);
  });
  session_->SetPeerHandler([weak = weak_from_this()](const PeerEndInfo& end) {
    if (const auto comm = weak.lock()) comm->OnPeerEnd(end);
  });
  session_->SetCallsHandler([weak = weak_from_this()]() -> std::vector<CallsInfo> {
    const auto comm = weak.lock();
    if (!comm) return {};
    std::vector<CallsInfo> calls = Progress::Get().CallsOfOthers(comm.get());
    calls.insert(calls.begin(), comm->TellCalls());
    return calls;
  });
  return {};
}

Error Comm::TakeMulticast(const JoinedInfo& joined) {
  const bool asks = options_.algorithm == HostAlgorithm::kMulticast;
  if (!joined.multicast && no_multicast_.empty()) no_multicast_ = joined.multicast_reason;
  if (no_multicast_.empty()) no_multicast_ = "its manager is of an earlier version";
  if (!datagrams_) return {};
  if (!joined.multicast && asks) {
    return {joined.multicast_error,
            fmt::format("group {} has no multicast (algorithm): {}", options_.group, no_multicast_)};
  }
  if (!joined.multicast || (!asks && joined.path != PathChoice::kHosts)) {
    datagrams_.reset();
    return {};
  }
  if (joined.multicast->receives > options_.receives) {
    return {ErrorCode::kInternal,
            fmt::format("the manager's answer to the join has multicast.receives {}, but this rank has {}",
                        joined.multicast->receives, options_.receives)};
  }
  datagrams_->info = *joined.multicast;
  abilities_.multicast = true;
  if (joined.multicast->takes_counts) told_datagrams_ = MulticastCounts{};
  return {};
}

Error Comm::ConnectToSwitch(const JoinedInfo& joined) {
  if (options_.mode != 0 && options_.mode != joined.mode) {
    return {ErrorCode::kUnsupported,
            fmt::format("group {} has mode {}, not mode {}", options_.group, joined.mode, options_.mode)};
  }
  const uint64_t window = static_cast<uint64_t>(joined.message_packets) * joined.window_messages;
  if (window == 0 || window > kMaxWindowPackets) {
    return {ErrorCode::kUnsupported,
            fmt::format("the manager chose a window of {} messages of {} packets; this library "
                        "takes 1 to {} packets",
                        joined.window_messages, joined.message_packets, kMaxWindowPackets)};
  }
  if (joined.abilities.asks && !joined.abilities.hosts_reach) {
    return {ErrorCode::kUnsupported,
            fmt::format(
                "group {} shares memory in switches, but its hosts do not reach each other, as calls do that "
                "find it taken: {}",
                options_.group, joined.abilities.why_not_hosts)};
  }
  if (Error e = qp_->Connect(joined.connect); !e.ok()) return e;
  path_mtu_ = joined.connect.path_mtu;
  abilities_.plain_bytes =
      std::min<uint64_t>(joined.inline_bytes, uint64_t{joined.message_packets} * path_mtu_ - kControlBytes);
  calls_.SetConfig({.network = {.path_mtu = path_mtu_,
                                .message_packets = joined.message_packets,
                                .window_messages = joined.window_messages,
                                .rank = static_cast<uint32_t>(options_.rank),
                                .world_size = static_cast<uint32_t>(options_.size),
                                .inline_bytes = joined.inline_bytes,
                                .turns = joined.abilities.has.turns,
                                .scale = joined.abilities.scale},
                    .asks = joined.abilities.asks,
                    .invocation_bytes = joined.invocation_bytes,
                    .start_messages = joined.start_messages});
  Log(LogLevel::kInfo,
      "rank {}: group {} (id {}) through {} at {} qpn 0x{:x}; mode {}, path MTU {}, M {}, W {} at most, {} "
      "to "
      "begin with, inline {}",
      options_.rank, options_.group, joined.group_id, joined.connect.name,
      verbs::ToString(joined.connect.remote_ip), joined.connect.remote_qpn, joined.mode, path_mtu_,
      joined.message_packets, joined.window_messages, calls_.start_window(), joined.inline_bytes);
  return {};
}

void Comm::OnSessionFailure(const Error& error) {
  const Lock lock(mutex_);
  // A reply that is here already says more than the manager's consequence of it.
  MakeProgress();
  Fail(error, false);
  PassOn();
}

Error Comm::Destroy() {
  if (InChild()) return ForkedError();
  {
    const Lock lock(mutex_);
    leaves_ = true;
  }
  AwaitCalls();
  Lock lock(mutex_);
  // Nothing that a switch waits for is left when the queue pair goes.
  if (qp_) qp_->ShareAcks(1, 0);
  TellDatagrams();
  Error result = error_;
  const auto timeout = options_.timeout;
  Session* const session = session_.get();
  lock.unlock();
  if (alone_) {
    // Nobody else is there to leave.
  } else if (result.ok()) {
    result = session->Leave(timeout, {});
    if (result.code() == ErrorCode::kTimeout) {
      // Whoever makes another call instead would wait for this rank.
      session->Abort(result.message());
      session->Finish();
    }
  } else {
    LeaveFailedGroup();
  }
  Shutdown();
  return result;
}

// Every rank gets a switch's refusal by itself: leaving in order keeps the manager from telling those that
// are slower to read theirs that this rank is lost. After other errors the manager must only have heard the
// reason.
void Comm::LeaveFailedGroup() {
  AwaitDrained();
  Lock lock(mutex_);
  Session* const session = session_.get();
  const bool refused = refused_;
  const Error error = error_;
  lock.unlock();
  if (!refused) return session->Finish();
  // Who has not taken it by then is perhaps away.
  if (session->Leave(kLeaveAfterRefusal, error).code() == ErrorCode::kTimeout) session->Finish();
}

void Comm::Drop() {
  if (InChild()) return;
  Abort("the communicator was dropped without Destroy");
  if (!alone_) LeaveFailedGroup();
  Shutdown();
}

void Comm::Abort(const std::string& reason) {
  if (InChild()) return;
  const Lock lock(mutex_);
  Fail({ErrorCode::kAborted, reason.empty() ? "no reason given" : reason}, true);
  PassOn();
}

// Afterwards nothing calls into this object but requests that are still held.
void Comm::Shutdown() {
  if (cq_) Progress::Get().Remove(cq_->channel_fd());
  std::unique_ptr<Session> session;
  {
    const Lock lock(mutex_);
    if (error_.ok()) error_ = {ErrorCode::kInvalidArgument, "the communicator was destroyed"};
    BeginDrain();
  }
  AwaitDrained();
  {
    const Lock lock(mutex_);
    session = std::move(session_);
    regions_.clear();
  }
  session.reset();  // without the mutex: its handler may be waiting for it
}

Comm::~Comm() {
  if (wake_fd_ >= 0) close(wake_fd_);
}

Error Comm::AsyncError() {
  if (InChild()) return ForkedError();
  const Lock lock(mutex_);
  MakeProgress();
  PassOn();
  return error_;
}

// Not with the mutex, since it takes its time.
Error Comm::AskManager(const std::function<Error(Session*)>& ask) {
  if (InChild()) return ForkedError();
  if (alone_) return {};
  Session* session = nullptr;
  {
    const Lock lock(mutex_);
    session = session_.get();
  }
  if (session == nullptr) return {ErrorCode::kInvalidArgument, "the communicator was destroyed"};
  return ask(session);
}

Error Comm::Trouble(std::vector<TroubleCount>* counts) {
  counts->clear();
  Error error = AskManager([counts](Session* session) { return session->Trouble(counts); });
  const DatagramCounts datagrams = CountDatagrams();
  const auto add = [&](const char* what, uint64_t count) {
    if (count > 0) counts->push_back({fmt::format("rank {}", options_.rank), what, count});
  };
  add("datagrams_read", datagrams.read);
  add("datagrams_of_strangers", datagrams.stranger);
  add("datagrams_of_other_calls", datagrams.stale);
  add("datagrams_of_other_ranks", datagrams.alien);
  add("datagrams_of_other_length", datagrams.length);
  add("datagrams_again", datagrams.again);
  return error;
}

Error Comm::WaitsFor(WaitState* state) {
  *state = {};
  return AskManager([state](Session* session) { return session->Waiting(state); });
}

void Comm::SetTimeout(std::chrono::milliseconds timeout) {
  if (InChild()) return;
  const Lock lock(mutex_);
  options_.timeout = timeout;
}

Error Comm::Register(void* base, size_t bytes, std::shared_ptr<Region>* region) {
  if (InChild()) return ForkedError();
  std::shared_ptr<verbs::Memory> memory;
  if (!alone_) {
    if (Error e = verbs::Memory::Register(device_, base, bytes, true, &memory, abilities_.multicast); !e.ok())
      return e;
  }
  auto result = std::make_shared<Region>(std::move(memory));
  const Lock lock(mutex_);
  regions_.push_back(result);
  *region = std::move(result);
  return {};
}

void Comm::Deregister(const std::shared_ptr<Region>& region) {
  if (InChild()) return;
  const Lock lock(mutex_);
  std::erase(regions_, region);
}

}  // namespace epic::internal
