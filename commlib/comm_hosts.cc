// What a communicator does between the hosts: its connections with other ranks, the calls that go over them,
// and those of a group of one. comm.cc has what goes through the switches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "commlib/arguments.h"
#include "commlib/comm.h"
#include "commlib/comm_slices.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "protocol/bounds.h"
#include "reduce/reduce.h"

namespace epic::internal {
namespace {

constexpr Algorithm ToCore(HostAlgorithm algorithm) {
  switch (algorithm) {
    case HostAlgorithm::kDoubling:
      return Algorithm::kDoubling;
    case HostAlgorithm::kRing:
      return Algorithm::kRing;
    case HostAlgorithm::kDefault:
    case HostAlgorithm::kAuto:
      break;
  }
  return Algorithm::kAuto;
}

Error CheckHostRanks(uint32_t size) {
  if (size <= kMaxHostRanks) return {};
  return {ErrorCode::kUnsupported,
          fmt::format("a group of {} ranks is too large for the hosts' path, which takes {}", size,
                      kMaxHostRanks)};
}

}  // namespace

Error Comm::ConnectByHosts(const JoinedInfo& joined) {
  qp_ = nullptr;  // there is no switch
  path_mtu_ = joined.connect.path_mtu;
  {
    const std::lock_guard lock(mutex_);
    if (Error e = EnsureHosts(); !e.ok()) return e;
  }
  // Who asked for it knows.
  const bool tells = options_.rank == 0 && options_.path != PathChoice::kHosts;
  Log(tells ? LogLevel::kWarn : LogLevel::kInfo, "group {}: hosts: {}", options_.group, path_.reason);
  return {};
}

Error Comm::EnsureHosts() {
  if (hosts_) return {};
  const auto size = static_cast<uint32_t>(options_.size);
  if (Error e = CheckHostRanks(size); !e.ok()) return e;
  HostPathConfig config;
  config.rank = static_cast<uint32_t>(options_.rank);
  config.world_size = size;
  config.algorithm = ToCore(options_.algorithm);
  config.agrees_by_exchange = path_.path == PathChoice::kHosts;
  return HostLinks::Create(device_, cq_, config, connect_, &hosts_);
}

Error Comm::MakeEnds() {
  std::vector<PeerEndInfo> tell;
  const Error error = hosts_->MakeEnds(&tell);
  for (const PeerEndInfo& end : tell) session_->TellPeer(end);
  return error;
}

void Comm::OnPeerEnd(const PeerEndInfo& end) {
  std::vector<PeerEndInfo> tell;
  std::optional<HostLinks::Connecting> connecting;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::kRunning || !session_) return;
    Error error = EnsureHosts();
    if (error.ok()) error = hosts_->OnPeerEnd(end, &tell, &connecting);
    for (const PeerEndInfo& ours : std::exchange(tell, {})) session_->TellPeer(ours);
    if (!error.ok()) Fail(error, true);
    if (!connecting) {
      MakeProgress();
      return PassOn();
    }
  }
  Error error = connecting->qp->Connect(connecting->info);
  const std::lock_guard lock(mutex_);
  if (!error.ok()) Fail(error, true);
  if (phase_ != Phase::kRunning) {
    connecting->qp->DestroyQp();
    return PassOn();
  }
  hosts_->OnConnected(*connecting, &tell);
  MakeProgress();  // posts what the other end may send to
  for (const PeerEndInfo& ours : tell) session_->TellPeer(ours);
  PassOn();
}

void Comm::StartByHosts(const std::shared_ptr<Call>& call) {
  if (!call->busy) TellOfWay(call->header);
  // The ranks agree on it, whoever makes them.
  call->header.flags |= AlgorithmFlags(ToCore(options_.algorithm));
  Slice(call.get(), hosts_->MostBytes(call->header),
        [&](const ControlHeader& header, uint64_t offset, uint64_t part_stride) {
          const OpId op = hosts_->Post({.header = header,
                                        .send = At(call->send, offset),
                                        .recv = At(call->recv, offset),
                                        .part_stride = part_stride},
                                       call);
          if (IsByHosts(header)) waiting_.push_back({.call = call, .header = header, .host_op = op});
        });
  if (Error e = MakeEnds(); !e.ok()) Fail(e, true);
}

void Comm::TellOfWay(const ControlHeader& header) {
  if (options_.rank != 0 || !IsByHosts(header)) return;
  const std::string why = WhyByHosts(abilities_, header);
  if (!told_ways_.insert(why).second) return;
  Log(IsLacking(abilities_, header) ? LogLevel::kWarn : LogLevel::kInfo, "group {}: hosts: {}", options_.group, why);
}

void Comm::ProgressHosts() {
  const HostPath& path = hosts_->path();
  if (path.failed()) Fail(HostsError(), true);
  if (Error e = hosts_->PostWork(); !e.ok()) Fail(e, true);
  if (!error_.ok()) return;
  while (!waiting_.empty() && (!waiting_.front().host_op || path.MayAgree(*waiting_.front().host_op))) {
    StartInvocation(waiting_.front());
    waiting_.pop_front();
  }
}

bool Comm::DeliverFromHosts() {
  bool any = false;
  while (const auto ended = hosts_->NextFinished())
    any |= EndSlice(ended->call.get(), ended->outcome == Outcome::kOk);
  return any;
}

Error Comm::HostsError() const {
  const HostPath& path = hosts_->path();
  if (path.failure() == Outcome::kRefused) {
    const ControlHeader& reply = path.failure_reply();
    const Call* const call = hosts_->CallOf(static_cast<OpId>(reply.invocation));
    return RefusalError(reply, call != nullptr ? call->header : ControlHeader{},
                        call != nullptr && call->slices > 1);
  }
  if (path.failure() == Outcome::kDisorder)
    return {ErrorCode::kTransport,
            "the RDMA driver completed requests in another order than they were posted"};
  return {ErrorCode::kTransport, "another rank sent what the protocol between hosts does not allow"};
}

PathTaken Comm::PathOf(const CallArguments& call) const {
  if (path_.path != PathChoice::kNetwork) return path_;
  ControlHeader header;
  Error error = MakeHeader(call, options_.size, &header);
  if (error.ok()) error = ChooseWay(abilities_, &header);
  if (!error.ok()) return {.path = PathChoice::kDefault, .reason = error.message()};
  if (!IsByHosts(header)) return path_;
  if (Error e = CheckHostRanks(static_cast<uint32_t>(options_.size)); !e.ok())
    return {.path = PathChoice::kDefault, .reason = e.message()};
  return {.path = PathChoice::kHosts, .reason = WhyByHosts(abilities_, header)};
}

void Comm::RunAlone(const Call& call) {
  const ControlHeader& header = call.header;
  const uint64_t bytes = CallBytes(header);
  if (!Reduces(header.collective) || bytes == 0) return;  // copies: CopyOwnPart has done it
  if (IsQuantised(header)) return RunAloneQuantised(call);
  if (header.op != ReduceOp::kLogicalAnd && header.op != ReduceOp::kLogicalOr) {
    if (call.recv != call.send) std::memcpy(call.recv, call.send, bytes);
    return;
  }
  // 1 for what is not zero, in place too.
  std::array<uint8_t, 4096> chunk;
  for (uint64_t at = 0; at < bytes; at += chunk.size()) {
    const size_t length = std::min<uint64_t>(chunk.size(), bytes - at);
    std::memcpy(chunk.data(), call.send + at, length);
    Load(header.op, header.type, {call.recv + at, length}, {chunk.data(), length});
  }
}

}  // namespace epic::internal
