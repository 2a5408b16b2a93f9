#include "sim/group_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "commlib/core/host_peers.h"

namespace epic::sim {
namespace {

constexpr uint32_t kFirstAddress = 0xefc00000;              // 239.192.0.0
constexpr uint32_t kAddresses = roce::kMaxMulticastGroups;  // of each group
constexpr uint32_t kFirstQkey = 0x10000;
// That a connection may have under way, each way, and that its NIC may answer again: no more than the path's
// empty Reads see to, as in the library.
constexpr uint8_t kReads = kFetchReads;

int PeerAt(int connection) { return static_cast<int>(RankAt(static_cast<uint32_t>(connection))); }
int BackFrom(int rank, int connection) {
  return static_cast<int>(AtOtherEnd(static_cast<uint32_t>(rank), static_cast<uint32_t>(connection)));
}

}  // namespace

GroupRanks::GroupRanks(World& world, int group, const std::optional<HostsWay>& way, Choices& choices, Say say)
    : at_(new At{.world = world,
                 .group = group,
                 .choices = choices,
                 .way = way.value_or(HostsWay{}),
                 .say = std::move(say),
                 .ranks = {}}) {
  if (!way) return;
  HostPathConfig& path = at_->way.path;
  path.world_size = static_cast<uint32_t>(world.ranks(group));
  const bool by_multicast = path.algorithm == Algorithm::kMulticast;
  if (by_multicast && path.chunk_bytes == 0) path.chunk_bytes = world.path_mtu();
  for (int r = 0; r < world.ranks(group); ++r) at_->AddRank(r);
  if (by_multicast) at_->AddDatagrams();
}

void GroupRanks::At::AddRank(int rank) {
  HostPathConfig config = way.path;
  config.rank = static_cast<uint32_t>(rank);
  PathRank::Asks asks{.connect = [this, rank](int c) { Tell([this, rank, c] { Connect(rank, c); }); },
                      .tell = [this, rank](int c) { Tell([this, rank, c] { TellReady(rank, c); }); }};
  if (say) {
    EPIC_CHECK(config.algorithm != Algorithm::kMulticast);
    asks = {.connect = [this, rank](int peer) { SayQueuePair(rank, peer); },
            .tell = [this, rank](int peer) { say(rank, peer, /*ready=*/true); }};
  }
  PathRank& added =
      *ranks.emplace_back(std::make_unique<PathRank>(config, world.host(rank, group), std::move(asks)));
  const auto reads = static_cast<uint8_t>(config.algorithm == Algorithm::kMulticast ? kReads : 0);
  const PeerConfig peers{.send_depth = kHostQueueDepth,
                         .recv_depth = kHostQueueDepth,
                         .max_rd_atomic = reads,
                         .completion_ns = way.completion_ns};
  added.SetPeers(world.AddPeers(rank, added, peers, group));
}

void GroupRanks::At::AddDatagrams() {
  PathRank::Multicast multicast{.address = Ipv4{kFirstAddress + static_cast<uint32_t>(group) * kAddresses},
                                .qkey = kFirstQkey + static_cast<uint32_t>(group)};
  DatagramConfig config{
      .qkey = multicast.qkey, .send_depth = way.path.staging_chunks, .recv_depth = way.path.staging_chunks};
  for (uint32_t a = 0; a < way.path.addresses; ++a)
    config.addresses.emplace_back(Ipv4{Raw(multicast.address) + a});
  for (int r = 0; r < world.ranks(group); ++r)
    multicast.members.push_back(world.AddDatagrams(r, config, group));
  for (const auto& rank : ranks) rank->SetMulticast(multicast);
}

// A message through the manager: it comes late, but is never lost.
void GroupRanks::At::Tell(std::function<void()> action) {
  const auto late = static_cast<Nanos>(choices.Below(static_cast<uint64_t>(way.tell_ns)));
  world.At(world.now() + 1 + late, std::move(action));
}

// Each end has its queue pair, and knows of it at a time of its own. Both may have asked.
void GroupRanks::At::Connect(int rank, int connection) {
  const int to = PeerAt(connection);
  if (!IsAlive(rank) || !IsAlive(to) || world.peers(rank, group).IsConnected(connection)) return;
  world.ConnectPeers(rank, connection, group);
  Tell([this, rank, connection] { SetConnected(rank, connection); });
  Tell([this, to, back = BackFrom(rank, connection)] { SetConnected(to, back); });
}

void GroupRanks::At::TellReady(int rank, int connection) {
  SetReady(PeerAt(connection), BackFrom(rank, connection));
}

void GroupRanks::At::SayQueuePair(int rank, int to) {
  if (said.emplace(rank, to).second) say(rank, to, /*ready=*/false);
}

// A rank that is told of another's queue pair makes its own, if it has none, and says so.
void GroupRanks::At::OnPeerEnd(int rank, int from, bool ready) {
  if (ready) return SetReady(rank, from);
  if (!IsAlive(rank) || !IsAlive(from)) return;
  if (!world.peers(rank, group).IsConnected(from)) world.ConnectPeers(rank, from, group);
  SayQueuePair(rank, from);
  SetConnected(rank, from);
}

void GroupRanks::At::SetConnected(int rank, int connection) {
  if (!IsAlive(rank)) return;
  ranks[static_cast<size_t>(rank)]->SetConnected(connection);
  world.peers(rank, group).WantPoll();
}

void GroupRanks::At::SetReady(int rank, int connection) {
  if (!IsAlive(rank)) return;
  ranks[static_cast<size_t>(rank)]->SetReady(connection);
  world.peers(rank, group).WantPoll();
}

bool GroupRanks::IsByHosts(const ControlHeader& header) const {
  return !at_->ranks.empty() && (at_->way.path.agrees_by_exchange || !CanServe(at_->way.abilities, header) ||
                                 IsShorterByHosts(header));
}

void GroupRanks::Start(int rank, CollectiveCall& call) {
  if (at_->ranks.empty()) return call.Start(at_->world, rank, at_->group);
  ControlHeader header = call.header();
  if (!at_->way.path.agrees_by_exchange && IsByHosts(header)) header.flags |= kByHostsFlag;
  const RankBuffers buffers = call.BuffersOf(rank);
  at_->world.host(rank, at_->group).Start(header, buffers.send, buffers.recv, buffers.registered);
  at_->world.peers(rank, at_->group).WantPoll();
}

bool GroupRanks::KeepsRoom() const { return at_->way.path.staging_chunks >= at_->way.path.world_size; }

bool GroupRanks::Finished(size_t calls) const {
  for (int r = 0; r < at_->world.ranks(at_->group); ++r) {
    if (host(r).alive() && host(r).calls() != calls) return false;
  }
  return at_->world.AllDone(at_->group);
}

std::string GroupRanks::Standing() const {
  std::string out;
  for (size_t r = 0; r < at_->ranks.size(); ++r) {
    const Host& of = host(static_cast<int>(r));
    size_t ended = 0;
    while (ended < of.calls() && of.state(static_cast<int>(ended)) != CallState::kRunning) ++ended;
    out += fmt::format("rank {}: {} calls, the first {} have ended; posted {} between the hosts{}\n", r,
                       of.calls(), ended, of.core().posted_to_hosts(), of.core().failed() ? ", failed" : "");
  }
  return out;
}

}  // namespace epic::sim
