// The ranks' ends of their sessions, as the library has them (commlib/session_stream.h): a stream to the
// manager, or one after the other where that has died. The ranks of jobs see nothing of that, but for what is
// late.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "commlib/unsaid.h"
#include "proto/manager.pb.h"
#include "sim/choices.h"
#include "sim/shared/jobs.h"
#include "sim/shared/world_manager.h"
#include "sim/world.h"

namespace epic::sim {

// Between a rank and one life of the manager. Messages take a random time and keep their order.
struct RankStream {
  manager::SessionId rank = 0;
  uint64_t life = 0;               // of the manager
  manager::SessionId session = 0;  // its number there, from the first message on
  bool closed = false;             // the rank has gone
  Nanos up = 0, down = 0;          // when the last message so far comes, each way
  Nanos cut = kNever;              // the manager has died: what comes later is lost
};

class ManagerStreams {
 public:
  virtual ~ManagerStreams() = default;
  // Null if nobody is there.
  virtual std::shared_ptr<RankStream> Open(manager::SessionId rank) = 0;
  virtual void Write(const std::shared_ptr<RankStream>& stream, const proto::ClientMessage& message) = 0;
  // Not before so long from now.
  virtual void Close(const std::shared_ptr<RankStream>& stream, Nanos after) = 0;
};

class RankEnds {
 public:
  // What the library has for a manager that is away.
  static constexpr Nanos kGivesUpAfter = 60 * kSecond;

  // All outlive this.
  RankEnds(World& world, const SharedShape& shape, Choices& choices, ManagerStreams& streams,
           RankSessions& ranks)
      : world_(world), shape_(shape), choices_(choices), streams_(streams), ranks_(ranks) {}

  void Say(manager::SessionId rank, const RankWord& word);
  void Miss(manager::SessionId rank);

  // The manager sends a rank what it is to have of its group, or a former one has kept it: once for each.
  void OnSent(manager::SessionId rank, const manager::JoinedReply& reply);
  // A message has come by a stream.
  void OnTold(const std::shared_ptr<RankStream>& stream, const proto::ServerMessage& message);
  // The manager has died.
  void OnBroken(const std::shared_ptr<RankStream>& stream);

  // By the nonce of its join.
  static manager::SessionId RankOf(uint64_t nonce) { return nonce - 1; }
  static uint64_t NonceOf(manager::SessionId rank) { return rank + 1; }
  // The group that it is in, as it was sent; 0: none.
  uint64_t GroupOf(manager::SessionId rank) const { return ends_.at(rank).group_id; }
  const std::string& NameOf(manager::SessionId rank) const { return ends_.at(rank).join.group; }
  bool IsGone(manager::SessionId rank) const { return ends_.at(rank).over; }
  // Some rank has waited for the manager in vain.
  bool has_given_up() const { return gave_up_; }
  int64_t returned() const { return returned_; }
  // The first thing that was wrong: a manager that does not know what was told, or two ends of one group.
  const std::string& wrong() const { return wrong_; }

 private:
  struct End {
    manager::JoinRequest join;
    uint64_t group_id = 0;
    std::optional<manager::JoinedReply> reply;  // that the rank is to have
    std::optional<proto::Joined> joined;        // that it has
    internal::Unsaid unsaid;
    std::shared_ptr<RankStream> stream;  // null: it has none
    bool over = false;                   // it has been told how its group ended, or is gone
    std::optional<Nanos> away_since;
    bool asks_back = false;  // its Rejoin has not been answered
    Nanos again = 0;         // until it tries once more
  };

  void Connect(manager::SessionId rank);
  void TryAgain(manager::SessionId rank);
  void GiveUp(manager::SessionId rank);
  void Write(End* end, const proto::ClientMessage& message);
  void JudgeEnd(const End& end, const std::string& how);
  void Complain(const std::string& what);

  World& world_;
  const SharedShape& shape_;
  Choices& choices_;
  ManagerStreams& streams_;
  RankSessions& ranks_;
  std::map<manager::SessionId, End> ends_;
  std::map<uint64_t, std::string> how_;  // each group has ended, as a rank was told
  bool gave_up_ = false;
  int64_t returned_ = 0;
  std::string wrong_;
};

}  // namespace epic::sim
