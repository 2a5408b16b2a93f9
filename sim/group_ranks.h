// The ranks of a group of a world and their calls, whichever way these go: by the network, between the hosts,
// or each by one of the two.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/choices.h"
#include "sim/collectives.h"
#include "sim/hosts_way.h"
#include "sim/path_rank.h"
#include "sim/world.h"

namespace epic::sim {

class GroupRanks {
 public:
  // Without a way between the hosts all calls go by the network. The world is borrowed, and so are the
  // choices: of when messages through the manager arrive.
  GroupRanks(World& world, int group, const std::optional<HostsWay>& way, Choices& choices);
  GroupRanks(GroupRanks&&) = default;

  // The rank, which is alive, makes the next of its calls.
  void Start(int rank, CollectiveCall& call);
  // Whether the call goes between the hosts.
  bool IsByHosts(const ControlHeader& header) const;

  // As Host's, of the calls of both ways.
  size_t calls(int rank) const;
  CallState state(int rank, int call) const;
  epic::Outcome outcome(int rank, int call) const;
  RankLife life(int rank) const { return host(rank).life(); }
  // Of ranks that have connections with each other.
  const PathRank& path_rank(int rank) const { return *at_->ranks[static_cast<size_t>(rank)]; }

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
    std::vector<std::unique_ptr<PathRank>> ranks;  // none without a way between the hosts

    void Tell(std::function<void()> action);
    void Connect(int a, int b);
    void SetConnected(int rank, int peer);
    void SetReady(int rank, int peer);
    bool IsAlive(int rank) const { return world.host(rank, group).alive(); }
  };
  const Host& host(int rank) const { return at_->world.host(rank, at_->group); }

  std::unique_ptr<At> at_;
};

}  // namespace epic::sim
