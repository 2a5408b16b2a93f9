#include "sim/multicast_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incengine/state/config.h"
#include "protocol/bounds.h"
#include "sim/collectives.h"
#include "sim/group_ranks.h"

namespace epic::sim {
namespace {

constexpr Nanos kRunLimit = 1000 * kSecond;
// Behind the short call, until everything of it has been acknowledged.
constexpr Nanos kBetweenRounds = kMillisecond;

// A call that switches serve, or make the ranks agree on.
bool NeedsSwitches(const MulticastRunConfig& config) {
  return !config.tree && (config.mode || config.agrees_by_switches);
}

TreeSpec TreeOf(const MulticastRunConfig& config) {
  if (config.leaves == 1) return Star(config.hosts);
  TreeSpec tree = LeafSpine(config.leaves, config.spines, /*fan=*/0);
  for (int leaf = 1; leaf <= config.leaves; ++leaf) {
    const int more = leaf <= config.hosts % config.leaves ? 1 : 0;
    tree.rank_switch.insert(tree.rank_switch.end(), static_cast<size_t>(config.hosts / config.leaves + more),
                            leaf);
  }
  return tree;
}

WorldConfig WorldOf(const MulticastRunConfig& config) {
  WorldConfig world{.mode = config.mode.value_or(kDefaultMode),
                    .tree = TreeOf(config),
                    .first_group = false,
                    .path_mtu = config.path_mtu,
                    .message_packets = 16,
                    .link_delay_ns = config.link_delay_ns,
                    .bits_per_second = config.bits_per_second,
                    .host_timeout = config.timeout,
                    .host_most_outstanding = 512,
                    .ranks_take_turns = true};
  if (NeedsSwitches(config)) world.arena_bytes = ArenaBytesOf(FirstGroupOf(world), world);
  return world;
}

std::optional<HostsWay> WayOf(const MulticastRunConfig& config) {
  if (config.mode) return std::nullopt;
  HostsWay way{.path = {.algorithm = config.algorithm,
                        .agrees_by_exchange = !config.agrees_by_switches,
                        .staging_chunks = config.staging_chunks,
                        .tokens = config.tokens,
                        .addresses = config.addresses}};
  if (config.agrees_by_switches) way.abilities = {};  // they serve nothing else
  return way;
}

GroupSpec GroupOf(const MulticastRunConfig& config) {
  return {.mode = config.mode.value_or(kDefaultMode),
          .rank_host = FirstGroupOf(WorldOf(config)).rank_host,
          .by_hosts_alone = !NeedsSwitches(config)};
}

// The first one is short.
CollectiveCall CallOf(const MulticastRunConfig& config, int number) {
  const bool is_broadcast = config.collective == Collective::kBroadcast;
  const ControlHeader header{.collective = config.collective,
                             .type = DataType::kByte,
                             .count = number == 0 ? 256 : config.bytes,
                             .parts = is_broadcast ? 1 : static_cast<uint32_t>(config.hosts)};
  return {header, config.hosts, number};
}

// What happens on the links while it counts.
class LinkCounts {
 public:
  LinkCounts(const MulticastRunConfig& config, const World& world, MulticastRun* result)
      : config_(config), world_(world), choices_(config.seed), result_(*result) {}

  void Begin() { counts_ = true; }

  Fate OnSent(const LinkPacket& p) {
    if (!counts_) return Fate::kDeliver;
    const bool from_host = p.from >= world_.node_of_host(0);
    const bool is_datagram = p.packet->dst_ip.is_multicast();
    result_.links += WireBytes(*p.packet);
    if (from_host || p.to >= world_.node_of_host(0)) result_.host_links += WireBytes(*p.packet);
    if (is_datagram && from_host && first_sent_ == 0) first_sent_ = world_.clock();
    if ((!is_datagram && !config_.loses_all) || !IsLost({p.from, p.to})) return Fate::kDeliver;
    ++result_.lost;
    return Fate::kDrop;
  }
  void OnArrived(const LinkPacket& p) {
    if (counts_ && p.packet->dst_ip.is_multicast()) last_came_ = world_.clock();
  }
  void CallBegins() { begun_ = world_.clock(), first_sent_ = last_came_ = 0; }
  void CallEnds() {
    if (first_sent_ == 0) return;
    result_.before = first_sent_ - begun_;
    result_.behind = last_came_ == 0 ? 0 : world_.clock() - last_came_;
  }

 private:
  bool IsLost(const std::pair<int, int>& link) {
    if (config_.loss_ppb == 0) return false;
    int& more = bursts_[link];
    if (more == 0 && choices_.Below(uint64_t{1'000'000'000} * static_cast<uint64_t>(config_.burst)) <
                         static_cast<uint64_t>(config_.loss_ppb))
      more = config_.burst;
    if (more == 0) return false;
    --more;
    return true;
  }

  const MulticastRunConfig& config_;
  const World& world_;
  Choices choices_;
  MulticastRun& result_;
  bool counts_ = false;
  std::map<std::pair<int, int>, int> bursts_;  // still to be lost, by link
  Picos begun_ = 0, first_sent_ = 0, last_came_ = 0;
};

void AddCounts(const GroupRanks& ranks, int size, int sign, MulticastRun* result) {
  for (int r = 0; ranks.by_multicast() && r < size; ++r) {
    const MulticastCounts counts = ranks.multicast(r);
    result->expected += sign * static_cast<int64_t>(counts.expected);
    result->came += sign * static_cast<int64_t>(counts.came);
    result->read += sign * static_cast<int64_t>(counts.read);
    result->unposted += sign * static_cast<int64_t>(ranks.unposted(r));
  }
}

// Ranks are asked one after the other: all of them at each event would take longer than the event.
bool RunUntilAll(World& world, int ranks, const std::function<bool(int rank)>& ended) {
  const auto all = [&, next = 0]() mutable {
    while (next < ranks && ended(next)) ++next;
    return next == ranks;
  };
  return world.RunUntil(all, kRunLimit);
}

MulticastRun RunTree(const MulticastRunConfig& config) {
  World world(WorldOf(config), 1);
  const int group = world.AddGroup(GroupOf(config));
  MulticastRun result;
  LinkCounts counts(config, world, &result);
  world.SetFaultRule([&](const LinkPacket& p) { return counts.OnSent(p); });
  counts.Begin();
  TreeBroadcast call(world, group, *config.tree, config.bytes, config.segment_bytes);
  result.right = RunUntilAll(world, config.hosts, [&](int r) { return call.Has(r); }) && call.IsRight();
  result.time = world.clock();
  return result;
}

}  // namespace

Status Validate(const MulticastRunConfig& config) {
  const auto invalid = [](std::string message) { return MakeStatus(StatusCode::kInvalidArgument, message); };
  const bool is_broadcast = config.collective == Collective::kBroadcast;
  if (!is_broadcast && config.collective != Collective::kAllGather)
    return invalid("collective: neither allgather nor broadcast");
  if (config.bytes == 0) return invalid("bytes: a part has at least 1");
  if (config.leaves > config.hosts)
    return invalid(fmt::format("leaves: {} for {} hosts", config.leaves, config.hosts));
  if (config.tree && (!is_broadcast || config.calls != 1))
    return invalid("way: down a tree of hosts goes one broadcast");
  if (config.loses_all && config.loss_ppb > 500'000'000)
    return invalid("loss: of packets of connections at most 0.5");
  const int children = (config.hosts + config.leaves - 1) / config.leaves;
  if (NeedsSwitches(config) && children > static_cast<int>(kMaxChildren)) {
    return invalid(fmt::format("hosts: {} below one switch, but a group has at most {} children at a switch",
                               children, kMaxChildren));
  }
  return absl::OkStatus();
}

MulticastRun RunMulticast(const MulticastRunConfig& config) {
  EPIC_CHECK(Validate(config).ok());
  if (config.tree) return RunTree(config);
  World world(WorldOf(config), 1);
  Choices choices(1);
  const int group = world.AddGroup(GroupOf(config));
  GroupRanks ranks(world, group, WayOf(config), choices);
  if (ranks.by_multicast()) world.GiveGroupPorts();
  MulticastRun result{.right = true};
  LinkCounts counts(config, world, &result);
  world.SetFaultRule([&](const LinkPacket& p) { return counts.OnSent(p); });
  world.SetArrivalWatch([&](const LinkPacket& p, bool) { counts.OnArrived(p); });
  // One at a time, so that the memory of many calls is that of one.
  const auto make = [&](int number) {
    CollectiveCall call = CallOf(config, number);
    counts.CallBegins();
    for (int r = 0; r < config.hosts; ++r) ranks.Start(r, call);
    const auto ended = [&](int r) { return ranks.state(r, number) != CallState::kRunning; };
    result.right = RunUntilAll(world, config.hosts, ended) && result.right;
    counts.CallEnds();
    for (int r = 0; r < config.hosts; ++r) result.right = result.right && call.Wrong(r) == 0;
  };
  make(0);
  bool is_time = false;
  world.At(world.now() + kBetweenRounds, [&] { is_time = true; });
  result.right = world.RunUntil([&] { return is_time; }, kRunLimit) && result.right;
  if (config.slow_ns > 0 && !config.mode)
    world.peers(config.hosts / 2, group).SetDatagramTime(config.slow_ns);
  AddCounts(ranks, config.hosts, -1, &result);
  counts.Begin();
  const Picos begun = world.clock();
  for (int k = 1; result.right && k <= config.calls; ++k) make(k);
  result.time = world.clock() - begun;
  AddCounts(ranks, config.hosts, 1, &result);
  return result;
}

}  // namespace epic::sim
