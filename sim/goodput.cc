#include "sim/goodput.h"

#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "sim/collectives.h"
#include "sim/group_ranks.h"

namespace epic::sim {
namespace {

constexpr Nanos kForEver = 100 * kSecond;
// Between the calls, until everything of the first has been acknowledged.
constexpr Nanos kPause = kMillisecond;

WorldConfig WorldOf(const GoodputConfig& config) {
  WorldConfig world{.mode = config.mode,
                    .tree = Star(config.hosts),
                    .first_group = false,
                    .path_mtu = config.path_mtu,
                    .message_packets = config.message_packets,
                    .window_messages = config.window_messages,
                    .link_delay_ns = config.link_delay_ns,
                    .bits_per_second = config.bits_per_second,
                    .host_most_outstanding = config.host_most_outstanding,
                    .ranks_take_turns = true};
  world.arena_bytes = static_cast<size_t>(config.groups) * ArenaBytesOf(FirstGroupOf(world), world);
  return world;
}

ControlHeader CallOf(const GoodputConfig& config) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kFloat32,
          .count = config.bytes / 4 / static_cast<uint64_t>(config.groups)};
}

}  // namespace

Goodput MeasureGoodput(const GoodputConfig& config) {
  EPIC_CHECK(!config.by_hosts || config.groups == 1);
  const WorldConfig world_config = WorldOf(config);
  World world(world_config, 1);
  Goodput result;
  bool counts = false;
  world.SetFaultRule([&](const LinkPacket& p) {
    if (counts && p.from >= world.node_of_host(0)) result.up += WireBytes(*p.packet);
    if (counts && p.to >= world.node_of_host(0)) result.down += WireBytes(*p.packet);
    return Fate::kDeliver;
  });
  std::optional<HostsWay> way;
  if (config.by_hosts) way = HostsWay{.path = {.algorithm = Algorithm::kRing, .agrees_by_exchange = true}};
  Choices choices(1);
  std::vector<GroupRanks> groups;
  std::vector<Calls> calls(static_cast<size_t>(config.groups));
  for (int g = 0; g < config.groups; ++g) {
    const int group = world.AddGroup(FirstGroupOf(world_config));
    groups.emplace_back(world, group, way, choices);
    for (int k = 0; k < 2; ++k) calls[static_cast<size_t>(g)].emplace_back(CallOf(config), config.hosts, k);
  }
  const auto start = [&](size_t call) {
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int r = 0; r < config.hosts; ++r) groups[g].Start(r, calls[g][call]);
    }
  };
  const auto finished = [&](size_t of_each) {
    for (const GroupRanks& group : groups) {
      if (!group.Finished(of_each)) return false;
    }
    return true;
  };
  start(0);
  result.right = world.RunUntil([&] { return finished(1); }, kForEver);
  Picos begun = 0;
  world.At(world.now() + kPause, [&] {
    begun = world.clock();
    counts = true;
    start(1);
  });
  result.right = world.RunUntil([&] { return finished(2); }, kForEver) && result.right;
  result.time = world.clock() - begun;
  for (const Calls& of_group : calls) {
    for (const CollectiveCall& call : of_group) {
      for (int r = 0; r < config.hosts; ++r) result.right = result.right && call.Wrong(r) == 0;
    }
  }
  result.up /= config.hosts;
  result.down /= config.hosts;
  return result;
}

}  // namespace epic::sim
