// The sessions of a host's ranks, in one stream to the manager (docs/PROTOCOL-CONTROL.md, section 7.2). No
// thread, no clock, no gRPC: what ranks and the manager say, and time, come in; what is to be said goes out
// through RelayWorld. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/types.h"
#include "proto/manager.pb.h"

namespace epic::host {

// A rank's session, numbered by who accepts it; each number is used once.
using RankId = uint64_t;

// Carries out what Relay asks for; its functions must not call back.
class RelayWorld {
 public:
  virtual ~RelayWorld() = default;
  virtual void ToManager(const proto::FromHost& message) = 0;
  // last: the rank's session ends with it.
  virtual void ToRank(RankId rank, const proto::ServerMessage& message, bool last) = 0;
  // The rank's session breaks, without a word: it comes back by another one. manager_lives: what has ended is
  // this host's stream alone, or its daemon, and the manager still knows the rank.
  virtual void Break(RankId rank, bool manager_lives) = 0;
};

class Relay {
 public:
  // What a rank waits for the manager at most, as one with a stream of its own does, if nobody says otherwise.
  static constexpr Nanos kManagerWait = 10 * kSecond;
  // How often the manager is told that this host lives.
  static constexpr Nanos kSignOfLife = kSecond;

  // manager: its address, for messages. world outlives this.
  Relay(std::string manager, RelayWorld* world, Nanos manager_wait = kManagerWait);

  // A stream to the manager begins, or what the host says of itself is another: the manager is told, and has
  // the host when it welcomes it.
  void OnStream(Nanos now, const proto::HostInfo& info);
  void OnManager(Nanos now, const proto::ToHost& message);
  // The stream has ended, or could not be had. why: for ranks, as what is wrong. manager_lives: it has ended
  // it.
  void OnStreamEnd(const std::string& why, bool manager_lives = false);
  // The daemon ends: who may come back does so by the next one.
  void OnStop();

  // Ranks.
  void OnRank(Nanos now, RankId rank, const proto::ClientMessage& message);
  void OnRankClosed(RankId rank);

  // To be called about ten times a second.
  void Tick(Nanos now);

  bool connected() const { return connected_; }
  size_t ranks() const { return ranks_.size(); }

 private:
  struct Rank {
    Nanos since = 0;
    bool known = false;                         // to the manager
    bool ended = false;                         // its last message has been sent
    bool rejoins = false;                       // it may come back by another session
    bool joined = false;                        // it has been told so in this session, or has come back by it
    bool durable = true;  // as far as one knows it may come back to another manager, too
    bool returns = false;                       // it has come back by this session
    std::vector<proto::ClientMessage> waiting;  // for the manager, its join the first
  };
  void Say(RankId rank, const proto::ClientMessage& message);
  void End(RankId rank, Rank* of, proto::ErrorCode code, const std::string& message);

  const std::string manager_;
  RelayWorld* const world_;
  const Nanos manager_wait_;
  bool connected_ = false;
  bool streaming_ = false;
  Nanos said_ = 0;       // when the manager heard last
  std::string trouble_;  // why the manager is not connected
  std::map<RankId, Rank> ranks_;
};

}  // namespace epic::host
