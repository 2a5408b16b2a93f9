// Whose turn it is at a host's NIC: queue pairs that have something to send stand in line, send one packet
// each, and stand in line again behind the others.
#pragma once

#include <deque>

#include "base/types.h"
#include "roce/transport/memory.h"

namespace epic::sim {

// A queue pair of a rank.
class TurnTaker {
 public:
  TurnTaker(int its_group, int its_rank) : group(its_group), rank(its_rank) {}
  virtual ~TurnTaker() = default;
  // Handles timers that are due, and sends one packet at most.
  virtual void TakeTurn(Nanos now, roce::PacketSink& sink) = 0;

  const int group;
  const int rank;

 private:
  friend class Nic;
  bool in_line_ = false;
};

class Nic {
 public:
  // Borrowed until its turn, or until Forget. One that stands in line already keeps its place.
  void StandInLine(TurnTaker& taker) {
    if (taker.in_line_) return;
    taker.in_line_ = true;
    line_.push_back(&taker);
  }
  bool has_line() const { return !line_.empty(); }
  // Takes the first one out of the line.
  TurnTaker& Next() {
    TurnTaker& first = *line_.front();
    line_.pop_front();
    first.in_line_ = false;
    return first;
  }
  void Forget(TurnTaker& taker) {
    if (taker.in_line_) std::erase(line_, &taker);
    taker.in_line_ = false;
  }

  // The world looks at the line again when the link is free.
  bool waits_for_link = false;

 private:
  std::deque<TurnTaker*> line_;
};

}  // namespace epic::sim
