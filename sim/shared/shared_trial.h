// One run of scenario `shared`: groups that come and go, placed by the manager's own tables on the switches
// of a virtual-time world, which have room for few. Their calls go by the network with memory of their own,
// with blocks for which they ask, or between the hosts; first while things go wrong, then after the faults
// have ended. At the end nobody has anything left of them.
#pragma once

#include <functional>
#include <memory>

#include "sim/shared/jobs.h"
#include "sim/shared/world_manager.h"
#include "sim/trial.h"

namespace epic::sim {

// The manager of a run. What is given outlives it.
using MakeManager =
    std::function<std::unique_ptr<WorldManager>(World& world, SharedShape& shape, RankSessions& ranks)>;

// As RunTrial, of a scenario whose plan shares. Wrong is also what the manager tells ranks, or gives to
// switches, that cannot be, and what is left of groups when all have ended. make: null for the tables alone
// (sim/shared/control.h); what other managers do is theirs to say.
Outcome RunShared(const Scenario& scenario, const TraceSink& trace = {}, const MakeManager& make = nullptr);

}  // namespace epic::sim
