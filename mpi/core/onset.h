// When a communicator's calls go over from the MPI to EPIC: at the same call on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mpi/core/decide.h"
#include "mpi/core/join.h"

namespace epic::mpi {

// From what all ranks have in common: which of its calls EPIC could make, in the order of the program.
// docs/MPI.md has the states, "When a communicator gets a group".
//
// A rank tells each such call before it is made. Mostly there is nothing to be done. Else all ranks make the
// steps that step() names, by the MPI's own functions, until it is kCall; every rank comes to the same ones,
// at the same call.
//
//   kLook       says whether this rank may begin a join, or whether its join has ended: OnLook
//   kMin        the least of all ranks' `value`, then OnMin
//   kBroadcast  `text` from rank `root` to all, then OnBroadcast
//   kPlace      finds out which ranks are on which host, then OnPlaced
//   kTake, kDrop, kJoin: as JoinAgreement has them; kBegin: begins the join of kJoin, and goes on: OnBegun
//   kCall       the call is made: by EPIC if uses_epic(), else by the MPI
class Onset {
 public:
  enum class Step { kLook, kMin, kBroadcast, kPlace, kTake, kDrop, kJoin, kBegin, kCall };

  // Asks before call `from_call`, or the one with which calls have `from_bytes`. `from_call` 1 or less:
  // before the first one, and waits until the group has been made or refused.
  Onset(int rank, int ranks, uint64_t from_call, uint64_t from_bytes);

  Step step() const { return step_; }
  // A call that EPIC could make, and that may wait for the other ranks. Returns step().
  Step OnCall(uint64_t bytes);
  // One that must not wait.
  void OnRequest(uint64_t bytes);

  int value() const;
  int root() const { return agreement_->root(); }
  Text& text() { return agreement_->text(); }

  // `join`: what came of the join of this rank, null if it has not ended, or has not begun; `may_begin`:
  // whether this rank may begin one.
  void OnLook(const JoinResult* join, bool may_begin);
  void OnMin(int least);
  void OnBroadcast();
  // `hosts`: how many there are. The others as JoinAgreement has them.
  void OnPlaced(int hosts, const std::string& why_not, const std::string& name, const std::string& kept);
  void OnTake(bool has);
  void OnDrop();
  void OnJoin(const JoinResult& result);
  void OnBegun();
  // A function of the MPI has failed: the calls of this rank are the MPI's from now on.
  void OnFailed();

  // Whether the question of a group has been settled, for good; and how.
  bool has_ended() const { return state_ == State::kEpic || state_ == State::kMpi; }
  bool uses_epic() const { return state_ == State::kEpic; }
  bool waits() const { return waits_; }
  // Why the MPI makes calls, while that is not settled.
  Reason why_mpi() const { return state_ == State::kMakes ? Reason::kBeingMade : Reason::kTooFew; }
  // Of the group, when one has been asked for; null: there is one host only.
  const JoinAgreement* agreement() const { return agreement_ ? &*agreement_ : nullptr; }

 private:
  enum class State {
    kCounts,
    kAsks,    // whether all ranks may begin a join, again at call `next_`
    kAgrees,  // on a group
    kMakes,   // it: each rank its join; looks again at call `next_`
    kEpic,
    kMpi,
  };

  void Count(uint64_t bytes);
  bool IsDue() const;
  void LookLater();
  void FollowAgreement();

  const int rank_;
  const int ranks_;
  const uint64_t from_call_;
  const uint64_t from_bytes_;
  const bool waits_;
  State state_ = State::kCounts;
  Step step_ = Step::kCall;
  uint64_t calls_ = 0;
  uint64_t bytes_ = 0;
  uint64_t next_ = 0;
  bool ready_ = false;  // what OnLook has said
  JoinResult joined_;
  std::optional<JoinAgreement> agreement_;
};

}  // namespace epic::mpi
