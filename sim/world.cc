#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace epic::sim {
namespace {

constexpr uint64_t kGroup = 1;

Ipv4 AddressOf(int node) { return Ipv4{0x0a000001u + static_cast<uint32_t>(node)}; }

uint32_t SlotsFor(uint32_t window_packets) {
  uint32_t n = 1;
  while (n < 2 * window_packets) n *= 2;
  return n;
}

}  // namespace

TreeSpec Star(int ranks) {
  TreeSpec tree{.switch_parent = {-1}, .rank_switch = {}};
  tree.rank_switch.assign(static_cast<size_t>(ranks), 0);
  return tree;
}

TreeSpec FullTree(int levels, int fan) {
  TreeSpec tree{.switch_parent = {-1}, .rank_switch = {}};
  std::vector<int> level = {0};
  for (int l = 1; l < levels; ++l) {
    std::vector<int> next;
    for (const int parent : level) {
      for (int i = 0; i < fan; ++i) {
        next.push_back(static_cast<int>(tree.switch_parent.size()));
        tree.switch_parent.push_back(parent);
      }
    }
    level = next;
  }
  for (const int leaf : level)
    tree.rank_switch.insert(tree.rank_switch.end(), static_cast<size_t>(fan), leaf);
  return tree;
}

class World::SwitchEffects final : public engine::Effects {
 public:
  SwitchEffects(World& world, int node) : world_(world), node_(node) {}
  void Send(PortId port, const engine::OutPacket& packet) override {
    world_.Transmit(node_, port, packet.packet);
  }
  void SetTimer(engine::TimerId id, Nanos deadline) override {
    // Setting a timer that is set moves it: what was set before must not fire.
    world_.switch_deadline_[static_cast<size_t>(node_)] = deadline;
    world_.At(deadline, [this_world = &world_, node = node_, id, deadline] {
      Nanos& armed = this_world->switch_deadline_[static_cast<size_t>(node)];
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
  void Send(const roce::Packet& packet) override { world_.Transmit(node_, 0, packet); }

 private:
  World& world_;
  int node_;
};

World::World(const WorldConfig& config, uint64_t seed) : config_(config), choices_(seed) { Install(config); }

void World::Install(const WorldConfig& config) {
  const size_t switches = config.tree.switch_parent.size();
  const size_t ranks = config.tree.rank_switch.size();
  links_.resize(switches + ranks);
  switch_deadline_.assign(switches, kNever);
  host_deadline_.assign(ranks, kNever);
  std::vector<engine::GroupConfig> groups(switches);
  for (size_t s = 0; s < switches; ++s) {
    groups[s].group_id = kGroup;
    groups[s].world_size = static_cast<uint32_t>(ranks);
    groups[s].path_mtu = config.path_mtu;
    groups[s].message_packets = config.message_packets;
    groups[s].window_messages = config.window_messages;
    groups[s].slots = SlotsFor(config.message_packets * config.window_messages);
    groups[s].prompt_ns = config.prompt_ns;
    groups[s].mode = config.mode;
  }
  std::vector<HostConfig> host_configs(ranks);
  const auto ranks_below = [&](size_t s) {
    std::vector<uint32_t> below;
    for (size_t r = 0; r < ranks; ++r) {
      int at = config.tree.rank_switch[r];
      while (at >= 0 && at != static_cast<int>(s)) at = config.tree.switch_parent[static_cast<size_t>(at)];
      if (at >= 0) below.push_back(static_cast<uint32_t>(r));
    }
    return below;
  };
  // One tree edge: a link and an endpoint at each end.
  const auto connect = [&](size_t child, size_t parent) {
    const bool is_host = child >= switches;
    const auto parent_port = static_cast<PortId>(links_[parent].size());
    const auto child_port = static_cast<PortId>(links_[child].size());
    links_[parent].push_back({.peer = static_cast<int>(child), .peer_port = child_port});
    links_[child].push_back({.peer = static_cast<int>(parent), .peer_port = parent_port});
    const Psn up(config.start_psn ? *config.start_psn : static_cast<uint32_t>(choices_.Below(1 << 24)));
    const Psn down(config.start_psn ? *config.start_psn : static_cast<uint32_t>(choices_.Below(1 << 24)));
    const Qpn parent_qpn{0x100 + static_cast<uint32_t>(child)};
    const Qpn child_qpn{0x10000 + static_cast<uint32_t>(child)};
    engine::EndpointConfig down_end{.local_qpn = parent_qpn,
                                    .remote_ip = AddressOf(static_cast<int>(child)),
                                    .remote_qpn = child_qpn,
                                    .port = parent_port,
                                    .in_psn = up,
                                    .out_psn = down,
                                    .is_host = is_host};
    if (is_host) {
      down_end.ranks = {static_cast<uint32_t>(child - switches)};
      host_configs[child - switches] = {.local_ip = AddressOf(static_cast<int>(child)),
                                        .local_qpn = child_qpn,
                                        .remote_ip = AddressOf(static_cast<int>(parent)),
                                        .remote_qpn = parent_qpn,
                                        .send_psn = up,
                                        .recv_psn = down,
                                        .path_mtu = config.path_mtu,
                                        .message_packets = config.message_packets,
                                        .window_messages = config.window_messages,
                                        .rank = static_cast<uint32_t>(child - switches),
                                        .world_size = static_cast<uint32_t>(ranks),
                                        .timeout = config.host_timeout};
    } else {
      down_end.ranks = ranks_below(child);
      groups[child].parent = engine::EndpointConfig{.local_qpn = child_qpn,
                                                    .remote_ip = AddressOf(static_cast<int>(parent)),
                                                    .remote_qpn = parent_qpn,
                                                    .port = child_port,
                                                    .in_psn = down,
                                                    .out_psn = up};
    }
    groups[parent].children.push_back(down_end);
  };
  for (size_t s = 1; s < switches; ++s) connect(s, static_cast<size_t>(config.tree.switch_parent[s]));
  for (size_t r = 0; r < ranks; ++r) connect(switches + r, static_cast<size_t>(config.tree.rank_switch[r]));
  for (size_t s = 0; s < switches; ++s) {
    engines_.emplace_back(AddressOf(static_cast<int>(s)), links_[s].size(), config.arena_bytes);
    EPIC_CHECK(engines_.back().Install(groups[s]).ok());
  }
  for (const HostConfig& host : host_configs) hosts_.push_back(std::make_unique<Host>(host));
}

const engine::Context& World::context(int switch_number) const {
  return engines_[static_cast<size_t>(switch_number)].groups().at(kGroup);
}

void World::At(Nanos time, std::function<void()> action) {
  events_.push({std::max(time, now_), order_++, std::move(action)});
}

void World::Transmit(int node, PortId port, const roce::Packet& packet) {
  Link& link = links_[static_cast<size_t>(node)][port];
  const LinkPacket seen{.number = packets_++, .from = node, .to = link.peer, .packet = &packet};
  const Fate fate = rule_ ? rule_(seen) : Fate::kDeliver;
  const int64_t bits = static_cast<int64_t>(packet.payload.size() + 80) * 8;
  link.free_at = std::max(link.free_at, now_) + bits * kSecond / config_.bits_per_second;
  if (fate == Fate::kDrop) return;
  auto copy = std::make_shared<std::pair<roce::Packet, std::vector<uint8_t>>>();
  copy->first = packet;
  copy->second.assign(packet.payload.begin(), packet.payload.end());
  copy->first.payload = copy->second;
  // Links keep their order, unless the rule holds a packet back.
  Nanos arrival = std::max(link.free_at + config_.link_delay_ns, link.last_arrival);
  if (fate == Fate::kDelay) {
    arrival += static_cast<Nanos>(1 + choices_.Below(16)) * config_.link_delay_ns;
  } else {
    link.last_arrival = arrival;
  }
  const auto deliver = [this, to = link.peer, to_port = link.peer_port, copy] {
    Arrive(to, to_port, copy->first);
  };
  At(arrival, deliver);
  if (fate == Fate::kDuplicate) At(arrival + config_.link_delay_ns, deliver);
}

void World::Arrive(int node, PortId port, const roce::Packet& packet) {
  const auto switches = static_cast<int>(engines_.size());
  if (node >= switches) {
    host(node - switches).OnPacket(now_, packet);
    PollHost(node - switches);
    return;
  }
  SwitchEffects effects(*this, node);
  engines_[static_cast<size_t>(node)].OnPacket(now_, port, packet, effects);
}

void World::PollHost(int rank) {
  Host& h = host(rank);
  HostSink sink(*this, node_of_rank(rank));
  h.Poll(now_, sink);
  const Nanos deadline = h.next_deadline();
  Nanos& armed = host_deadline_[static_cast<size_t>(rank)];
  if (deadline == kNever || (armed > now_ && armed <= deadline)) return;
  armed = deadline;
  At(deadline, [this, rank] { PollHost(rank); });
}

bool World::RunUntil(const std::function<bool()>& done, Nanos limit) {
  for (int rank = 0; rank < ranks(); ++rank) PollHost(rank);
  while (!done()) {
    if (events_.empty() || events_.top().time > limit) return false;
    now_ = events_.top().time;
    const std::function<void()> action = events_.top().action;
    events_.pop();
    action();
    for (int rank = 0; rank < ranks(); ++rank) {
      if (host(rank).wants_poll()) PollHost(rank);
    }
  }
  return true;
}

}  // namespace epic::sim
