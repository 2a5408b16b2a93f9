#include "sim/group_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace epic::sim {

GroupRanks::GroupRanks(World& world, int group, const std::optional<HostsWay>& way, Choices& choices, Say say)
    : at_(new At{.world = world,
                 .group = group,
                 .choices = choices,
                 .way = way.value_or(HostsWay{}),
                 .say = std::move(say),
                 .ranks = {}}) {
  if (!way) return;
  At* const at = at_.get();
  at->way.path.world_size = static_cast<uint32_t>(world.ranks(group));
  for (int r = 0; r < world.ranks(group); ++r) {
    HostPathConfig config = at->way.path;
    config.rank = static_cast<uint32_t>(r);
    PathRank::Asks asks{.connect = [at, r](int peer) { at->Tell([at, r, peer] { at->Connect(r, peer); }); },
                        .tell = [at, r](int peer) { at->Tell([at, r, peer] { at->SetReady(peer, r); }); }};
    if (at->say) {
      asks = {.connect = [at, r](int peer) { at->SayQueuePair(r, peer); },
              .tell = [at, r](int peer) { at->say(r, peer, /*ready=*/true); }};
    }
    at->ranks.push_back(std::make_unique<PathRank>(config, world.host(r, group), std::move(asks)));
    at->ranks.back()->SetPeers(world.AddPeers(
        r, *at->ranks.back(), {.send_depth = kHostQueueDepth, .recv_depth = kHostQueueDepth}, group));
  }
}

// A message through the manager: it comes late, but is never lost.
void GroupRanks::At::Tell(std::function<void()> action) {
  const auto late = static_cast<Nanos>(choices.Below(static_cast<uint64_t>(way.tell_ns)));
  world.At(world.now() + 1 + late, std::move(action));
}

// Each end has its queue pair, and knows of it at a time of its own. Both may have asked.
void GroupRanks::At::Connect(int a, int b) {
  if (!IsAlive(a) || !IsAlive(b) || world.peers(a, group).IsConnected(b)) return;
  world.ConnectPeers(a, b, group);
  Tell([this, a, b] { SetConnected(a, b); });
  Tell([this, a, b] { SetConnected(b, a); });
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

void GroupRanks::At::SetConnected(int rank, int peer) {
  if (!IsAlive(rank)) return;
  ranks[static_cast<size_t>(rank)]->SetConnected(peer);
  world.peers(rank, group).WantPoll();
}

void GroupRanks::At::SetReady(int rank, int peer) {
  if (!IsAlive(rank)) return;
  ranks[static_cast<size_t>(rank)]->SetReady(peer);
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
