#include "sim/manager.h"

#include <algorithm>

namespace epic::sim {

Manager::Manager(World& world, Trace& trace, Choices& choices, const ManagerOptions& options, OnMade on_made)
    : world_(world), trace_(trace), choices_(choices), options_(options), on_made_(std::move(on_made)) {
  groups_.resize(static_cast<size_t>(world.groups()));
}

Nanos Manager::Soon(Nanos at_most) {
  return world_.now() + 1 + static_cast<Nanos>(choices_.Below(static_cast<uint64_t>(at_most)));
}

void Manager::EngineCrashes(int s) {
  for (int g = 0; g < world_.groups(); ++g) {
    if (world_.HasContext(s, g)) Lose(g, "switch_lost");
  }
}

void Manager::HostDies(int host) {
  for (int g = 0; g < world_.groups(); ++g) {
    for (int r = 0; r < world_.ranks(g); ++r) {
      if (world_.spec(g).rank_host[static_cast<size_t>(r)] == host && world_.host(r, g).alive())
        Lose(g, "rank_lost");
    }
  }
}

// What takes more from a group that has lost something already changes nothing.
void Manager::Lose(int group, std::string_view why) {
  if (At(group).hit) return;
  At(group).hit = true;
  ++pending_;
  world_.At(Soon(options_.lease), [this, group, why] { Fail(group, why); });
}

void Manager::Fail(int group, std::string_view why) {
  trace_.GroupFailed(world_.now(), group, why);
  At(group).ranks_left = world_.ranks(group);
  for (int s = 0; s < world_.switches(); ++s) {
    if (world_.HasContext(s, group))
      world_.At(Soon(options_.message), [this, s, group] { world_.FailContext(s, group); });
  }
  for (int r = 0; r < world_.ranks(group); ++r)
    world_.At(Soon(options_.message), [this, group, r, why] { TellRank(group, r, why); });
}

void Manager::TellRank(int group, int rank, std::string_view why) {
  Host& host = world_.host(rank, group);
  const Nanos up_at = world_.host_up_at(world_.spec(group).rank_host[static_cast<size_t>(rank)]);
  if (host.alive() && up_at > world_.now())
    return world_.At(up_at, [this, group, rank, why] { TellRank(group, rank, why); });
  if (host.alive()) {
    world_.AbortRank(rank, group);
    trace_.Aborted(world_.now(), group, rank, why);
  }
  RankGone(group);
}

// The last one has gone: the ranks make a new group, while the old one is being removed.
void Manager::RankGone(int group) {
  if (--At(group).ranks_left > 0) return;
  At(group).contexts_left = world_.switches();
  for (int s = 0; s < world_.switches(); ++s) {
    world_.At(Soon(options_.message), [this, s, group] {
      world_.RemoveContext(s, group);
      ContextRemoved(group);
    });
  }
  if (!options_.reuses_at_once) world_.At(Soon(options_.message), [this, group] { MakeAnew(group); });
}

void Manager::ContextRemoved(int group) {
  if (--At(group).contexts_left > 0) return;
  if (options_.reuses_at_once) return MakeAnew(group);
  resting_.emplace_back(world_.now() + options_.quarantine, *world_.spec(group).qpns);
}

Nanos Manager::UpAt(const GroupSpec& spec) const {
  Nanos at = 0;
  for (int s = 0; s < world_.switches(); ++s) {
    if (world_.IsInTree(s, spec)) at = std::max(at, world_.switch_up_at(s));
  }
  for (const int host : spec.rank_host) at = std::max(at, world_.host_up_at(host));
  return at;
}

void Manager::MakeAnew(int group) {
  GroupSpec spec = world_.spec(group);
  if (const Nanos up_at = UpAt(spec); up_at > world_.now())
    return world_.At(up_at, [this, group] { MakeAnew(group); });
  if (!options_.reuses_at_once) {
    spec.qpns.reset();
    if (!resting_.empty() && resting_.front().first <= world_.now()) {
      spec.qpns = resting_.front().second;
      resting_.pop_front();
    }
  }
  const int made = world_.AddGroup(spec);
  groups_.emplace_back();
  --pending_;
  trace_.GroupMade(world_.now(), made, group, *world_.spec(made).qpns);
  on_made_(made);
}

}  // namespace epic::sim
