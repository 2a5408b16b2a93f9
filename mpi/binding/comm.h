// A communicator's state, and its calls under way.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mpi/binding/binding.h"
#include "mpi/binding/joins.h"
#include "mpi/core/decide.h"
#include "mpi/core/onset.h"
#include "mpi/group/group.h"

// A call that has been started. Belongs to the front end, and must live until it has ended.
struct EpicMpiRequest {
  EpicMpiComm* comm;
  EpicMpiCall call;
  const void* send;
  void* recv;
  std::unique_ptr<epic::mpi::Pending> pending{};  // null: it waits for its turn
  EpicMpiRequest* next = nullptr;                 // the one that was started after it
  int error = 0;                                  // of one that has ended
  std::atomic<bool> ended = false;
};

struct EpicMpiComm {
  // So many calls are the library's at a time, which takes 1024, of which 16 travel: what more of them held
  // would be memory registered for nothing.
  static constexpr int kMostPending = 64;
  static constexpr size_t kMostPersistent = 8;

  int rank;
  int ranks;
  const EpicMpiFunctions* mpi;
  void* mpi_comm;
  std::string softnic;
  bool of_one_call = false;  // a persistent one

  epic::mpi::Reason outside = epic::mpi::Reason::kEpic;  // why it can never have a group

  epic::mpi::Onset onset;
  bool asked = false;  // for a group, and there is one, or a refusal
  bool asks = false;   // right now: what the MPI itself calls meanwhile is its own
  bool ignored = false;
  bool joined = false;
  bool placed = false;  // `place` is known
  EpicMpiPlace place{};
  std::unique_ptr<epic::mpi::Group> group{};  // of ranks that are in it
  std::string group_name{};
  std::unique_ptr<epic::mpi::Group> taken{};      // of those kept, as long as ranks have not agreed on it
  std::shared_ptr<epic::mpi::Joining> joining{};  // a group, while calls are the MPI's
  int refused = 0;                                // without a group: how the report calls it
  // Groups of persistent calls, in the order in which these were made: the same on all ranks.
  std::vector<EpicMpiComm*> of_persistent{};
  int persistent_refused = 0;  // as `refused`, of the first persistent call without a group

  // The code with which all later calls end.
  std::atomic<int> error = 0;

  // Guards what follows: any thread that makes progress tests requests.
  std::mutex mutex{};
  EpicMpiRequest* oldest = nullptr;  // of those that have not ended, by their `next`
  EpicMpiRequest* newest = nullptr;
  EpicMpiRequest* waiting = nullptr;  // the oldest that waits for its turn
  int pending = 0;
  bool freed = false;  // by the program, with calls under way
  // Of the calls of a type and an operation; copies and barriers are at [0][0] and [0][1]. All are known from
  // the begin on where this rank is not in the group.
  struct Kind {
    int way = 0;           // how the report calls it; 0: not known yet
    bool refused = false;  // by the group
  };
  std::array<std::array<Kind, kEpicMpiOps>, kEpicMpiTypes> kinds{};
  // Of a Reduce_scatter, whose way is by its length, too: that of the last one.
  struct Scatter {
    EpicMpiType type{};
    EpicMpiOp op{};
    int64_t count = 0;
    Kind kind;
  };
  Scatter scatter{};

  // Whether the call could be EPIC's; if not, it is counted.
  bool CouldTake(const EpicMpiCall& call) const;
  // Whether there are several ranks on a host, and other hosts; known when `placed`.
  bool HasSeveral() const { return place.group_ranks > 1 && place.group_ranks < ranks; }
  // An error of the MPI's; collective.
  int Place();
  // What is to be done about a group before a call that waits, or that does not; `asked` says afterwards
  // whether that is settled. Of one that waits an error of the MPI's; collective at the same calls on every
  // rank.
  int Approach(const EpicMpiCall& call);
  void ApproachRequest(const EpicMpiCall& call);
  // Counts a call that the MPI makes for want of a group.
  void CountWithout(const EpicMpiCall& call) const;
  // Why a call that does not wait is the MPI's where it could be EPIC's otherwise; the same on every rank.
  epic::mpi::Reason WhyNotRequest(const EpicMpiCall& call) const;
  // Counts a call that is the MPI's, and says so.
  int Leaves(const EpicMpiCall& call, epic::mpi::Reason reason) const;
  // `parts`: of how many ranks the call is.
  void Count(const EpicMpiCall& call, int parts, int way) const;

  // Whether the group refuses such calls, on every rank; they are counted then.
  bool Refuses(const EpicMpiCall& call);
  // Makes a call that the group takes, to its end: 0, or the error's code.
  int Run(const EpicMpiCall& call, const void* send, void* recv);
  // Puts a request behind the others, and starts what can be started.
  void Add(EpicMpiRequest* request);
  // Ends requests that have ended, and starts those that waited for that. Returns at once if another thread
  // does. The communicator may be gone afterwards if it has been freed.
  void Progress();
  // Ends the group; returns the error's code.
  int Fail(const std::string& text);
  // Gives the group up, to be kept or left in a thread, and ends this object. Nothing is under way.
  void Leave();

 private:
  int MakeSteps();
  int MakeStep();
  void OnPlaced();
  int Settle(int mpi_error);
  int ShareRefusals();
  bool TakeKept(const std::string& name);
  epic::mpi::JoinResult Join(const std::string& name);
  const epic::mpi::JoinResult* EndedJoin() const;
  std::shared_ptr<epic::mpi::Joining> BeginJoin(const std::string& name);
  Kind KindOf(const EpicMpiCall& call);
  bool IsIdle();
  void EndOldest(int with_error);
  bool StartWaiting();
  int FailLocked(const std::string& text);
};
