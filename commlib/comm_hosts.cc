// What a communicator does between the hosts: its connections with other ranks, the calls that go over them,
// and those of a group of one. comm.cc has what goes through the switches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "commlib/arguments.h"
#include "commlib/comm.h"
#include "commlib/core/slices.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "protocol/bounds.h"
#include "protocol/collectives.h"
#include "protocol/flow.h"
#include "reduce/reduce.h"

namespace epic::internal {
namespace {

constexpr Algorithm ToCore(HostAlgorithm algorithm) {
  switch (algorithm) {
    case HostAlgorithm::kDoubling:
      return Algorithm::kDoubling;
    case HostAlgorithm::kRing:
      return Algorithm::kRing;
    case HostAlgorithm::kMulticast:
      return Algorithm::kMulticast;
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
  abilities_.plain_bytes = path_mtu_ - kControlBytes;  // what a packet holds with its header
  calls_.SetConfig({.by_hosts = true});
  {
    const Lock lock(mutex_);
    if (Error e = EnsureHosts(); !e.ok()) return e;
  }
  // Who asked for it knows.
  const bool tells = options_.rank == 0 && options_.path != PathChoice::kHosts;
  Log(tells ? LogLevel::kWarn : LogLevel::kInfo, "group {}: hosts: {}{}", options_.group, path_.reason,
      MulticastInWords());
  return {};
}

std::string Comm::MulticastInWords() const {
  if (path_.path != PathChoice::kHosts || options_.algorithm != HostAlgorithm::kAuto) return {};
  std::string calls;
  for (const Collective collective : {Collective::kBroadcast, Collective::kAllGather}) {
    const MulticastBytes bytes = BytesByMulticast(collective, static_cast<uint32_t>(options_.size));
    if (!bytes.Have(bytes.least)) continue;
    calls += fmt::format("{}{}s of {} to {} KiB", calls.empty() ? "" : ", ", NameOf(collective),
                         bytes.least / 1024, bytes.most / 1024);
  }
  if (calls.empty()) return {};
  return abilities_.multicast ? fmt::format("; {} go by multicast, which is shorter", calls)
                              : fmt::format("; {} do not go by multicast: {}", calls, no_multicast_);
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
  if (config.algorithm == Algorithm::kMulticast && !abilities_.multicast) config.algorithm = Algorithm::kAuto;
  if (abilities_.multicast) {
    config.chunk_bytes = connect_.path_mtu;
    config.receive_bytes = device_->max_path_mtu();
    config.staging_chunks = datagrams_->info.receives;
  }
  calls_.AddHosts(config);
  return HostLinks::Create(device_, cq_, config.rank, config.world_size, connect_, &calls_, &datagrams_,
                           &hosts_);
}

Error Comm::CheckLength(const ControlHeader& header) const {
  if (CallBytes(header) == 0) return {};
  const uint64_t most = calls_.MostElementsByHosts(header);
  if (SlicesOf(header.count, most) <= kMaxSlices) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format(
              "count {}: a call is made in at most {} invocations, of {} elements each here; algorithm ring "
              "takes longer ones",
              header.count, kMaxSlices, most)};
}

Error Comm::MakeEnds() {
  if (!calls_.wants_connections()) return {};
  std::vector<PeerEndInfo> tell;
  const Error error = hosts_->MakeEnds(calls_.TakeWanted(), &tell);
  for (const PeerEndInfo& end : tell) session_->TellPeer(end);
  return error;
}

void Comm::OnPeerEnd(const PeerEndInfo& end) {
  std::vector<PeerEndInfo> tell;
  std::optional<HostLinks::Connecting> connecting;
  {
    const Lock lock(mutex_);
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
  const Lock lock(mutex_);
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

void Comm::TellOfWay(const ControlHeader& header) {
  if (options_.rank != 0 || !IsByHosts(header)) return;
  const std::string why = WhyByHosts(abilities_, header);
  if (!told_ways_.insert(why).second) return;
  Log(IsLacking(abilities_, header) ? LogLevel::kWarn : LogLevel::kInfo, "group {}: hosts: {}",
      options_.group, why);
}

void Comm::TellOfBusy() {
  if (calls_.busy() == 0 || std::exchange(told_busy_, true) || options_.rank != 0) return;
  Log(LogLevel::kWarn,
      "group {}: hosts: another group has the memory that it shares with this one in switches (the first "
      "such "
      "call; Communicator::Shared counts on)",
      options_.group);
}

void Comm::TellOfReads() {
  if (!abilities_.multicast || told_reads_) return;
  // Of so few nothing is told.
  constexpr uint64_t kLeast = 100;
  const MulticastCounts all = calls_.multicast();
  MulticastCounts counts = all;
  counts.expected -= judged_reads_.expected;
  counts.came -= judged_reads_.came;
  counts.read -= judged_reads_.read;
  if (counts.expected < kLeast) return;
  judged_reads_ = all;
  if (counts.read * 10 < counts.expected) return;
  told_reads_ = true;
  Log(LogLevel::kWarn, "group {} rank {}: {} of {} datagrams have not come and were read from rank {}{}",
      options_.group, options_.rank, counts.read, counts.expected,
      (options_.rank + options_.size - 1) % options_.size,
      counts.came == 0 ? ": the network does not carry the group's multicast" : "");
}

void Comm::TellDatagrams() {
  if (!told_datagrams_ || !session_) return;
  const MulticastCounts counts = calls_.multicast();
  if (counts == *told_datagrams_) return;
  told_datagrams_ = counts;
  session_->TellDatagrams(counts);
}

DatagramCounts Comm::CountDatagrams() {
  if (InChild()) return {};
  const Lock lock(mutex_);
  const MulticastCounts counts = calls_.multicast();
  return {.multicast = abilities_.multicast,
          .expected = counts.expected,
          .came = counts.came,
          .read = counts.read,
          .stranger = counts.stranger,
          .stale = counts.stale,
          .alien = counts.alien,
          .length = counts.length,
          .again = counts.again};
}

Sharing Comm::Shared() {
  if (InChild()) return {};
  const Lock lock(mutex_);
  return {.shares = abilities_.asks, .granted = calls_.granted(), .busy = calls_.busy()};
}

PathTaken Comm::PathOf(const CallArguments& call) const {
  ControlHeader header;
  if (path_.path != PathChoice::kNetwork) {
    PathTaken taken = path_;
    const MulticastBytes bytes = BytesByMulticast(call.collective, static_cast<uint32_t>(options_.size));
    if (MakeHeader(call, options_.size, &header).ok() && bytes.Have(CallBytes(header)))
      taken.reason += MulticastInWords();
    return taken;
  }
  Error error = MakeHeader(call, options_.size, &header);
  if (error.ok()) error = ChooseWay(abilities_, quantises(), &header);
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
  if (IsQuantised(header)) return RunAloneScaled(call);
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
