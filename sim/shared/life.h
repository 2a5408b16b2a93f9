// One life of a job: its ranks join, make random calls whichever way these go, and leave; or they are
// refused, one of them aborts, or something of it is lost in a crash.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/collectives.h"
#include "sim/group_ranks.h"
#include "sim/shared/jobs.h"
#include "sim/shared/world_manager.h"
#include "sim/trace.h"
#include "sim/trial.h"

namespace epic::sim {

class Life {
 public:
  // Where it is lived; all borrowed.
  struct Surroundings {
    World& world;
    WorldManager& manager;
    SharedShape& shape;
    const Scenario& scenario;
    Trace& trace;
  };

  // number: of all lives of the run, from 0. Rank r has session first + r. The job is borrowed.
  Life(const Surroundings& place, const Job& job, int number, manager::SessionId first);
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // Its ranks join, from now on. Until it is over it must not move.
  void Begin();
  // As RankSessions.
  void OnSent(int rank, const manager::SessionEvent& event);
  void OnEvent(int rank, const manager::SessionEvent& event);
  // A host is gone with all ranks that it had.
  void OnHostKilled(int host);
  // Ranks whose calls have all ended leave. To be called often.
  void Settle();

  // All sessions have ended.
  bool over() const { return open_ == 0; }
  const Job& job() const { return job_; }
  // When its last call so far begins.
  Nanos last_start() const { return last_start_; }

  // The first thing that is not as it must be: what ranks are told, an error without cause, a wrong element,
  // ranks that went different ways. Empty if there is none.
  std::string Wrong() const;
  std::string Standing() const;
  // What has come of it.
  void AddTo(Counts* counts) const;

 private:
  enum class At : uint8_t { kJoining, kRunning, kLeaving, kAborting, kGone };
  struct Rank {
    At at = At::kJoining;
    manager::JoinRequest join;
    std::optional<manager::JoinedReply> reply;
    int ended = 0;  // of its calls, the first so many
  };

  manager::SessionId SessionOf(int rank) const { return first_ + static_cast<manager::SessionId>(rank); }
  Nanos Soon();
  manager::JoinRequest JoinOf(int rank) const;
  void Make();
  void MakeCalls(const manager::JoinedReply& reply, bool any);
  std::optional<HostsWay> WayOf(const manager::JoinedReply& reply);
  void OnJoined(int rank);
  void ChangeWindows(int rank, uint32_t most);
  void OnFailure(int rank, const manager::Failure& failure);
  void End(int rank);
  bool HasEnded(int rank);
  void Complain(const std::string& what);
  std::string WrongCall(int rank, int call) const;

  Surroundings place_;
  const Job& job_;
  const int number_;
  const manager::SessionId first_;
  std::vector<Rank> ranks_;
  size_t open_;
  size_t told_ = 0;  // ranks to which the table has sent their replies
  bool aborts_ = false;
  bool hit_ = false;  // its calls may end in errors: a rank has aborted, or something is lost
  int group_ = -1;    // of the world
  Calls calls_;
  std::optional<GroupRanks> made_;
  Nanos last_start_ = 0;
  std::string refused_;
  std::string wrong_;
};

}  // namespace epic::sim
