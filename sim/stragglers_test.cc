// Ranks that come late or stand still, in each mode: their group waits and ends right, no queue pair fails,
// and another group on the same switches, hosts and links notices nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/collectives.h"
#include "sim/realisations_testing.h"

namespace epic::sim {
namespace {

constexpr int kSlow = 2;  // the rank that others wait for, and its host

class StragglersTest : public testing::TestWithParam<Realisation> {};

INSTANTIATE_TEST_SUITE_P(Modes, StragglersTest, testing::ValuesIn(Realisations()),
                         [](const auto& param) { return std::string(param.param.name); });

// One call of each kind that moves data.
std::vector<CollectiveCall> Calls(int ranks, int first_number) {
  std::vector<CollectiveCall> calls;
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter,
                                      Collective::kBroadcast, Collective::kAllGather, Collective::kReduce}) {
    ControlHeader header{.collective = collective, .type = DataType::kInt32, .count = 8000};
    if (Reduces(collective)) header.op = ReduceOp::kSum;
    if (HasPartPerRank(collective)) header.parts = static_cast<uint32_t>(ranks);
    header.count /= header.parts;
    if (collective == Collective::kBroadcast) header.root = kSlow;
    calls.emplace_back(header, ranks, first_number + static_cast<int>(calls.size()));
  }
  return calls;
}

constexpr Nanos kRound = 3 * kSecond;

// A group that calls all collectives once per kRound. Whoever waits uses up little of the links; only the
// first round meets the other group's own data.
class Neighbour {
 public:
  Neighbour(World& world, std::vector<int> hosts, const TreeSpec& tree, const Realisation& realisation,
            int rounds)
      : world_(world),
        group_(world.AddGroup({.mode = ModesFor(realisation, tree), .rank_host = std::move(hosts)})) {
    for (int k = 0; k < rounds; ++k) {
      rounds_.push_back(Calls(world.ranks(group_), 5 * k));
      for (int r = 0; r < world.ranks(group_); ++r) {
        world.At(k * kRound, [this, k, r] {
          for (CollectiveCall& call : rounds_[static_cast<size_t>(k)]) call.Start(world_, r, group_);
        });
      }
    }
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // The time that the slowest of the rounds took. Also checks their results.
  Nanos Slowest() const {
    Nanos slowest = 0;
    for (size_t k = 0; k < rounds_.size(); ++k) {
      for (int r = 0; r < world_.ranks(group_); ++r) {
        const int last = static_cast<int>((k + 1) * rounds_[k].size()) - 1;
        EXPECT_EQ(world_.host(r, group_).state(last), CallState::kDone) << "round " << k;
        slowest =
            std::max(slowest, world_.host(r, group_).finished_at(last) - static_cast<Nanos>(k) * kRound);
        for (const CollectiveCall& call : rounds_[k]) EXPECT_EQ(call.Wrong(r), 0u) << call.Describe();
      }
    }
    return slowest;
  }

 private:
  World& world_;
  const int group_;
  std::vector<std::vector<CollectiveCall>> rounds_;
};

void ExpectNoQueuePairInError(World& world) {
  for (int group = 0; group < world.groups(); ++group) {
    for (int r = 0; r < world.ranks(group); ++r) {
      EXPECT_EQ(world.host(r, group).qp().state(), roce::QpState::kRts);
    }
    for (int s = 0; s < world.switches(); ++s) {
      const engine::Context& ctx = world.context(s, group);
      EXPECT_EQ(ctx.state, engine::GroupState::kRunning);
      if (!ctx.terminated) continue;
      for (const auto& child : ctx.terminated->children) EXPECT_EQ(child.qp.state(), roce::QpState::kRts);
    }
  }
}

WorldConfig Config(const Realisation& realisation, const TreeSpec& tree) {
  return {.mode = ModesFor(realisation, tree),
          .tree = tree,
          .prompt_ns = 20 * kMillisecond,
          .host_retries_end = true,
          .arena_bytes = 8 << 20};
}

const TreeSpec kTrees[] = {Star(4), FullTree(2, 2)};
const std::vector<int> kAllHosts = {0, 1, 2, 3};
const std::vector<int> kOtherHosts = {0, 1, 3};

// What the other group's slowest round takes while nobody else does anything.
Nanos Undisturbed(const Realisation& realisation, const TreeSpec& tree, const std::vector<int>& hosts) {
  World world(Config(realisation, tree), 1);
  const Neighbour neighbour(world, hosts, tree, realisation, 2);
  world.RunUntil([&] { return world.now() > kRound && world.AllDone(1); }, 2 * kRound);
  return neighbour.Slowest();
}

// Of the group that waits: its calls, and when rank kSlow makes them.
struct Waiting {
  Waiting(World& world, Nanos slow_starts) : calls(Calls(world.ranks(), 0)) {
    for (int r = 0; r < world.ranks(); ++r) {
      world.At(r == kSlow ? slow_starts : 0, [this, &world, r] {
        for (CollectiveCall& call : calls) call.Start(world, r);
      });
    }
  }
  size_t Wrong(int rank) const {
    size_t wrong = 0;
    for (const CollectiveCall& call : calls) wrong += call.Wrong(rank);
    return wrong;
  }
  std::vector<CollectiveCall> calls;
};

TEST_P(StragglersTest, OneRankAMinuteLate) {
  for (const TreeSpec& tree : kTrees) {
    SCOPED_TRACE(testing::Message() << tree.switch_parent.size() << " switches");
    World world(Config(GetParam(), tree), 1);
    const Neighbour neighbour(world, kAllHosts, tree, GetParam(), 21);
    const Waiting waiting(world, 60 * kSecond);
    int64_t packets = 0;
    world.SetFaultRule([&](const LinkPacket& p) {
      packets += p.group == 0 && world.now() < 60 * kSecond;
      return Fate::kDeliver;
    });
    const auto done = [&] { return world.now() > 60 * kSecond && world.AllDone(0) && world.AllDone(1); };
    ASSERT_TRUE(world.RunUntil(done, 70 * kSecond));
    for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(waiting.Wrong(r), 0u) << "rank " << r;
    EXPECT_LT(world.now(), 60 * kSecond + 500 * kMillisecond);
    EXPECT_LT(packets, 60 * 3000) << "waiting must stay cheap";
    ExpectNoQueuePairInError(world);
    EXPECT_LT(neighbour.Slowest(), 2 * Undisturbed(GetParam(), tree, kAllHosts));
  }
}

// Stops a rank of the first group at several moments of its calls, for half a minute.
template <typename Stop>
void StopInTheMiddle(const Realisation& realisation, const TreeSpec& tree, const std::vector<int>& neighbours,
                     const Stop& stop) {
  World alone(Config(realisation, tree), 1);
  const Waiting reference(alone, 0);
  const auto started = [](World& w) { return w.now() > 0 && w.AllDone(); };
  ASSERT_TRUE(alone.RunUntil([&] { return started(alone); }, kSecond));
  const Nanos undisturbed = Undisturbed(realisation, tree, neighbours);
  for (const int tenths : {1, 3, 5, 7, 9}) {
    SCOPED_TRACE(testing::Message() << tree.switch_parent.size() << " switches, after " << tenths << "/10");
    World world(Config(realisation, tree), 1);
    const Neighbour neighbour(world, neighbours, tree, realisation, 11);
    const Waiting waiting(world, 0);
    const Nanos at = alone.now() * tenths / 10;
    world.At(at, [&] { stop(world, at + 30 * kSecond); });
    const auto done = [&] { return world.now() > 30 * kSecond && world.AllDone(0) && world.AllDone(1); };
    ASSERT_TRUE(world.RunUntil(done, 70 * kSecond));
    for (int r = 0; r < world.ranks(); ++r) EXPECT_EQ(waiting.Wrong(r), 0u) << "rank " << r;
    ExpectNoQueuePairInError(world);
    EXPECT_LT(neighbour.Slowest(), 2 * undisturbed);
  }
}

TEST_P(StragglersTest, AProcessStandsStillForHalfAMinute) {
  for (const TreeSpec& tree : kTrees) {
    StopInTheMiddle(GetParam(), tree, kAllHosts, [](World& world, Nanos until) {
      world.host(kSlow).SetStopped(true);
      world.At(until, [&world] { world.host(kSlow).SetStopped(false); });
    });
  }
}

TEST_P(StragglersTest, AHostStandsStillForHalfAMinute) {
  for (const TreeSpec& tree : kTrees) {
    StopInTheMiddle(GetParam(), tree, kOtherHosts,
                    [](World& world, Nanos until) { world.Freeze(kSlow, until); });
  }
}

}  // namespace
}  // namespace epic::sim
