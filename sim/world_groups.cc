// The groups of a world: what each is on its switches and at its ranks.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "incengine/modes/table.h"
#include "sim/qpns.h"
#include "sim/world.h"

namespace epic::sim {
namespace {

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
  context.slots = std::bit_ceil(2 * config.message_packets * config.window_messages);
  context.accumulator_mtus = config.accumulator_mtus;
  context.prompt_ns = config.prompt_ns;
  context.mode = spec.mode.At(s);
  context.block = spec.block;
  context.block_bytes = spec.block_bytes;
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

// The address that a rank's switch bears to it: of the other one of its pair, or of the next on another host.
// None in a mode without such, and in a group of one host.
Ipv4 World::BorneTo(const Edge& edge, const GroupSpec& spec) {
  if (!FindMode(spec.mode.At(static_cast<size_t>(edge.parent)))->bears_hosts) return {};
  const size_t ranks = spec.rank_host.size();
  const auto own = static_cast<size_t>(edge.rank);
  const size_t first = (own ^ 1) < ranks ? own ^ 1 : own + 1;
  for (size_t k = 0; k < ranks; ++k) {
    const int host = spec.rank_host[(first + k) % ranks];
    if (host != spec.rank_host[own]) return AddressOf(node_of_host(host));
  }
  return {};
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
  const Ipv4 borne = is_host ? BorneTo(edge, spec) : Ipv4{};
  configs[static_cast<size_t>(edge.parent)].children.push_back(
      {.local_qpn = parent_qpn,
       .remote_ip = AddressOf(child),
       .remote_qpn = child_qpn,
       .borne_ip = borne,
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
          .remote_ip = borne == Ipv4{} ? AddressOf(edge.parent) : borne,
          .remote_qpn = parent_qpn,
          .send_psn = up,
          .recv_psn = down,
          .path_mtu = config_.path_mtu,
          .message_packets = config_.message_packets,
          .window_messages = config_.window_messages,
          .inline_bytes = config_.inline_bytes,
          .pulled = is_host && ReadsHosts(spec.mode.At(static_cast<size_t>(edge.parent)))};
}

// The leg of a group whose payloads lie in a pool. At its host the queue pair has the number of a rank more.
void World::ConnectServer(const GroupSpec& spec, std::vector<engine::GroupConfig>& configs) {
  const auto below = static_cast<size_t>(config_.tree.rank_switch[static_cast<size_t>(*spec.server_host)]);
  const int node = node_of_host(*spec.server_host);
  const uint32_t number = static_cast<uint32_t>(*spec.qpns) * kGroupQpns + static_cast<uint32_t>(switches()) +
                          static_cast<uint32_t>(spec.rank_host.size());
  configs[below].mode = ModeInPool();
  configs[below].server = engine::EndpointConfig{.local_qpn = Qpn{number + kUpperQpn},
                                                 .remote_ip = AddressOf(node),
                                                 .remote_qpn = Qpn{number + kLowerQpn},
                                                 .port = parent_port_[static_cast<size_t>(node)],
                                                 .in_psn = FirstPsn(),
                                                 .out_psn = FirstPsn(),
                                                 .super_frames = LinkTakesSuperFrames(node),
                                                 .ranks = {}};
}

// With what all ranks of the world have alike.
HostConfig World::WithOwn(HostConfig end) {
  end.wake = &wanting_;
  end.timeout = config_.host_timeout;
  end.bounce_bytes = config_.bounce_bytes;
  end.invocation_bytes = config_.invocation_bytes;
  end.ack_delay = config_.host_ack_delay_ns;
  end.retries_end = config_.host_retries_end;
  end.most_outstanding = config_.host_most_outstanding;
  return end;
}

int World::AddGroup(const GroupSpec& as_given) {
  GroupSpec spec = as_given;
  if (!spec.qpns) spec.qpns = fresh_block_;
  PlannedGroup planned{.id = static_cast<uint64_t>(groups()) + 1, .asks = spec.block != 0};
  std::vector<engine::GroupConfig> configs;
  for (size_t s = 0; s < engines_.size(); ++s) {
    configs.push_back(ContextOf(spec, s, config_));
    configs[s].group_id = planned.id;
  }
  for (int s = 1; s < switches(); ++s) {
    if (!IsInTree(s, spec)) continue;
    ConnectGroup({.child_switch = s, .parent = config_.tree.switch_parent[static_cast<size_t>(s)]}, spec,
                 configs);
  }
  for (size_t r = 0; r < spec.rank_host.size(); ++r) {
    const int parent = config_.tree.rank_switch[static_cast<size_t>(spec.rank_host[r])];
    planned.ends.push_back(ConnectGroup({.rank = static_cast<int>(r), .parent = parent}, spec, configs));
  }
  if (spec.server_host) ConnectServer(spec, configs);
  for (size_t s = 0; s < configs.size(); ++s) {
    if (!configs[s].children.empty() && !spec.by_hosts_alone)
      EPIC_CHECK(engines_[s].Install(configs[s]).ok());
  }
  const int group = AddRanks(spec, planned);
  if (spec.server_host) {
    const int s = config_.tree.rank_switch[static_cast<size_t>(*spec.server_host)];
    Of(group).server = std::make_unique<FallbackServer>(configs[static_cast<size_t>(s)], AddressOf(s));
  }
  return group;
}

int World::AddRanks(const PlannedGroup& planned) {
  return AddRanks({.rank_host = planned.rank_host, .qpns = planned.qpns}, planned);
}

int World::AddRanks(const GroupSpec& spec, const PlannedGroup& planned) {
  const int group = groups();
  EPIC_CHECK(*spec.qpns >= 0 && *spec.qpns < kQpnBlocks && planned.ends.size() == spec.rank_host.size());
  group_of_block_[static_cast<size_t>(*spec.qpns)] = group;
  fresh_block_ = std::max(fresh_block_, *spec.qpns + 1);
  Group& added = groups_.emplace_back();
  added.spec = spec;
  added.id = planned.id;
  added.asks = planned.asks;
  added.deadline.assign(spec.rank_host.size(), kNever);
  added.peers.resize(spec.rank_host.size());
  for (size_t r = 0; r < spec.rank_host.size(); ++r) {
    HostConfig end = WithOwn(planned.ends[r]);
    end.rank = static_cast<uint32_t>(r);
    end.world_size = static_cast<uint32_t>(spec.rank_host.size());
    end.asks = planned.asks;
    added.ranks.push_back(std::make_unique<Host>(end));
    added.turns.push_back(std::make_unique<RankTurn>(group, static_cast<int>(r), *added.ranks.back()));
  }
  return group;
}

bool World::IsInTree(int switch_number, const GroupSpec& spec) const {
  return !RanksBelow(switch_number, spec, config_.tree).empty();
}

}  // namespace epic::sim
