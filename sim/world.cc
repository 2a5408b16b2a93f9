#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace epic::sim {
namespace {

// A check of a context reads all its slots: behind each timer a run would take a third longer.
constexpr uint64_t kTimersPerCheck = 64;

}  // namespace

class World::SwitchEffects final : public engine::Effects {
 public:
  SwitchEffects(World& world, int node) : world_(world), node_(node) {}
  void Send(PortId port, const engine::OutPacket& packet) override {
    world_.Transmit(node_, port, packet.packet, packet.ip_id, packet.super_frames);
  }
  void SetTimer(engine::TimerId id, Nanos deadline) override {
    // Setting a timer that is set moves it: what was set before must not fire.
    world_.switch_deadline_[{node_, id}] = deadline;
    world_.At(world_.RunsAt(deadline), [this_world = &world_, node = node_, id, deadline] {
      Nanos& armed = this_world->switch_deadline_[{node, id}];
      if (armed != deadline) return;
      armed = kNever;
      SwitchEffects effects(*this_world, node);
      engine::Engine& engine = this_world->engines_[static_cast<size_t>(node)];
      engine.OnTimer(this_world->now_, id, effects);
      if (++this_world->switch_timers_ % kTimersPerCheck != 0) return;
      engine.CheckInvariants();
    });
  }
  void Drop(PortId, engine::DropReason) override {}

 private:
  World& world_;
  int node_;
};

class World::HostSink final : public roce::PacketSink {
 public:
  HostSink(World& world, int node) : world_(world), node_(node) {}
  // As softnic: its identifications count the packets of its port.
  void Send(const roce::Packet& packet) override {
    world_.Transmit(node_, 0, packet, world_.ip_id_[static_cast<size_t>(node_)]++,
                    world_.links_.TakesSuperFrames(node_, 0));
  }

 private:
  World& world_;
  int node_;
};

World::World(const WorldConfig& config, uint64_t seed)
    : config_(config),
      choices_(seed),
      timer_choices_(seed * 7919 + 7),
      links_({.delay_ns = config.link_delay_ns,
              .bits_per_second = config.bits_per_second,
              .packet_life_ns = config.packet_life_ns},
             static_cast<int>(config.tree.switch_parent.size() + config.tree.rank_switch.size()), choices_,
             events_) {
  const auto switches = static_cast<int>(config.tree.switch_parent.size());
  const auto hosts = static_cast<int>(config.tree.rank_switch.size());
  const auto nodes = static_cast<size_t>(switches + hosts);
  parent_port_.resize(nodes);
  ip_id_.resize(nodes);
  down_until_.assign(nodes, 0);
  nics_.resize(static_cast<size_t>(hosts));
  for (int s = 1; s < switches; ++s) {
    if (const int parent = config.tree.switch_parent[static_cast<size_t>(s)]; parent >= 0) Connect(s, parent);
  }
  for (int h = 0; h < hosts; ++h) Connect(switches + h, config.tree.rank_switch[static_cast<size_t>(h)]);
  for (const auto& [a, b] : config.tree.more_links) links_.Connect(a, b, LinkTakesSuperFrames(a));
  for (int s = 0; s < switches; ++s) {
    engines_.emplace_back(AddressOf(s), links_.ports(s), config.arena_bytes);
    if (config.pool) EPIC_CHECK(engines_.back().MakePool(*config.pool).ok());
  }
  group_of_block_.assign(kQpnBlocks, -1);
  if (config.first_group) AddGroup(FirstGroupOf(config));
}

void World::Connect(int child, int parent) {
  parent_port_[static_cast<size_t>(child)] = links_.Connect(child, parent, LinkTakesSuperFrames(child));
}

// Of the link above a node. Both of its ends have said that they take them, or neither is told.
bool World::LinkTakesSuperFrames(int child) const {
  const bool is_host = child >= static_cast<int>(config_.tree.switch_parent.size());
  switch (config_.super_frames) {
    case SuperFrameLinks::kNone:
      return false;
    case SuperFrameLinks::kAll:
      return true;
    case SuperFrameLinks::kSwitches:
      return !is_host;
    case SuperFrameLinks::kHosts:
      return is_host;
  }
  EPIC_CHECK(false);
}

const engine::Context& World::context(int switch_number, int group) const {
  return engine(switch_number).groups().at(Of(group).id);
}

bool World::HasContext(int switch_number, int group) const {
  return engine(switch_number).groups().contains(Of(group).id);
}

bool World::AllDone(int group) const {
  return std::ranges::all_of(Of(group).ranks, [](const auto& rank) { return rank->all_closed(); });
}

void World::At(Nanos time, EventQueue::Action action) {
  events_.AddAction(std::max(ToPicos(time), clock_), std::move(action));
}

void World::Transmit(int node, PortId port, const roce::Packet& packet, uint16_t ip_id, bool joins) {
  links_.Send(clock_, node, port,
              {.packet = packet, .ip_id = ip_id, .group = GroupOf(packet), .joins = joins});
}

int World::GroupOf(const roce::Packet& packet) const {
  if (!packet.dst_ip.is_multicast()) return group_of_block_[BlockOf(packet.bth.dest_qp)];
  return members_.at(packet.dst_ip).ranks.front().first;
}

// Its packets are taken one after the other, as if each had come alone; a host's NIC answers when it has
// taken them.
void World::Arrive(const LinkFrame& frame) {
  const int node = frame.to();
  const bool is_host = node >= switches();
  const bool heard = !IsDown(node);
  int group = 0;
  int rank = -1;
  frame.ForEach([&](const LinkPacket& seen) {
    if (arrival_watch_) arrival_watch_(seen, heard);
    if (!heard) return;
    if (!is_host) {
      engine::Engine& engine = engines_[static_cast<size_t>(node)];
      if (seen.packet->dst_ip != AddressOf(node) && !engine.Bears(*seen.packet))
        return Forward(node, frame.to_port(), seen);
      SwitchEffects effects(*this, node);
      engine.OnPacket(now_, frame.to_port(), *seen.packet, effects);
      return;
    }
    // What a switch took for a group that it has lost: forwarded to a host, which has no such queue pair.
    if (IsSwitchQpn(seen.packet->bth.dest_qp)) return void(++unclaimed_);
    // A manager that has died had a group installed of which its ranks have not heard.
    if (seen.group < 0) return void(++unclaimed_);
    if (IsPeerQpn(seen.packet->bth.dest_qp)) return TakeAtHost(node - switches(), *seen.packet);
    // All are of one queue pair.
    group = seen.group;
    rank = static_cast<int>(Raw(seen.packet->bth.dest_qp) % kGroupQpns - kLowerQpn) - switches();
    if (rank == ranks(group)) return Of(group).server->OnPacket(now_, *seen.packet);
    // One that is gone: its NIC knows no such number.
    if (host(rank, group).alive()) host(rank, group).OnPacket(now_, *seen.packet);
  });
  if (rank >= 0 && rank == ranks(group)) return PollServer(group);
  if (rank >= 0) PollRank(group, rank);
}

void World::PollRank(int group, int rank) {
  const int host_number = HostOf(rank, group);
  if (IsDown(node_of_host(host_number))) return;
  SettleRank(group, rank);
  if (!fabric_ && !config_.ranks_take_turns) return;  // nobody stands in line in this world
  RunPeers(group, rank);
  // Who drives the rank's queue pairs to others may have made a call.
  if (host(rank, group).wants_poll()) SettleRank(group, rank);
  RunNic(host_number);
}

// The rank's process acts, its queue pair sends or stands in line, and its timer is set.
void World::SettleRank(int group, int rank) {
  Host& h = host(rank, group);
  if (!h.alive()) return;
  const int host_number = HostOf(rank, group);
  if (config_.ranks_take_turns) {
    if (!h.stopped()) h.RunProcess(now_);
    if (h.next_deadline() <= now_)
      return nics_[static_cast<size_t>(host_number)].StandInLine(*Of(group).turns[static_cast<size_t>(rank)]);
  } else {
    HostSink sink(*this, node_of_host(host_number));
    h.Poll(now_, sink);
  }
  const Nanos deadline = h.next_deadline();
  Nanos& armed = Of(group).deadline[static_cast<size_t>(rank)];
  if (!IsNews(deadline, armed)) return;
  armed = deadline;
  At(RunsAt(deadline), [this, group, rank] { PollRank(group, rank); });
}

void World::PollServer(int group) {
  Group& of = Of(group);
  const int node = node_of_host(*of.spec.server_host);
  if (IsDown(node)) return;
  HostSink sink(*this, node);
  of.server->Poll(now_, sink);
  const Nanos deadline = of.server->next_deadline();
  if (!IsNews(deadline, of.server_deadline)) return;
  of.server_deadline = deadline;
  At(RunsAt(deadline), [this, group] { PollServer(group); });
}

// When a timer runs that is due at a time.
Nanos World::RunsAt(Nanos deadline) {
  if (config_.late_timers_ns == 0 || timer_choices_.Below(2) == 0) return deadline;
  ++late_timers_;
  return deadline + 1 +
         static_cast<Nanos>(timer_choices_.Below(static_cast<uint64_t>(config_.late_timers_ns)));
}

void World::Freeze(int host_number, Nanos until) {
  Nanos& down = down_until_[static_cast<size_t>(node_of_host(host_number))];
  down = std::max(down, until);
  for (int g = 0; g < groups(); ++g) {
    for (int r = 0; r < ranks(g); ++r) {
      if (Of(g).spec.rank_host[static_cast<size_t>(r)] == host_number)
        At(until, [this, g, r] { PollRank(g, r); });
    }
    if (Of(g).spec.server_host == host_number) At(until, [this, g] { PollServer(g); });
  }
}

void World::CrashEngine(int s, Nanos until) {
  const auto n = static_cast<size_t>(s);
  down_until_[n] = std::max(down_until_[n], until);
  engines_[n] = engine::Engine(AddressOf(s), links_.ports(s), config_.arena_bytes);
  if (config_.pool) EPIC_CHECK(engines_[n].MakePool(*config_.pool).ok());
  std::erase_if(switch_deadline_, [s](const auto& timer) { return timer.first.first == s; });
}

void World::KillHost(int host_number, Nanos until) {
  Nanos& down = down_until_[static_cast<size_t>(node_of_host(host_number))];
  down = std::max(down, until);
  for (int g = 0; g < groups(); ++g) {
    for (int r = 0; r < ranks(g); ++r) {
      if (HostOf(r, g) == host_number) EndRank(r, g);
    }
  }
}

void World::EndRank(int rank, int group) {
  const auto r = static_cast<size_t>(rank);
  Group& of = Of(group);
  nics_[static_cast<size_t>(HostOf(rank, group))].Forget(*of.turns[r]);
  of.ranks[r]->Kill();
  if (of.peers[r].peers) of.peers[r].peers->Kill();
}

void World::FailContext(int s, int group) { engine(s).Fail(Of(group).id, 0); }

void World::AbortRank(int rank, int group) {
  host(rank, group).Abort(now_);
  if (Peers* const others = Of(group).peers[static_cast<size_t>(rank)].peers.get()) others->WantPoll();
}

void World::RemoveContext(int s, int group) { engine(s).Remove(Of(group).id, 0); }

bool World::WantsPoll(int group, int rank) const {
  const Host& h = *Of(group).ranks[static_cast<size_t>(rank)];
  if (!fabric_) return h.wants_poll();
  const Peers* const others = Of(group).peers[static_cast<size_t>(rank)].peers.get();
  return h.wants_poll() || (others != nullptr && others->wants_poll() && !h.stopped());
}

void World::PollRanks(bool all) {
  if (!all && !wanting_) return;
  wanting_ = false;
  for (int g = 0; g < groups(); ++g) {
    for (int r = 0; r < ranks(g); ++r) {
      if (all || WantsPoll(g, r)) PollRank(g, r);
      // Its host stands still.
      wanting_ = wanting_ || WantsPoll(g, r);
    }
  }
}

bool World::RunUntil(const std::function<bool()>& done, Nanos limit) {
  PollRanks(/*all=*/true);
  links_.Flush(clock_);
  while (!done()) {
    if (events_.empty() || events_.next_time() > ToPicos(limit)) return false;
    clock_ = events_.next_time();
    now_ = WholeNanos(clock_);
    const EventQueue::Event event = events_.Pop();
    if (event.is_packet) {
      Arrive(links_.frame(event.number));
      links_.Arrived(event.number);
    } else {
      events_.TakeAction(event)();
    }
    PollRanks(/*all=*/false);
    links_.Flush(clock_);
  }
  return true;
}

}  // namespace epic::sim
