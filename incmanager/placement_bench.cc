// How long it takes to place a group of 128 ranks on the paper's network (EPIC paper, appendix L): 16 pods of
// 8 leaves and 8 spines, 16 hosts a leaf, 128 cores in 8 planes of 16: 384 switches, 5,120 links, 2,048
// hosts, on which 10,000 groups are; of `temporal` these share 64 blocks a switch. Each iteration is another
// group; none is taken. The counters are of single placements, in milliseconds of processor time. And what
// memory the manager has for 10,000 groups of 2 to 16 ranks each, as `shortest` places them, all of them
// running.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incmanager/groups/group_life_testing.h"
#include "incmanager/paper_tree_testing.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/place.h"
#include "incmanager/policies/tree.h"

namespace epic::manager {
namespace {

constexpr uint32_t kGroups = 10'000;
constexpr uint32_t kRanks = 128;
constexpr uint64_t kGroupBytes = 8'256;  // so that all of them have room
constexpr uint64_t kBlocks = 64;         // for which a switch has room where groups share memory
constexpr uint32_t kDuty = kWholeTime / 20;

// The network with its groups; made once for each policy of these.
struct World {
  explicit World(Policy of_groups) {
    const bool shared = of_groups == Policy::kTemporal;
    for (SwitchOffer& offer : offers) {
      offer.mode = Mode::kTranslated;
      offer.max_children = 64;
      offer.arena_bytes = shared ? kBlocks * kGroupBytes : 1 << 30;
    }
    std::mt19937 random(1);
    while (groups < kGroups) {
      const PlaceRequest request = Request(of_groups, 2 + static_cast<uint32_t>(random() % 15), &random);
      Fill();
      const auto outcome = Place(topology, load, offers, request);
      const Placed& placed = std::get<Placed>(outcome);
      Allocation taken{.links = placed.links, .switches = {}, .tenant = "", .share = request.share};
      for (size_t i = 0; i < placed.bytes.size(); ++i)
        taken.switches.push_back(
            {placed.tree.inner[i].node, placed.bytes[i], shared ? placed.blocks[i].number : 0});
      load.Apply(taken);
      ++groups;
    }
    Fill();
  }
  PlaceRequest Request(Policy policy, uint32_t ranks, std::mt19937* random) const {
    PlaceRequest request;
    request.policy = policy;
    request.share.duty = kDuty;
    for (uint32_t i = 0; i < ranks; ++i)
      request.rank_hosts.push_back(static_cast<NodeId>(
          topology.switches.size() + (*random)() % (topology.nodes.size() - topology.switches.size())));
    request.bytes_of = [](const Tree& tree) -> Result<std::vector<uint64_t>> {
      return std::vector<uint64_t>(tree.inner.size(), kGroupBytes);
    };
    return request;
  }
  void Fill() {
    for (const NodeId node : topology.switches) {
      offers[node].groups = load.at(node).groups;
      offers[node].room = offers[node].arena_bytes - load.at(node).bytes;
    }
  }
  static const World& Get(Policy policy) {
    static const World own(Policy::kSpatial);
    if (policy != Policy::kTemporal) return own;
    static const World shared(Policy::kTemporal);
    return shared;
  }
  // On average over all blocks.
  double OwnersOfABlock() const {
    uint64_t owners = 0, blocks = 0;
    for (const NodeId node : topology.switches) {
      for (const auto& [number, block] : load.at(node).blocks) owners += block.owners;
      blocks += load.at(node).blocks.size();
    }
    return static_cast<double>(owners) / static_cast<double>(blocks);
  }

  const Topology topology = testing::PaperTree();
  const std::vector<Forwarding> tables = ComputeForwarding(topology);
  std::vector<SwitchOffer> offers{topology.nodes.size()};
  Load load;
  uint32_t groups = 0;
};

// Of this thread: what else the machine does is not in it.
double ProcessorMs() {
  timespec time{};
  EPIC_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

void PlacesAGroup(benchmark::State& state) {
  const auto policy = static_cast<Policy>(state.range(0));
  const World& world = World::Get(policy);
  state.SetLabel(Name(policy));
  std::mt19937 random(2);
  std::vector<double> ms;
  for (auto _ : state) {
    state.PauseTiming();
    const PlaceRequest request = world.Request(policy, kRanks, &random);
    state.ResumeTiming();
    const double begin = ProcessorMs();
    if (policy == Policy::kShortest) {
      EPIC_CHECK(BuildTree(world.topology, world.tables, world.offers, request.rank_hosts).ok());
    } else {
      EPIC_CHECK(Place(world.topology, world.load, world.offers, request).index() == 0);
    }
    ms.push_back(ProcessorMs() - begin);
  }
  std::ranges::sort(ms);
  state.counters["p50_ms"] = ms[ms.size() / 2];
  state.counters["p99_ms"] = ms[ms.size() * 99 / 100];
  if (policy == Policy::kTemporal) state.counters["owners_of_a_block"] = world.OwnersOfABlock();
}

double ResidentMib() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void HoldsGroups(benchmark::State& state) {
  for (auto _ : state) {
    const double before = ResidentMib();
    testing::GroupWorldFixture w(testing::PaperTree());
    w.checks = false;
    std::mt19937 random(1);
    const uint32_t hosts = static_cast<uint32_t>(w.topology.nodes.size() - w.topology.switches.size());
    SessionId session = 0;
    for (uint32_t i = 0; i < kGroups; ++i) {
      const std::string name = "g" + std::to_string(i);
      const uint32_t ranks = 2 + static_cast<uint32_t>(random() % 15);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const NodeId host = static_cast<NodeId>(w.topology.switches.size() + random() % hosts);
        w.groups()->OnJoin(w.now, ++session, w.Request(w.topology.nodes[host].name, rank, ranks, name));
      }
      w.AnswerInstalls();
      const auto group = w.groups()->Find(name);
      EPIC_CHECK(group && group->phase == GroupPhase::kRunning && group->path_taken == Path::kNetwork);
      // What the world has recorded is not the manager's.
      w.world.sent.clear();
      w.world.notes.clear();
      w.installed.clear();
    }
    state.counters["resident_MiB"] = ResidentMib() - before;
  }
}
BENCHMARK(HoldsGroups)->Unit(benchmark::kSecond)->Iterations(1);

BENCHMARK(PlacesAGroup)
    ->Arg(static_cast<int>(Policy::kShortest))
    ->Unit(benchmark::kMillisecond)
    ->Iterations(500);
BENCHMARK(PlacesAGroup)
    ->Arg(static_cast<int>(Policy::kEdt))
    ->Arg(static_cast<int>(Policy::kSpatial))
    ->Arg(static_cast<int>(Policy::kTemporal))
    ->Unit(benchmark::kMillisecond)
    ->Iterations(500);

}  // namespace
}  // namespace epic::manager

BENCHMARK_MAIN();
