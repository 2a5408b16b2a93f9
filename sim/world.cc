#include "sim/world.h"

#include <algorithm>

#include "base/check.h"
#include "incengine/modes/table.h"

namespace epic::sim {
namespace {

// QPNs say which group they belong to, and which end of the edge above a switch or a rank.
constexpr uint32_t kGroupQpns = 1 << 17;
constexpr uint32_t kUpperQpn = 0x100;    // at the parent
constexpr uint32_t kLowerQpn = 0x10000;  // at the child

uint64_t GroupId(int group) { return static_cast<uint64_t>(group) + 1; }
static_assert(kQpnBlocks == (kQpnMask + 1) / kGroupQpns);

Ipv4 AddressOf(int node) { return Ipv4{0x0a000001u + static_cast<uint32_t>(node)}; }

uint32_t SlotsFor(uint32_t window_packets) {
  uint32_t n = 1;
  while (n < 2 * window_packets) n *= 2;
  return n;
}

// The group's ranks below a switch.
std::vector<uint32_t> RanksBelow(int s, const GroupSpec& spec, const TreeSpec& tree) {
  std::vector<uint32_t> below;
  for (size_t r = 0; r < spec.rank_host.size(); ++r) {
    int at = tree.rank_switch[static_cast<size_t>(spec.rank_host[r])];
    while (at >= 0 && at != s) at = tree.switch_parent[static_cast<size_t>(at)];
    if (at >= 0) below.push_back(static_cast<uint32_t>(r));
  }
  return below;
}

// What a group is on a switch, but for its id and its endpoints.
engine::GroupConfig ContextOf(const GroupSpec& spec, size_t s, const WorldConfig& config) {
  engine::GroupConfig context;
  context.world_size = static_cast<uint32_t>(spec.rank_host.size());
  context.path_mtu = config.path_mtu;
  context.message_packets = config.message_packets;
  context.window_messages = config.window_messages;
  context.slots = SlotsFor(config.message_packets * config.window_messages);
  context.prompt_ns = config.prompt_ns;
  context.mode = spec.mode.At(s);
  return context;
}

}  // namespace

size_t ArenaBytesOf(const GroupSpec& spec, const WorldConfig& config) {
  const TreeSpec& tree = config.tree;
  std::vector<engine::GroupConfig> configs;
  for (size_t s = 0; s < tree.switch_parent.size(); ++s) {
    configs.push_back(ContextOf(spec, s, config));
    if (s == 0) continue;
    configs[s].parent.emplace();
    if (!RanksBelow(static_cast<int>(s), spec, tree).empty())
      configs[static_cast<size_t>(tree.switch_parent[s])].children.emplace_back();
  }
  for (const int host : spec.rank_host)
    configs[static_cast<size_t>(tree.rank_switch[static_cast<size_t>(host)])].children.emplace_back();
  size_t most = 0;
  for (const engine::GroupConfig& c : configs) most = std::max(most, engine::ArenaBytes(c));
  return engine::Arena::RoundUp(most);
}

GroupSpec FirstGroupOf(const WorldConfig& config) {
  GroupSpec first{.mode = config.mode, .rank_host = {}};
  for (size_t h = 0; h < config.tree.rank_switch.size(); ++h) first.rank_host.push_back(static_cast<int>(h));
  return first;
}

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
      this_world->engines_[static_cast<size_t>(node)].OnTimer(this_world->now_, id, effects);
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
  for (int s = 1; s < switches; ++s) Connect(s, config.tree.switch_parent[static_cast<size_t>(s)]);
  for (int h = 0; h < hosts; ++h) Connect(switches + h, config.tree.rank_switch[static_cast<size_t>(h)]);
  for (int s = 0; s < switches; ++s) engines_.emplace_back(AddressOf(s), links_.ports(s), config.arena_bytes);
  AddGroup(FirstGroupOf(config));
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

// One tree edge: an endpoint at each end. What is returned is that of a rank, if it is one.
HostConfig World::ConnectGroup(const Edge& edge, const GroupSpec& spec,
                               std::vector<engine::GroupConfig>& configs) {
  const bool is_host = edge.child_switch < 0;
  const int child =
      is_host ? node_of_host(spec.rank_host[static_cast<size_t>(edge.rank)]) : edge.child_switch;
  const uint32_t number = static_cast<uint32_t>(*spec.qpns) * kGroupQpns +
                          static_cast<uint32_t>(is_host ? switches() + edge.rank : edge.child_switch);
  const Psn up(config_.start_psn ? *config_.start_psn : static_cast<uint32_t>(choices_.Below(1 << 24)));
  const Psn down(config_.start_psn ? *config_.start_psn : static_cast<uint32_t>(choices_.Below(1 << 24)));
  const Qpn parent_qpn{number + kUpperQpn};
  const Qpn child_qpn{number + kLowerQpn};
  const auto rank = static_cast<uint32_t>(edge.rank);
  configs[static_cast<size_t>(edge.parent)].children.push_back(
      {.local_qpn = parent_qpn,
       .remote_ip = AddressOf(child),
       .remote_qpn = child_qpn,
       .port = parent_port_[static_cast<size_t>(child)],
       .in_psn = up,
       .out_psn = down,
       .is_host = is_host,
       .super_frames = LinkTakesSuperFrames(child),
       .ranks = is_host ? std::vector{rank} : RanksBelow(edge.child_switch, spec, config_.tree)});
  if (!is_host) {
    configs[static_cast<size_t>(child)].parent =
        engine::EndpointConfig{.local_qpn = child_qpn,
                               .remote_ip = AddressOf(edge.parent),
                               .remote_qpn = parent_qpn,
                               .port = 0,
                               .in_psn = down,
                               .out_psn = up,
                               .super_frames = LinkTakesSuperFrames(child)};
  }
  return {.local_ip = AddressOf(child),
          .local_qpn = child_qpn,
          .remote_ip = AddressOf(edge.parent),
          .remote_qpn = parent_qpn,
          .send_psn = up,
          .recv_psn = down,
          .path_mtu = config_.path_mtu,
          .message_packets = config_.message_packets,
          .window_messages = config_.window_messages,
          .rank = rank,
          .world_size = static_cast<uint32_t>(spec.rank_host.size()),
          .wake = &wanting_,
          .timeout = config_.host_timeout,
          .bounce_bytes = config_.bounce_bytes,
          .inline_bytes = config_.inline_bytes,
          .ack_delay = config_.host_ack_delay_ns,
          .retries_end = config_.host_retries_end};
}

int World::AddGroup(const GroupSpec& as_given) {
  const int group = groups();
  GroupSpec spec = as_given;
  if (!spec.qpns) spec.qpns = static_cast<int>(group_of_block_.size());
  const auto block = static_cast<size_t>(*spec.qpns);
  EPIC_CHECK(*spec.qpns < kQpnBlocks);
  group_of_block_.resize(std::max(group_of_block_.size(), block + 1), -1);
  group_of_block_[block] = group;
  std::vector<engine::GroupConfig> configs;
  for (size_t s = 0; s < engines_.size(); ++s) {
    configs.push_back(ContextOf(spec, s, config_));
    configs[s].group_id = GroupId(group);
  }
  for (int s = 1; s < switches(); ++s) {
    if (!IsInTree(s, spec)) continue;
    ConnectGroup({.child_switch = s, .parent = config_.tree.switch_parent[static_cast<size_t>(s)]}, spec,
                 configs);
  }
  Group& added = groups_.emplace_back();
  added.spec = spec;
  added.deadline.assign(spec.rank_host.size(), kNever);
  for (size_t r = 0; r < spec.rank_host.size(); ++r) {
    const int parent = config_.tree.rank_switch[static_cast<size_t>(spec.rank_host[r])];
    added.ranks.push_back(
        std::make_unique<Host>(ConnectGroup({.rank = static_cast<int>(r), .parent = parent}, spec, configs)));
  }
  for (size_t s = 0; s < configs.size(); ++s) {
    if (!configs[s].children.empty()) EPIC_CHECK(engines_[s].Install(configs[s]).ok());
  }
  return group;
}

bool World::IsInTree(int switch_number, const GroupSpec& spec) const {
  return !RanksBelow(switch_number, spec, config_.tree).empty();
}

const engine::Context& World::context(int switch_number, int group) const {
  return engines_[static_cast<size_t>(switch_number)].groups().at(GroupId(group));
}

bool World::HasContext(int switch_number, int group) const {
  return engines_[static_cast<size_t>(switch_number)].groups().contains(GroupId(group));
}

bool World::AllDone(int group) const {
  return std::ranges::all_of(Of(group).ranks, [](const auto& rank) { return rank->all_closed(); });
}

void World::At(Nanos time, EventQueue::Action action) {
  events_.AddAction(std::max(time, now_), std::move(action));
}

void World::Transmit(int node, PortId port, const roce::Packet& packet, uint16_t ip_id, bool joins) {
  links_.Send(now_, node, port,
              {.packet = packet,
               .ip_id = ip_id,
               .group = group_of_block_[Raw(packet.bth.dest_qp) / kGroupQpns],
               .joins = joins});
}

// Its packets are taken one after the other, as if each had come alone; a host's NIC answers when it has
// taken them.
void World::Arrive(const LinkFrame& frame) {
  const int node = frame.to();
  const bool is_host = node >= switches();
  const bool heard = now_ >= down_until_[static_cast<size_t>(node)];
  int group = 0;
  int rank = -1;
  frame.ForEach([&](const LinkPacket& seen) {
    if (arrival_watch_) arrival_watch_(seen, heard);
    if (!heard) return;
    if (!is_host) {
      SwitchEffects effects(*this, node);
      engines_[static_cast<size_t>(node)].OnPacket(now_, frame.to_port(), *seen.packet, effects);
      return;
    }
    // All are of one queue pair.
    group = seen.group;
    rank = static_cast<int>(Raw(seen.packet->bth.dest_qp) % kGroupQpns - kLowerQpn) - switches();
    // One that is gone: its NIC knows no such number.
    if (host(rank, group).alive()) host(rank, group).OnPacket(now_, *seen.packet);
  });
  if (rank >= 0) PollRank(group, rank);
}

void World::PollRank(int group, int rank) {
  Group& of = Of(group);
  const int node = node_of_host(of.spec.rank_host[static_cast<size_t>(rank)]);
  Host& h = host(rank, group);
  if (now_ < down_until_[static_cast<size_t>(node)] || !h.alive()) return;
  HostSink sink(*this, node);
  h.Poll(now_, sink);
  const Nanos deadline = h.next_deadline();
  Nanos& armed = of.deadline[static_cast<size_t>(rank)];
  if (deadline == kNever || (armed > now_ && armed <= deadline)) return;
  armed = deadline;
  At(RunsAt(deadline), [this, group, rank] { PollRank(group, rank); });
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
  }
}

void World::CrashEngine(int s, Nanos until) {
  const auto n = static_cast<size_t>(s);
  down_until_[n] = std::max(down_until_[n], until);
  engines_[n] = engine::Engine(AddressOf(s), links_.ports(s), config_.arena_bytes);
  std::erase_if(switch_deadline_, [s](const auto& timer) { return timer.first.first == s; });
}

void World::KillHost(int host_number, Nanos until) {
  Nanos& down = down_until_[static_cast<size_t>(node_of_host(host_number))];
  down = std::max(down, until);
  for (Group& group : groups_) {
    for (size_t r = 0; r < group.ranks.size(); ++r) {
      if (group.spec.rank_host[r] == host_number && group.ranks[r]->alive()) group.ranks[r]->Kill();
    }
  }
}

void World::FailContext(int s, int group) { engines_[static_cast<size_t>(s)].Fail(GroupId(group), 0); }

void World::RemoveContext(int s, int group) { engines_[static_cast<size_t>(s)].Remove(GroupId(group), 0); }

void World::PollRanks(bool all) {
  if (!all && !wanting_) return;
  wanting_ = false;
  for (int g = 0; g < groups(); ++g) {
    for (int r = 0; r < ranks(g); ++r) {
      if (all || host(r, g).wants_poll()) PollRank(g, r);
      // Its host stands still.
      wanting_ = wanting_ || host(r, g).wants_poll();
    }
  }
}

bool World::RunUntil(const std::function<bool()>& done, Nanos limit) {
  PollRanks(/*all=*/true);
  links_.Flush(now_);
  while (!done()) {
    if (events_.empty() || events_.next_time() > limit) return false;
    now_ = events_.next_time();
    const EventQueue::Event event = events_.Pop();
    if (event.is_packet) {
      Arrive(links_.frame(event.number));
      links_.Arrived(event.number);
    } else {
      events_.TakeAction(event)();
    }
    PollRanks(/*all=*/false);
    links_.Flush(now_);
  }
  return true;
}

}  // namespace epic::sim
