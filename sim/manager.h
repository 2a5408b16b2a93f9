// The manager of a world's groups when switches or hosts crash (docs/PROTOCOL.md, "Life and death of a
// group"): a group that lost a context or a rank fails everywhere, is removed when the last of its ranks is
// gone, and its ranks make a new one as soon as all they need is up again.
#pragma once

#include <deque>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/choices.h"
#include "sim/trace.h"
#include "sim/world.h"

namespace epic::sim {

struct ManagerOptions {
  Nanos lease = 1;       // longest time from a crash until the manager knows
  Nanos message = 1;     // longest time of a message to a switch or a rank
  Nanos quarantine = 0;  // from when a group is removed until its QPNs may be used again
  // A new group gets the QPNs of the one it is for, as soon as that is removed: what a canary does.
  bool reuses_at_once = false;
};

class Manager {
 public:
  // Told of each new group, when all its switches have it.
  using OnMade = std::function<void(int group)>;

  // World, trace and choices must outlive the world's run.
  Manager(World& world, Trace& trace, Choices& choices, const ManagerOptions& options, OnMade on_made);

  // To be called when it happens, before the world makes it happen: every group with a context on the switch
  // (a rank on the host) will fail within the lease.
  void EngineCrashes(int s);
  void HostDies(int host);

  // No group is about to fail, or to be made anew.
  bool idle() const { return pending_ == 0; }
  // The group has lost something, known to the manager or not: its calls may end in errors.
  bool hit(int group) const { return At(group).hit; }

 private:
  struct Group {
    bool hit = false;
    int ranks_left = 0;     // not yet gone
    int contexts_left = 0;  // not yet removed
  };

  Group& At(int group) { return groups_[static_cast<size_t>(group)]; }
  const Group& At(int group) const { return groups_[static_cast<size_t>(group)]; }
  Nanos Soon(Nanos at_most);
  void Lose(int group, std::string_view why);
  void Fail(int group, std::string_view why);
  void TellRank(int group, int rank, std::string_view why);
  void RankGone(int group);
  void ContextRemoved(int group);
  void MakeAnew(int group);
  Nanos UpAt(const GroupSpec& spec) const;

  World& world_;
  Trace& trace_;
  Choices& choices_;
  const ManagerOptions options_;
  const OnMade on_made_;
  std::vector<Group> groups_;                  // as in the world
  std::deque<std::pair<Nanos, int>> resting_;  // QPNs: until when, and their block; oldest first
  int pending_ = 0;
};

}  // namespace epic::sim
