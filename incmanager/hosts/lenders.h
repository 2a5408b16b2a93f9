// Hosts that lend memory to groups of mode V, and the servers of groups on them (docs/PROTOCOL-CONTROL.md,
// section 7.5). Sans-IO: what daemons say and time come in; who is to be told what comes back. Which host
// serves a group, and what is left there, is not for here to say (groups/lending.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"
#include "incmanager/hosts/host_table.h"

namespace epic::manager {

class Lenders {
 public:
  // What a host lends. It is known by the address by which it serves.
  struct Lender {
    HostId host = 0;
    Ipv4 ip{};
    std::string name;
    uint64_t bytes = 0;
    bool port_is_up = true;  // else no group gets a server there
    std::vector<ServedGroup> served;
    std::vector<std::string> groups;  // that have some, or have asked for some: their names, by id
  };
  // A group has no server any more.
  struct Lost {
    ServedGroup group;
    Ipv4 ip{};
    std::string why;  // for people
  };
  // A server that nobody wants is to be removed by this daemon.
  struct Unwanted {
    HostId host = 0;
    ServedGroup group;
  };
  struct Changes {
    std::vector<Lost> lost;
    std::vector<Unwanted> unwanted;
  };

  // The daemon of a host says who it is; without an offer it lends nothing, nor with one whose port is not up
  // and whose address is another lender's. Servers that are there stay while the port is down.
  Changes OnInfo(HostId host, const std::string& name, const std::optional<FallbackOffer>& offer);
  // Its stream has ended. Servers that have been made have kBackWithin to be there again.
  Changes OnGone(Nanos now, HostId host);
  static constexpr Nanos kBackWithin = 3 * kSecond;
  // The host with one of these addresses does not live. why: for people.
  Changes OnHostLost(const std::set<Ipv4>& addresses, const std::string& why);

  // A server of the group is asked for, of a lender that is here: the daemon that is to be asked; nothing if
  // it is not so any more, or the group has one.
  std::optional<HostId> Ask(Ipv4 ip, const ServedGroup& group, const std::string& name);
  // What a daemon has answered to that: it serves, or not.
  enum class Answer : uint8_t {
    kTaken,     // the group has its server, or has none
    kRepeated,  // it has one by an earlier answer
    kUnwanted,  // nobody waits for it: if it serves, the server is to be removed
  };
  Answer OnMade(HostId host, const ServedGroup& group, bool serves);
  // A leg has ended, by the daemon's word. field: of a malformed message; else empty.
  std::optional<Lost> OnEnded(HostId host, const ServedGroup& group, const std::string& field,
                              const std::string& message);
  // The group wants its server no more: the daemon that is to be told, if there is one.
  std::optional<HostId> Remove(const ServedGroup& group);
  // A group of a former manager has a server there, whose daemon has until then to say so.
  void Resume(Ipv4 ip, const ServedGroup& group, const std::string& name, Nanos until);

  // The group has a server, or has asked for one.
  bool Has(const ServedGroup& group) const;

  // Whose time is over.
  std::vector<Lost> Tick(Nanos now);
  // The manager stood still for so long, and has heard nobody: nobody's time has passed.
  void OnStoodStill(Nanos duration);

  // Those whose daemons are here, by address.
  std::vector<Lender> List() const;
  // The daemon of this stream has servers, or is asked for some.
  bool Serves(HostId host) const;
  // By which it serves; nothing if it lends nothing.
  std::optional<Ipv4> AddressOf(HostId host) const;

 private:
  enum class Phase : uint8_t { kAsked, kServing };
  struct Server {
    uint32_t generation = 0;
    std::string name;  // the group's
    Phase phase = Phase::kAsked;
    Nanos away_until = kNever;  // its daemon is not here; kNever: it is
  };
  struct State {
    std::optional<HostId> host;  // its daemon's stream; none: it is not here, or lends no more
    std::string name;
    uint64_t bytes = 0;
    bool port_is_up = true;
    std::map<uint64_t, Server> servers;  // by group id
  };
  using States = std::map<Ipv4, State>;

  State* Find(HostId host);
  // None of them is there any more.
  void LoseAll(Ipv4 ip, State* state, const std::string& why, std::vector<Lost>* lost);
  static Server* FindServer(State* state, const ServedGroup& group);

  States states_;
};

}  // namespace epic::manager
