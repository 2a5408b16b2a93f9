// The ranks of a group of a world and their calls, whichever way these go: by the network, between the hosts,
// or each by one of the two.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/choices.h"
#include "sim/collectives.h"
#include "sim/hosts_way.h"
#include "sim/path_rank.h"
#include "sim/world.h"

namespace epic::sim {

class GroupRanks {
 public:
  // Carries what a rank says to another through the manager: that it has a queue pair to it, or (ready) that
  // it has posted what the other may send to. Then OnPeerEnd is due. Each is said once, in this order.
  using Say = std::function<void(int rank, int to, bool ready)>;

  // Without a way between the hosts all calls go by the network. The world is borrowed, and so are the
  // choices: of when messages through the manager arrive, if nobody else carries them. Who does carries none
  // of connections that calls by multicast want.
  GroupRanks(World& world, int group, const std::optional<HostsWay>& way, Choices& choices, Say say = {});
  GroupRanks(GroupRanks&&) = default;

  // The rank, which is alive, makes the next of its calls.
  void Start(int rank, CollectiveCall& call);
  // Whether the call goes between the hosts.
  bool IsByHosts(const ControlHeader& header) const;

  // What another rank has said reaches a rank.
  void OnPeerEnd(int rank, int from, bool ready) { at_->OnPeerEnd(rank, from, ready); }

  // As Host's.
  size_t calls(int rank) const { return host(rank).calls(); }
  CallState state(int rank, int call) const { return host(rank).state(call); }
  // Whether the data of a call that ended went between the hosts.
  bool went_by_hosts(int rank, int call) const { return host(rank).went_by_hosts(call); }
  epic::Outcome outcome(int rank, int call) const { return host(rank).outcome(call); }
  RankLife life(int rank) const { return host(rank).life(); }

  // Whether calls between the hosts go by multicast where they can.
  bool by_multicast() const {
    return !at_->ranks.empty() && at_->way.path.algorithm == Algorithm::kMulticast;
  }
  // Of ranks that do: what has become of their datagrams. Where no receive was posted: those of UdCounters.
  MulticastCounts multicast(int rank) const { return host(rank).core().multicast(); }
  uint64_t unposted(int rank) const { return at_->world.peers(rank, at_->group).datagrams().no_recv; }

  // By the rules no datagram comes for which no receive is posted, as long as links keep order and lose nothing,
  // and there is one way between two hosts (docs/PROTOCOL-MULTICAST.md, section 4).
  bool KeepsRoom() const;

  // Every rank that is alive has made so many calls, and all have ended.
  bool Finished(size_t calls) const;
  // Where each rank stands between the hosts, a line each, for failures; empty if none does.
  std::string Standing() const;

 private:
  // Behind a pointer, as actions of the world refer to it.
  struct At {
    World& world;
    int group;
    Choices& choices;
    HostsWay way;
    Say say;
    std::vector<std::unique_ptr<PathRank>> ranks;  // none without a way between the hosts
    std::set<std::pair<int, int>> said = {};       // that a rank has told another of its queue pair

    void Tell(std::function<void()> action);
    void AddRank(int rank);
    void AddDatagrams();
    // Both of connections by the number that the rank has for them.
    void Connect(int rank, int connection);
    void TellReady(int rank, int connection);
    void SayQueuePair(int rank, int to);
    void OnPeerEnd(int rank, int from, bool ready);
    void SetConnected(int rank, int connection);
    void SetReady(int rank, int connection);
    bool IsAlive(int rank) const { return world.host(rank, group).alive(); }
  };
  const Host& host(int rank) const { return at_->world.host(rank, at_->group); }

  std::unique_ptr<At> at_;
};

}  // namespace epic::sim
