// How long it takes to place a group of 128 ranks on the paper's network (EPIC paper, appendix L): 16 pods of
// 8 leaves and 8 spines, 16 hosts a leaf, 128 cores in 8 planes of 16: 384 switches, 5,120 links, 2,048
// hosts, on which 10,000 groups are. Each iteration is another group; none is taken. The counters are of
// single placements, in milliseconds of processor time.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/place.h"
#include "incmanager/policies/tree.h"

namespace epic::manager {
namespace {

constexpr uint32_t kPods = 16;
constexpr uint32_t kLeaves = 8;  // of a pod, and as many spines
constexpr uint32_t kHosts = 16;  // of a leaf
constexpr uint32_t kCores = 16;  // of a plane
constexpr uint32_t kGroups = 10'000;
constexpr uint32_t kRanks = 128;
constexpr uint64_t kGroupBytes = 8'256;  // so that all of them have room

void Link(Topology* topology, NodeId a, NodeId b, double rate_gbps) {
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    std::vector<Hop>& hops = topology->nodes[from].hops;
    const std::string port = topology->IsSwitch(from) ? fmt::format("swp{}", hops.size() + 1) : "";
    hops.push_back({.peer = to, .port = port, .rate_gbps = rate_gbps, .delay_us = 1});
  }
}

Topology PapersNetwork() {
  Topology topology;
  topology.path_mtu = 4096;
  topology.switch_count = kLeaves * kCores + 2 * kPods * kLeaves;
  const NodeId hosts = topology.switch_count;
  topology.nodes.resize(hosts + kPods * kLeaves * kHosts);
  const auto core = [](uint32_t plane, uint32_t at) { return plane * kCores + at; };
  const auto spine = [](uint32_t pod, uint32_t at) { return kLeaves * kCores + pod * kLeaves + at; };
  const auto leaf = [](uint32_t pod, uint32_t at) { return kLeaves * (kCores + kPods) + pod * kLeaves + at; };
  for (NodeId node = 0; node < topology.nodes.size(); ++node) {
    topology.nodes[node].is_host = node >= hosts;
    topology.nodes[node].name = fmt::format("{}{:04}", node >= hosts ? "h" : "s", node);
  }
  for (uint32_t pod = 0; pod < kPods; ++pod) {
    for (uint32_t at = 0; at < kLeaves; ++at) {
      for (uint32_t i = 0; i < kHosts; ++i)
        Link(&topology, leaf(pod, at), hosts + (pod * kLeaves + at) * kHosts + i, 100);
      for (uint32_t up = 0; up < kLeaves; ++up) Link(&topology, spine(pod, up), leaf(pod, at), 100);
      for (uint32_t i = 0; i < kCores; ++i) Link(&topology, core(at, i), spine(pod, at), 100);
    }
  }
  return topology;
}

// The network with its groups; made once.
struct World {
  World() {
    for (SwitchOffer& offer : offers) {
      offer.mode = Mode::kTranslated;
      offer.max_children = 64;
      offer.arena_bytes = 1 << 30;
    }
    std::mt19937 random(1);
    while (groups < kGroups) {
      const PlaceRequest request =
          Request(Policy::kSpatial, 2 + static_cast<uint32_t>(random() % 15), &random);
      Fill();
      const auto outcome = Place(topology, load, offers, request);
      const Placed& placed = std::get<Placed>(outcome);
      Allocation taken{.links = placed.links, .switches = {}, .tenant = ""};
      for (size_t i = 0; i < placed.bytes.size(); ++i)
        taken.switches.push_back({placed.tree.inner[i].node, placed.bytes[i]});
      load.Apply(taken);
      ++groups;
    }
    Fill();
  }
  static PlaceRequest Request(Policy policy, uint32_t ranks, std::mt19937* random) {
    PlaceRequest request;
    request.policy = policy;
    for (uint32_t i = 0; i < ranks; ++i)
      request.rank_hosts.push_back(static_cast<NodeId>(384 + (*random)() % (kPods * kLeaves * kHosts)));
    request.bytes_of = [](const Tree& tree) -> std::variant<std::vector<uint64_t>, Failure> {
      return std::vector<uint64_t>(tree.inner.size(), kGroupBytes);
    };
    return request;
  }
  void Fill() {
    for (NodeId node = 0; node < topology.switch_count; ++node) {
      offers[node].groups = load.at(node).groups;
      offers[node].room = offers[node].arena_bytes - load.at(node).bytes;
    }
  }
  static const World& Get() {
    static const World world;
    return world;
  }

  const Topology topology = PapersNetwork();
  const std::vector<Forwarding> tables = ComputeForwarding(topology);
  std::vector<SwitchOffer> offers{topology.switch_count};
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
  const World& world = World::Get();
  const auto policy = static_cast<Policy>(state.range(0));
  state.SetLabel(Name(policy));
  std::mt19937 random(2);
  std::vector<double> ms;
  for (auto _ : state) {
    state.PauseTiming();
    const PlaceRequest request = World::Request(policy, kRanks, &random);
    state.ResumeTiming();
    const double begin = ProcessorMs();
    if (policy == Policy::kShortest) {
      EPIC_CHECK(BuildTree(world.topology, world.tables, world.offers, request.rank_hosts).index() == 0);
    } else {
      EPIC_CHECK(Place(world.topology, world.load, world.offers, request).index() == 0);
    }
    ms.push_back(ProcessorMs() - begin);
  }
  std::ranges::sort(ms);
  state.counters["p50_ms"] = ms[ms.size() / 2];
  state.counters["p99_ms"] = ms[ms.size() * 99 / 100];
}
BENCHMARK(PlacesAGroup)
    ->Arg(static_cast<int>(Policy::kShortest))
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20);
BENCHMARK(PlacesAGroup)
    ->Arg(static_cast<int>(Policy::kEdt))
    ->Arg(static_cast<int>(Policy::kSpatial))
    ->Unit(benchmark::kMillisecond)
    ->Iterations(500);

}  // namespace
}  // namespace epic::manager

BENCHMARK_MAIN();
