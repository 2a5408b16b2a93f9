// Several threads on one communicator: the host library on softnic in virtual time, with a manager in this
// process (local_manager_testing.h). Also under ThreadSanitizer.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "tests/softnic/local_ranks_testing.h"

namespace epic {
namespace {

using softnic::Group;
using softnic::LocalWorld;
using softnic::Sum;

// A thread, from when it sleeps on. Only to make likely what a test looks for, not for its result.
class Sleeper {
 public:
  template <typename Action>
  explicit Sleeper(const Action& action)
      : thread_([this, action] {
          id_ = gettid();
          action();
        }) {
    while (State() == 'R') std::this_thread::yield();
  }
  void Join() { thread_.join(); }

 private:
  // As in /proc/PID/stat; of a thread that has not begun, R.
  char State() const {
    if (id_ == 0) return 'R';
    std::ifstream stat(fmt::format("/proc/self/task/{}/stat", id_.load()));
    std::string text;  // of a thread that ends meanwhile, empty
    std::getline(stat, text, '\0');
    const size_t name_end = text.rfind(')');
    return name_end == std::string::npos ? 'X' : text[name_end + 2];
  }
  std::atomic<pid_t> id_ = 0;
  std::thread thread_;
};

// The second rank comes late, so that two threads of the first one wait: the one that waits for the second
// call leads, the other follows, and often one progress ends both calls. (When nobody watched after that, the
// long call took seconds: watch_test.cc shows the same without times.)
void LongCallBehindShortOnes(int size) {
  constexpr size_t kShort = 100;
  const size_t kLong = static_cast<size_t>(size) / sizeof(int32_t);
  LocalWorld world;
  Group group("g", 2);
  std::array<Sum, 3> mine = {Sum(0, 0, kShort), Sum(0, 1, kShort), Sum(0, 2, kLong)};
  for (Sum& sum : mine) sum.Start(group[0]);
  Sleeper leader([&] { mine[1].Finish(2); });
  Sleeper follower([&] { mine[0].Finish(2); });
  std::array<Sum, 3> others = {Sum(1, 0, kShort), Sum(1, 1, kShort), Sum(1, 2, kLong)};
  for (Sum& sum : others) sum.Start(group[1]);
  leader.Join();
  follower.Join();
  // Of the first rank nobody waits or tests any more: that the other one gets its result says that it moves.
  others[2].Finish(2);
  for (Sum* sum : {&mine[2], &others[0], &others[1]}) sum->Finish(2);
  group.Destroy();
}

TEST(CommThreadsTest, ALongCallGoesOnWhenThoseThatWaitedForShortOnesHaveLeft) {
  LongCallBehindShortOnes(16 << 20);
  for (int round = 0; round < 10; ++round) LongCallBehindShortOnes(1 << 20);
}

// Two ranks, the first of which counts how often it is called while it waits.
struct WithMoreToDo {
  WithMoreToDo() {
    std::vector<std::thread> joins;
    for (int rank = 0; rank < 2; ++rank) {
      joins.emplace_back([&, rank] {
        Options options = softnic::LocalOptions("g", rank, 2, PathChoice::kNetwork);
        if (rank == 0) {
          options.while_waiting = [&] {
            if (++calls == kEnough) calls.notify_all();
          };
        }
        Succeed(comms[static_cast<size_t>(rank)].Init(options));
      });
    }
    for (std::thread& join : joins) join.join();
  }
  static void Succeed(const Error& error) { EXPECT_TRUE(error.ok()) << error.message(); }

  // More than it would poll without (docs/HOST-INTERNALS.md, "Polling and sleeping").
  static constexpr int kEnough = 2000;
  LocalWorld world;
  std::array<Communicator, 2> comms;
  std::atomic<int> calls = 0;
};

TEST(CommThreadsTest, AThreadThatWaitsGoesOnWithWhatElseThereIs) {
  WithMoreToDo ranks;
  std::thread first([&] {
    ranks.Succeed(Barrier(ranks.comms[0]));
    EXPECT_GE(ranks.calls, ranks.kEnough);
    ranks.Succeed(ranks.comms[0].Destroy());
  });
  for (int now = ranks.calls; now < ranks.kEnough; now = ranks.calls) ranks.calls.wait(now);
  ranks.Succeed(Barrier(ranks.comms[1]));
  ranks.Succeed(ranks.comms[1].Destroy());
  first.join();
}

// Whichever thread that is, as one that MPI knows nothing of.
TEST(CommThreadsTest, AThreadThatLeavesWaitsForCallsAndDoesNothingElse) {
  WithMoreToDo ranks;
  std::array<Request, 2> requests;
  ranks.Succeed(BarrierAsync(ranks.comms[0], &requests[0]));
  Sleeper leaver([&] { ranks.Succeed(ranks.comms[0].Destroy()); });
  ranks.Succeed(BarrierAsync(ranks.comms[1], &requests[1]));
  ranks.Succeed(ranks.comms[1].Destroy());
  leaver.Join();
  EXPECT_EQ(ranks.calls, 0);
}

// Calls of each rank are made in order by one thread; others wait for them, test them, or drop them.
void RandomMixture(uint32_t seed) {
  SCOPED_TRACE(fmt::format("EPIC_SEED={}", seed));
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t n) { return static_cast<int>(random() % n); };
  const int ranks = 2 + below(2), calls = 30, waiters = 2 + below(3);
  LocalWorld world;
  Group group("g", ranks);
  std::vector<size_t> counts;
  for (int k = 0; k < calls; ++k)
    counts.push_back(static_cast<size_t>(below(8) == 0 ? below(100000) : below(2000)));
  std::vector<std::vector<std::unique_ptr<Sum>>> sums(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& mine = sums[static_cast<size_t>(rank)];
    for (int k = 0; k < calls; ++k)
      mine.push_back(std::make_unique<Sum>(rank, k, counts[static_cast<size_t>(k)]));
    const uint32_t rank_seed = static_cast<uint32_t>(random());
    threads.emplace_back([&, rank, rank_seed] {
      std::mt19937 own(rank_seed);
      auto& sums_of_rank = sums[static_cast<size_t>(rank)];
      for (auto& sum : sums_of_rank) sum->Start(group[rank]);
      std::vector<std::thread> waits;
      for (int w = 0; w < waiters; ++w) {
        waits.emplace_back([&, w, polls = own() % 4 == 0] {
          for (size_t k = static_cast<size_t>(w); k < sums_of_rank.size();
               k += static_cast<size_t>(waiters)) {
            Sum& sum = *sums_of_rank[k];
            // The last calls of the first rank nobody waits for before all others have them.
            if (rank == 0 && k + 4 > sums_of_rank.size()) continue;
            if (polls) sum.request.Test();
            sum.Finish(ranks);
          }
        });
      }
      for (std::thread& wait : waits) wait.join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& sum : sums[0]) sum->Finish(ranks);
  group.Destroy();
}

void RandomMixtures() {
  if (const char* seed = std::getenv("EPIC_SEED"); seed != nullptr)
    return RandomMixture(static_cast<uint32_t>(std::strtoul(seed, nullptr, 10)));
  for (uint32_t seed = 1; seed <= 5; ++seed) RandomMixture(seed);
}

// Whoever leads polls or sleeps, as the machine has processors to spare.
TEST(CommThreadsTest, RandomMixturesOfWaitingAndTesting) { RandomMixtures(); }

// The others come in between its looks.
TEST(CommThreadsTest, RandomMixturesWhileTheLeaderPolls) {
  setenv("EPIC_SPIN_US", "1000000", 1);
  RandomMixtures();
  unsetenv("EPIC_SPIN_US");
}

TEST(CommThreadsTest, RandomMixturesWhileTheLeaderSleeps) {
  setenv("EPIC_SPIN_US", "0", 1);
  RandomMixtures();
  unsetenv("EPIC_SPIN_US");
}

}  // namespace
}  // namespace epic
