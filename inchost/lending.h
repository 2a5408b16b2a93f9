// What a host's daemon does for the manager as one that lends memory (docs/PROTOCOL-CONTROL.md, section 7.5).
// No thread, no clock: what the manager says, and time, come in; what is to be done goes out. Not
// thread-safe.
#pragma once

#include <optional>

#include "base/types.h"
#include "proto/manager.pb.h"

namespace epic::host {

// The servers of groups; answers and ends go another way. Its functions must not call back.
class ServerMaker {
 public:
  virtual ~ServerMaker() = default;
  // Carried out in this order.
  virtual void Make(const proto::MakeServer& request) = 0;
  // Of one that is not there it is no error.
  virtual void Remove(const proto::ServedGroup& group) = 0;
  virtual void RemoveAll() = 0;
  // What is lent, and the groups that have servers now.
  virtual proto::FallbackOffer Offer() const = 0;
};

class Lending {
 public:
  // Ranks wait for their manager for 60 s (EPIC_MANAGER_AWAY): then nobody needs a server any more.
  static constexpr Nanos kManagerAway = 70 * kSecond;

  // servers outlives this; null: this host lends nothing.
  explicit Lending(ServerMaker* servers) : servers_(servers) {}

  // Puts what this host offers into what it says of itself.
  void AddTo(proto::HostInfo* info) const;
  // Passes over what does not concern servers. Welcomed by a manager that knows of none, it ends all: that
  // has no group that is served.
  void OnManager(const proto::ToHost& message);
  // The stream has ended, or could not be had.
  void OnStreamEnd(Nanos now);
  // To be called about once a second, or more often.
  void Tick(Nanos now);

  // What a server says, for the manager; with the MAC of the port that is told, of those in info.
  static proto::FromHost ToManager(const proto::ServerMade& made, const proto::HostInfo& info);
  static proto::FromHost ToManager(const proto::ServerEnded& ended, const proto::HostInfo& info);

 private:
  ServerMaker* servers_;
  std::optional<Nanos> away_since_;  // nothing: it is here, or all servers have ended
};

}  // namespace epic::host
