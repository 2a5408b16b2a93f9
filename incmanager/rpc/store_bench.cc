// What a store costs the manager. Commits of a group of so many ranks, as it runs and as it ends, in a file on
// a disk: the folder that EPIC_STORE_BENCH names, else /var/tmp; each is one transaction, synchronous. And how
// long a manager takes from its start until it takes joins, when a store has so many groups of 2 to 16 ranks on
// the paper's network (appendix L: 2,048 hosts, 384 switches), all of whose agents register at once: with the
// rows read and checked, without the network's own time. `store_bench`.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "incmanager/groups/group_life_testing.h"
#include "incmanager/paper_tree_testing.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/stored.h"
#include "incmanager/store/sqlite_store.h"
#include "io/clock.h"

namespace epic::manager {
namespace {

// A store in a folder of its own, both of which go with this.
class Folder {
 public:
  Folder() {
    const char* const under = std::getenv("EPIC_STORE_BENCH");
    std::string name = std::string(under == nullptr ? "/var/tmp" : under) + "/epic-store-bench-XXXXXX";
    EPIC_CHECK(mkdtemp(name.data()) != nullptr);
    place_ = name;
  }
  ~Folder() { std::filesystem::remove_all(place_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::unique_ptr<Store> Open() const {
    auto store = OpenStore(place_ + "/store", true);
    EPIC_CHECK(store.ok());
    return *std::move(store);
  }
  double Mib() const {
    uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(place_))
      if (file.is_regular_file()) bytes += file.file_size();
    return static_cast<double>(bytes) / (1 << 20);
  }

 private:
  std::string place_;
};

// Groups that run, of these numbers of ranks, placed on the paper's network.
std::vector<proto::StoredGroup> Running(uint32_t groups, uint32_t least, uint32_t most) {
  testing::GroupWorldFixture w(testing::PaperTree());
  w.checks = false;
  std::mt19937 random(1);
  const auto hosts = static_cast<uint32_t>(w.topology.nodes.size() - w.topology.switches.size());
  SessionId session = 0;
  std::vector<proto::StoredGroup> running;
  for (uint32_t i = 0; i < groups; ++i) {
    const std::string name = fmt::format("g{}", i);
    const uint32_t ranks = least + static_cast<uint32_t>(random() % (most - least + 1));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto host = static_cast<NodeId>(w.topology.switches.size() + random() % hosts);
      w.groups()->OnJoin(w.now, ++session, w.Request(w.topology.nodes[host].name, rank, ranks, name));
    }
    w.AnswerInstalls();
    const auto group = w.groups()->Find(name);
    EPIC_CHECK(group && group->phase == GroupPhase::kRunning);
    running.push_back(ToStored(w.topology, *group));
    w.world.sent.clear();
    w.world.notes.clear();
    w.installed.clear();
  }
  return running;
}

void BM_Commits(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const Folder folder;
  const std::unique_ptr<Store> store = folder.Open();
  EPIC_CHECK(BeginEpoch(store.get(), {}).ok());
  proto::StoredGroup group = Running(1, ranks, ranks).front();
  std::vector<double> ms;
  uint64_t id = 0;
  for ([[maybe_unused]] auto _ : state) {
    group.set_id(++id);
    for (const bool runs : {true, false}) {
      const Batch batch = {runs ? RowOf(group) : RowChange{.row = GroupKey(id), .value = {}}};
      const Nanos begin = io::MonotonicNow();
      EPIC_CHECK(store->Apply(batch).ok());
      ms.push_back(static_cast<double>(io::MonotonicNow() - begin) / 1e6);
    }
  }
  std::ranges::sort(ms);
  state.counters["p50_ms"] = ms[ms.size() / 2];
  state.counters["p99_ms"] = ms[ms.size() * 99 / 100];
  state.counters["commits"] = benchmark::Counter(static_cast<double>(ms.size()), benchmark::Counter::kIsRate);
  state.counters["row_bytes"] = static_cast<double>(SizeOf(RowOf(group)));
  store->Close();
}
BENCHMARK(BM_Commits)
    ->ArgName("ranks")
    ->Arg(4)
    ->Arg(128)
    ->Iterations(500)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Start(benchmark::State& state) {
  spdlog::set_level(spdlog::level::off);
  const Folder folder;
  const Topology topology = testing::PaperTree();
  std::map<std::string, std::vector<uint64_t>> contexts;  // by switch
  {
    const std::unique_ptr<Store> store = folder.Open();
    EPIC_CHECK(BeginEpoch(store.get(), {}).ok());
    Batch batch;
    for (const NodeId node : topology.switches) batch.push_back(RowOfSwitch(topology.nodes[node].name));
    for (const proto::StoredGroup& group : Running(static_cast<uint32_t>(state.range(0)), 2, 16)) {
      batch.push_back(RowOf(group));
      for (const proto::TreeNode& context : group.contexts()) contexts[context.switch_name()].push_back(group.id());
      if (batch.size() < 500) continue;
      EPIC_CHECK(store->Apply(batch).ok());
      batch.clear();
    }
    EPIC_CHECK(store->Apply(batch).ok());
    store->Close();
  }
  double read_ms = 0, resume_ms = 0;
  for ([[maybe_unused]] auto _ : state) {
    const Nanos begin = io::MonotonicNow();
    const std::unique_ptr<Store> store = folder.Open();
    const auto kept = BeginEpoch(store.get(), {});
    EPIC_CHECK(kept.ok());
    read_ms += static_cast<double>(io::MonotonicNow() - begin) / 1e6;
    testing::IdleWorld world;
    ManagerState manager(topology, {}, 1, 1, &world);
    const Nanos now = kSecond;
    const Nanos resumed = io::MonotonicNow();
    manager.Resume({.now = now}, *kept, "the bench's");
    resume_ms += static_cast<double>(io::MonotonicNow() - resumed) / 1e6;
    for (const NodeId node : topology.switches) {
      const proto::RegisterRequest request = testing::RegistrationOf(topology.nodes[node], contexts[topology.nodes[node].name]);
      EPIC_CHECK(manager.Register(now, request).ok());
    }
    state.PauseTiming();
    EPIC_CHECK(manager.ListGroups().groups_size() == state.range(0));
    store->Close();
    state.ResumeTiming();
  }
  state.counters["read_ms"] = benchmark::Counter(read_ms, benchmark::Counter::kAvgIterations);
  state.counters["resume_ms"] = benchmark::Counter(resume_ms, benchmark::Counter::kAvgIterations);
  state.counters["store_MiB"] = folder.Mib();
}
BENCHMARK(BM_Start)
    ->ArgName("groups")
    ->Arg(100)
    ->Arg(10'000)
    ->Iterations(3)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epic::manager
