// How the ranks of a communicator agree on a group: either all are in it afterwards, or none, with one
// reason.
#pragma once

#include <array>
#include <string>

namespace epic::mpi {

// A text that travels between ranks: at most kTextBytes - 1 bytes, the rest zeros.
inline constexpr size_t kTextBytes = 256;
using Text = std::array<char, kTextBytes>;

// What came of a rank's join.
struct JoinResult {
  std::string refusal;      // empty: it went well
  bool for_others = false;  // other ranks did not come: it is they who know why
  bool lasting = false;     // any other group would be refused for the same
  bool lacking = false;     // memory or queue pairs: of this host, if others waited for it, else of a switch
};

// Tells what to do next; whoever asks does it by the MPI's own functions, which wait for every rank.
//
//   kMin        the least of all ranks' `value`, then OnMin
//   kBroadcast  `text` from rank `root` to all, then OnBroadcast
//   kJoin       joins the group of that name, then OnJoin
//   kTake       looks whether it has kept the group of that name, then OnTake
//   kDrop       leaves what it has taken, if it has, then OnDrop
//   kJoined, kRefused: done. Refused after a join of this rank that went well: it leaves, as far as it has
//   joined.
//
//   ready? (least rank that is not) --none--> name from rank 0 -> join -> joined? (least that has not)
//   --none--> kJoined
//                    \--one--> its reason to all -> kRefused <- waited? <- its reason to all --one--/
//
// Rank 0 may offer a group that it has kept, in place of a new one. Whoever has that name in the same place
// among as many ranks is in it; so if all of them are, the group is of these ranks and no others:
//
//   the kept name from rank 0 -> kTake -> taken? (least) --all--> kJoined
//                                                        \--not all--> kDrop -> name from rank 0 -> join ...
//
// The first agreement is also where all wait for each other, so that no join waits for a rank that comes
// late.
class JoinAgreement {
 public:
  enum class Step { kMin, kBroadcast, kJoin, kTake, kDrop, kJoined, kRefused };

  // `why_not` is empty if this rank can join at all. `name`, of a new group, and `kept`, of one that is
  // offered, are used of rank 0 only; `kept` is empty if there is none.
  JoinAgreement(int rank, int ranks, const std::string& why_not, const std::string& name,
                const std::string& kept = "");

  Step step() const { return step_; }
  int value() const { return value_; }
  int root() const { return root_; }
  Text& text() { return text_; }

  void OnMin(int least);
  void OnBroadcast();
  void OnJoin(const JoinResult& result);
  // `has`: this rank has taken it, or needs none.
  void OnTake(bool has);
  void OnDrop();

  // The group's name, from kJoin or kTake on; "rank 3: no such host" in kRefused.
  std::string name() const;
  const std::string& reason() const { return reason_; }
  // In kRefused: whether this rank would be refused any other group, too, which others need not wait for
  // then.
  bool lasts() const { return lasts_; }
  const std::string& own_refusal() const { return result_.refusal; }

 private:
  void Agree(const JoinResult& result);
  void EndRefused();
  void PutName();

  const int rank_;
  const int ranks_;
  Step step_ = Step::kMin;
  int value_ = 0;
  int root_ = 0;
  bool has_joined_ = false;
  bool asks_who_has_ = false;  // of the kept group
  bool refused_ = false;       // by somebody
  bool asks_for_waits_ = false;
  bool lasts_ = false;
  JoinResult result_;  // of the join
  std::string own_name_;
  std::string offer_;
  std::string name_;
  std::string why_not_;
  std::string reason_;
  Text text_{};
};

}  // namespace epic::mpi
