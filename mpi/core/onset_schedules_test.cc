// That every call goes the same way on all ranks, in programs and schedules that chance has made.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/seeds_testing.h"
#include "mpi/core/onset.h"

namespace epic::mpi {
namespace {

// Programs of several ranks, whose threads make communicators of any of these ranks in any order, make calls
// of them, and free them, while joins end, kept groups are given up and groups end as chance has it.
// Everything that an MPI may do to ranks it does: only a step of an Onset waits for others.
class Program {
 public:
  static constexpr int kThreads = 2;

  explicit Program(uint64_t seed) : random_(seed) {
    ranks_ = 2 + Below(4);
    for (int thread = 0; thread < kThreads; ++thread) {
      const int comms = 1 + Below(6);
      for (int i = 0; i < comms; ++i) AddComm(thread);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int thread = 0; thread < kThreads; ++thread) at_[{rank, thread}] = 0;
    }
  }

  // To the end of all ranks.
  void Run() {
    for (int turns = 0; turns < 200'000; ++turns) {
      // A rank's thread that can go on, or a join that can end.
      struct Choice {
        int rank, thread;
        Join* join;
      };
      std::vector<Choice> can;
      for (int rank = 0; rank < ranks_; ++rank) {
        for (int thread = 0; thread < kThreads; ++thread) {
          if (CanMove(rank, thread)) can.push_back({rank, thread, nullptr});
        }
      }
      for (Join* const join : under_way_) can.push_back({0, 0, join});
      if (can.empty()) break;
      const Choice choice = can[Below(static_cast<int>(can.size()))];
      if (choice.join != nullptr) {
        EndJoin(choice.join);
      } else {
        Move(choice.rank, choice.thread);
      }
      if (Below(40) == 0) ForgetKept();
      if (testing::Test::HasFailure()) return;
    }
    for (const auto& [who, at] : at_) {
      ASSERT_EQ(at, threads_[who.second].size())
          << "rank " << who.first << " waits for ever, thread " << who.second;
    }
    CheckGroups();
  }

  size_t by_epic() const { return by_epic_; }
  size_t taken() const { return taken_; }

 private:
  enum class What { kCall, kRequest, kFree };
  struct Op {
    What what;
    int comm;
    int number;  // among those of its communicator
    uint64_t bytes;
  };
  // A communicator's rank.
  struct Member {
    Onset onset;
    std::string group;  // joined, or taken
    bool freed = false;
  };
  struct Comm {
    std::vector<int> members;
    std::vector<Member> of;  // by the rank in it
    // The MPI's collectives: of each the values of those that have come.
    struct Collective {
      Onset::Step step;
      std::map<int, int> values;
      Text text{};
      int root = 0;
    };
    std::vector<Collective> collectives;
    std::vector<size_t> done;       // of each rank, how many
    std::vector<std::string> ways;  // of the calls, by the first rank that made it
  };
  struct Join {
    int rank, comm, in_comm;
    std::string name;
    bool ended = false;
    JoinResult result;
  };
  struct Kept {
    std::string name;
    int rank, ranks;
    std::vector<int> members;
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  void AddComm(int thread) {
    const int number = static_cast<int>(comms_.size());
    Comm comm;
    for (int rank = 0; rank < ranks_; ++rank) comm.members.push_back(rank);
    // Mostly all, in their order: those are the ones that may have each other's groups.
    if (Below(3) == 0) {
      std::shuffle(comm.members.begin(), comm.members.end(), random_);
      comm.members.resize(2 + Below(ranks_ - 1));
    }
    const auto n = static_cast<int>(comm.members.size());
    const uint64_t from_call = 1 + Below(6);
    const uint64_t from_bytes = Below(2) == 0 ? UINT64_MAX : 100;
    for (int rank = 0; rank < n; ++rank)
      comm.of.push_back({Onset(rank, n, from_call, from_bytes), "", false});
    comm.done.assign(comm.members.size(), 0);
    const int calls = Below(40);
    for (int call = 0; call < calls; ++call) {
      threads_[thread].push_back(
          {Below(4) == 0 ? What::kRequest : What::kCall, number, call, static_cast<uint64_t>(1 + Below(50))});
    }
    threads_[thread].push_back({What::kFree, number, calls, 0});
    comms_.push_back(std::move(comm));
  }

  static int In(const Comm& comm, int rank) {
    const auto at = std::find(comm.members.begin(), comm.members.end(), rank);
    return at == comm.members.end() ? -1 : static_cast<int>(at - comm.members.begin());
  }

  // Whether the thread is at an end, or waits in a step for others.
  bool CanMove(int rank, int thread) {
    const size_t at = at_[{rank, thread}];
    if (at == threads_[thread].size()) return false;
    Comm& comm = comms_[threads_[thread][at].comm];
    const int in = In(comm, rank);
    if (in < 0) return true;
    const Onset& onset = comm.of[in].onset;
    if (onset.step() == Onset::Step::kJoin) {
      const auto join = joins_.find({threads_[thread][at].comm, in});
      return join == joins_.end() || join->second.ended;
    }
    const size_t done = comm.done[in];
    if (done >= comm.collectives.size() || comm.collectives[done].values.count(in) == 0) return true;
    const Comm::Collective& one = comm.collectives[done];
    return one.step == Onset::Step::kBroadcast ? one.values.count(one.root) != 0
                                               : one.values.size() == comm.members.size();
  }

  void Move(int rank, int thread) {
    size_t& at = at_[{rank, thread}];
    const Op& op = threads_[thread][at];
    Comm& comm = comms_[op.comm];
    const int in = In(comm, rank);
    if (in < 0) {
      ++at;
      return;
    }
    Member& member = comm.of[in];
    if (op.what == What::kFree) {
      Free(rank, op.comm, in);
      ++at;
      return;
    }
    if (op.what == What::kRequest) {
      member.onset.OnRequest(op.bytes);
      Make(op, &comm, in);
      ++at;
      return;
    }
    if (entered_.insert({rank, thread, static_cast<int>(at)}).second) member.onset.OnCall(op.bytes);
    if (member.onset.step() != Onset::Step::kCall) MakeStep(rank, op.comm, in);
    if (member.onset.step() != Onset::Step::kCall || testing::Test::HasFailure()) return;
    Make(op, &comm, in);
    ++at;
  }

  void Make(const Op& op, Comm* comm, int in) {
    const Member& member = comm->of[in];
    const std::string way = member.onset.uses_epic() ? member.group : "";
    if (op.number == static_cast<int>(comm->ways.size())) comm->ways.push_back(way);
    ASSERT_EQ(comm->ways[op.number], way)
        << "call " << op.number << " of communicator " << op.comm << ", rank " << in;
    if (way.empty()) return;
    ++by_epic_;
    calls_of_[way][in].push_back({op.comm, op.number});
    ASSERT_EQ(comm->members, members_of_[way]) << way;
  }

  void MakeStep(int rank, int number, int in) {
    Comm& comm = comms_[number];
    Member& member = comm.of[in];
    Onset& onset = member.onset;
    switch (onset.step()) {
      case Onset::Step::kLook: {
        const auto join = joins_.find({number, in});
        const bool ended = join != joins_.end() && join->second.ended;
        onset.OnLook(ended ? &join->second.result : nullptr, Below(4) != 0);
        break;
      }
      case Onset::Step::kPlace: {
        const std::string name = "group" + std::to_string(number);
        std::string offer;
        for (const Kept& kept : kept_[rank]) {
          if (in == 0 && (kept.members == comm.members || Below(8) == 0)) offer = kept.name;
        }
        members_of_[name] = comm.members;
        onset.OnPlaced(2, Below(30) == 0 ? "not ready" : "", in == 0 ? name : "", offer);
        break;
      }
      case Onset::Step::kMin:
      case Onset::Step::kBroadcast:
        Meet(&comm, in);
        break;
      case Onset::Step::kTake:
        onset.OnTake(Take(rank, in, static_cast<int>(comm.members.size()), &member));
        break;
      case Onset::Step::kDrop:
        member.group.clear();
        onset.OnDrop();
        break;
      case Onset::Step::kJoin:
        if (joins_.count({number, in}) == 0) {
          Begin(rank, number, in);
        } else {
          onset.OnJoin(joins_[{number, in}].result);
        }
        break;
      case Onset::Step::kBegin:
        Begin(rank, number, in);
        onset.OnBegun();
        break;
      case Onset::Step::kCall:
        break;
    }
  }

  // A collective of the MPI's: comes to it, or leaves it.
  void Meet(Comm* comm, int in) {
    Onset& onset = comm->of[in].onset;
    const size_t done = comm->done[in];
    if (done == comm->collectives.size()) comm->collectives.push_back({.step = onset.step(), .values = {}});
    Comm::Collective& one = comm->collectives[done];
    if (one.values.count(in) == 0) {
      ASSERT_EQ(one.step, onset.step()) << "ranks are at different collectives";
      one.values[in] = onset.step() == Onset::Step::kMin ? onset.value() : onset.root();
      if (onset.step() == Onset::Step::kBroadcast) {
        ASSERT_EQ(one.values.begin()->second, onset.root());
        one.root = onset.root();
        if (in == one.root) one.text = onset.text();
      }
      return;
    }
    ++comm->done[in];
    if (one.step == Onset::Step::kBroadcast) {
      onset.text() = one.text;
      onset.OnBroadcast();
      return;
    }
    int least = one.values.begin()->second;
    for (const auto& [who, value] : one.values) least = std::min(least, value);
    onset.OnMin(least);
  }

  void Begin(int rank, int number, int in) {
    Member& member = comms_[number].of[in];
    member.group = member.onset.agreement()->name();
    Join& join = joins_[{number, in}];
    join = {rank, number, in, member.group, false, {}};
    under_way_.push_back(&join);
  }

  void EndJoin(Join* join) {
    join->ended = true;
    under_way_.erase(std::find(under_way_.begin(), under_way_.end(), join));
    if (Below(8) == 0)
      join->result = {.refusal = "no room", .for_others = Below(2) == 0, .lasting = Below(2) == 0};
    if (comms_[join->comm].of[join->in_comm].freed) Keep(join->rank, join->comm, join->in_comm);
  }

  void Free(int rank, int number, int in) {
    Member& member = comms_[number].of[in];
    member.freed = true;
    const auto join = joins_.find({number, in});
    const bool joins = !member.onset.has_ended() && join != joins_.end();
    if (member.onset.uses_epic() || (joins && join->second.ended)) Keep(rank, number, in);
  }

  void Keep(int rank, int number, int in) {
    const auto join = joins_.find({number, in});
    if (join != joins_.end() && !join->second.result.refusal.empty()) return;
    const Comm& comm = comms_[number];
    kept_[rank].push_back({comm.of[in].group, in, static_cast<int>(comm.members.size()), comm.members});
  }

  bool Take(int rank, int in, int ranks, Member* member) {
    std::vector<Kept>& kept = kept_[rank];
    const std::string name = member->onset.agreement()->name();
    const auto at = std::find_if(kept.begin(), kept.end(), [&](const Kept& one) {
      return one.name == name && one.rank == in && one.ranks == ranks;
    });
    if (at == kept.end()) return false;
    kept.erase(at);
    member->group = name;
    ++taken_;
    return true;
  }

  // Its time is over on one rank, or it has ended there.
  void ForgetKept() {
    std::vector<Kept>& kept = kept_[Below(ranks_)];
    if (!kept.empty()) kept.erase(kept.begin());
  }

  // Of every group all ranks have made the same calls in the same order.
  void CheckGroups() {
    for (const auto& [name, calls] : calls_of_) {
      ASSERT_EQ(calls.size(), members_of_[name].size()) << name;
      for (const auto& [rank, made] : calls)
        ASSERT_EQ(made, calls.begin()->second) << name << ", rank " << rank;
    }
  }

  std::mt19937_64 random_;
  int ranks_ = 0;
  std::array<std::vector<Op>, kThreads> threads_;
  std::vector<Comm> comms_;
  std::map<std::pair<int, int>, size_t> at_;  // by rank and thread: the operation
  std::set<std::array<int, 3>> entered_;
  std::map<std::pair<int, int>, Join> joins_;  // by communicator and the rank in it
  std::vector<Join*> under_way_;
  std::map<int, std::vector<Kept>> kept_;  // by rank
  std::map<std::string, std::vector<int>> members_of_;
  std::map<std::string, std::map<int, std::vector<std::pair<int, int>>>> calls_of_;
  size_t by_epic_ = 0;
  size_t taken_ = 0;
};

TEST(OnsetSchedulesTest, EveryCallGoesTheSameWayOnAllRanksWhateverTheOrderOfTheirSteps) {
  const TestSeeds seeds = SeedsToRun(200);
  size_t by_epic = 0;
  size_t taken = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("EPIC_SEED=" + std::to_string(seed) +
                 " mpi_core_test --gtest_filter='OnsetSchedulesTest.EveryCall*'");
    Program program(seed);
    program.Run();
    if (HasFailure()) return;
    by_epic += program.by_epic();
    taken += program.taken();
  }
  if (seeds.count < 8) return;
  // They have done what this is about.
  EXPECT_GT(by_epic, 20 * seeds.count);
  EXPECT_GT(taken, seeds.count / 2);
}

}  // namespace
}  // namespace epic::mpi
