// A manager that is killed at any moment, before or behind any of its commits, while groups begin, run and
// end: by chance.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "base/seeds_testing.h"
#include "incmanager/rpc/manager_life_testing.h"
#include "incmanager/topology_testing.h"

namespace epic::manager {
namespace {

using testing::kRanks;

// A rank as the library has it: it says again what it has said, until it knows that it counts.
struct Rank {
  std::string group;  // empty: it is in none
  proto::Path path = proto::PATH_UNSPECIFIED;
  uint32_t number = 0, pid = 0;
  bool away = false;  // its manager has gone
  SessionId session = 0;
  size_t heard = 0;  // of what it was told in this session
  std::optional<proto::Joined> joined;
  std::optional<proto::ClientMessage> last;  // Leave or Abort
};

class Restarts {
 public:
  explicit Restarts(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].number = static_cast<uint32_t>(i % kRanks);
  }

  void Run() {
    for (int step = 0; step < 120 && !::testing::Test::HasFailure(); ++step) {
      Step();
      if (life_.is_killed()) Restart();
      Listen();
    }
    life_.KillAt(0, true);
    for (Rank& rank : ranks_) Return(&rank);
    Listen();
    for (Rank& rank : ranks_) Leave(&rank);
    Listen();
    // Those that wait for ranks that do not come.
    life_.Pass(200 * kSecond);
    Register();
    life_.Pass(20 * kSecond);
    Listen();
    for (const Rank& rank : ranks_) EXPECT_TRUE(rank.group.empty()) << "it hangs in group " << rank.group;
    EXPECT_EQ(life_.Contexts(), 0u);
    EXPECT_EQ(life_.state->groups().load(), Load());
    EXPECT_EQ(life_.state->ListGroups().groups_size(), 0);
  }

 private:
  void Step() {
    Rank& rank = ranks_[random_() % ranks_.size()];
    switch (random_() % 16) {
      case 0:
        return life_.KillAt(1 + static_cast<int>(random_() % 2), random_() % 2 == 0);
      case 1:
        return random_() % 3 == 0 ? Restart() : Register();
      case 2:
        return Abort(&rank);
      case 3:
        return random_() % 4 == 0 ? End(&rank) : Leave(&rank);
      case 4:
        if (random_() % 8 != 0) return;
        life_.model(static_cast<NodeId>(random_() % life_.topology().switches.size())).Start();
        return Register();
      case 5:
        return life_.Pass(static_cast<Nanos>(random_() % 400) * kMillisecond);
      case 6:
      case 7:
        for (Rank& one : ranks_) Leave(&one);
        return;
      case 8:
      case 9:
      case 10:
        for (Rank& one : ranks_) Return(&one);
        return;
      default:
        // Those of one group mostly come together.
        for (size_t i = 0; i < kRanks; ++i) Join(&ranks_[(&rank - ranks_.data()) / kRanks * kRanks + i]);
    }
  }

  void Restart() {
    life_.Restart();
    for (Rank& rank : ranks_) rank.away = !rank.group.empty();
  }
  void Register() {
    for (NodeId node = 0; node < life_.topology().switches.size() && !life_.is_killed(); ++node)
      life_.Register(node);
  }

  void Join(Rank* rank) {
    if (!rank->group.empty() || life_.is_killed()) return;
    const bool second = rank >= ranks_.data() + kRanks;
    rank->group = second ? "b" : "a";
    rank->path = second ? proto::PATH_HOSTS : proto::PATH_NETWORK;
    rank->pid = ++pids_;
    SayJoin(rank);
  }
  void SayJoin(Rank* rank) {
    rank->heard = 0;
    rank->session = life_.Join(rank->group, rank->path, rank->number, rank->pid);
  }
  void Return(Rank* rank) {
    if (!rank->away || life_.is_killed()) return;
    rank->away = false;
    if (!rank->joined) return SayJoin(rank);
    rank->heard = 0;
    life_.Return(*rank->joined, rank->group, rank->number, &rank->session);
    if (rank->last) life_.Say(rank->session, *rank->last);
  }
  void Say(Rank* rank, const proto::ClientMessage& message) {
    if (!rank->joined || rank->last) return;
    rank->last = message;
    if (!rank->away) life_.Say(rank->session, message);
  }
  void Leave(Rank* rank) {
    proto::ClientMessage message;
    message.mutable_leave()->set_drained(true);
    Say(rank, message);
  }
  void Abort(Rank* rank) {
    proto::ClientMessage message;
    message.mutable_abort()->set_reason(fmt::format("rank {} has had enough", rank->pid));
    Say(rank, message);
  }
  // Its process is killed.
  void End(Rank* rank) {
    if (!rank->group.empty() && !rank->away) life_.Close(rank->session);
    Forget(rank);
  }
  static void Forget(Rank* rank) {
    rank->group.clear();
    rank->joined.reset();
    rank->last.reset();
    rank->away = false;
    rank->session = 0;
  }

  // What ranks hear; what is told to one is told to all.
  void Listen() {
    for (Rank& rank : ranks_) {
      if (rank.group.empty() || rank.session == 0 || rank.away) continue;
      const auto& told = life_.told[rank.session];
      while (rank.heard < told.size() && !rank.group.empty()) Hear(&rank, told[rank.heard++]);
    }
  }
  void Hear(Rank* rank, const proto::ServerMessage& message) {
    if (message.has_joined()) {
      EXPECT_FALSE(message.joined().secret().empty());
      rank->joined = message.joined();
    }
    if (!message.has_failure() && !message.has_left()) return;
    const std::string end = message.has_left() ? "left" : message.failure().message();
    if (rank->joined) {
      EXPECT_TRUE(!message.has_failure() || (message.failure().code() != proto::ERROR_MANAGER_LOST &&
                                             message.failure().code() != proto::ERROR_INVALID_ARGUMENT))
          << "rank " << rank->number << " of " << rank->group << " was told Joined: " << end;
      const auto [first, is_first] = ends_.try_emplace(rank->joined->group_id(), end);
      EXPECT_EQ(first->second, end) << "one end for all of " << rank->group;
    }
    Forget(rank);
  }

  std::mt19937_64 random_;
  testing::Life life_{testing::Tree32().Build()};
  std::array<Rank, 2 * kRanks> ranks_;    // the first of group a
  std::map<uint64_t, std::string> ends_;  // by the group's id
  uint32_t pids_ = 0;
};

TEST(ManagerRestarts, WhoWasToldSomethingFindsThatEveryLaterManagerKnowsIt) {
  const TestSeeds seeds = SeedsToRun(60);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(fmt::format("replay: EPIC_SEED={} with this test as --gtest_filter", seed));
    Restarts(seed).Run();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace epic::manager
