#include "sim/overlap.h"

#include <optional>
#include <vector>

#include "sim/collectives.h"
#include "sim/group_ranks.h"

namespace epic::sim {
namespace {

struct Run {
  bool right = true;
  Nanos took = 0;
  std::vector<HostLoad> load = {{}, {}};  // by group
};

std::vector<CollectiveCall> CallsOf(const OverlapConfig& config, Collective collective, int ranks) {
  const ControlHeader header{
      .collective = collective,
      .op = collective == Collective::kReduceScatter ? ReduceOp::kSum : ReduceOp::kNone,
      .type = DataType::kFloat32,
      .count = config.bytes / 4 / static_cast<uint64_t>(ranks),
      .parts = static_cast<uint32_t>(ranks)};
  std::vector<CollectiveCall> calls;
  for (int k = 0; k < config.calls; ++k) calls.emplace_back(header, ranks, k);
  return calls;
}

std::optional<HostsWay> WayOf(OverlapWay way, const OverlapConfig& config) {
  if (way == OverlapWay::kNetwork) return std::nullopt;
  const bool by_multicast = way == OverlapWay::kMulticast;
  return HostsWay{.path = {.algorithm = by_multicast ? Algorithm::kMulticast : Algorithm::kRing,
                           .agrees_by_exchange = true,
                           .staging_chunks = config.staging_chunks}};
}

Run Measure(const OverlapConfig& config, bool reduce_scatter, bool all_gather) {
  WorldConfig shape{.mode = config.mode,
                    .tree = config.tree,
                    .path_mtu = config.path_mtu,
                    .message_packets = config.message_packets,
                    .window_messages = config.window_messages,
                    .bits_per_second = config.bits_per_second,
                    .host_most_outstanding = config.most_outstanding,
                    .ranks_take_turns = config.all_gather != OverlapWay::kNetwork};
  shape.arena_bytes = 2 * ArenaBytesOf(FirstGroupOf(shape), shape);
  World world(shape, 1);
  const int ranks = world.ranks();
  GroupSpec second{.mode = config.mode, .rank_host = {}};
  for (int r = 0; r < ranks; ++r) second.rank_host.push_back(r);
  world.AddGroup(second);
  Choices choices(1);
  std::vector<GroupRanks> groups;
  groups.emplace_back(world, 0, WayOf(config.reduce_scatter, config), choices);
  groups.emplace_back(world, 1, WayOf(config.all_gather, config), choices);
  Run run;
  world.SetFaultRule([&](const LinkPacket& p) {
    HostLoad& load = run.load[static_cast<size_t>(p.group)];
    if (p.from >= world.node_of_host(0)) load.up += WireBytes(*p.packet);
    if (p.to >= world.node_of_host(0)) load.down += WireBytes(*p.packet);
    return Fate::kDeliver;
  });
  std::vector<std::vector<CollectiveCall>> calls(2);
  if (reduce_scatter) calls[0] = CallsOf(config, Collective::kReduceScatter, ranks);
  if (all_gather) calls[1] = CallsOf(config, Collective::kAllGather, ranks);
  for (int group = 0; group < 2; ++group) {
    for (CollectiveCall& call : calls[static_cast<size_t>(group)]) {
      for (int r = 0; r < ranks; ++r) groups[static_cast<size_t>(group)].Start(r, call);
    }
  }
  run.right = world.RunUntil([&] { return world.AllDone(0) && world.AllDone(1); }, 100 * kSecond);
  run.took = world.now();
  for (const auto& of_group : calls) {
    for (const CollectiveCall& call : of_group) {
      for (int r = 0; r < ranks; ++r) run.right = run.right && call.Wrong(r) == 0;
    }
  }
  for (HostLoad& load : run.load) {
    load.up /= ranks;
    load.down /= ranks;
  }
  return run;
}

}  // namespace

Overlap MeasureOverlap(const OverlapConfig& config) {
  const Run first = Measure(config, true, false);
  const Run second = Measure(config, false, true);
  const Run both = Measure(config, true, true);
  return {.right = first.right && second.right && both.right,
          .reduce_scatter = first.took,
          .all_gather = second.took,
          .both = both.took,
          .reduce_scatter_load = both.load[0],
          .all_gather_load = both.load[1]};
}

}  // namespace epic::sim
