// One run of scenario `shared`: groups that come and go, placed by the manager's own tables on the switches
// of a virtual-time world, which have room for few. Their calls go by the network with memory of their own,
// with blocks for which they ask, or between the hosts; first while things go wrong, then after the faults
// have ended. At the end nobody has anything left of them.
#pragma once

#include "sim/trial.h"

namespace epic::sim {

// As RunTrial, of a scenario whose plan shares. Wrong is also what the table tells ranks, or gives to
// switches, that cannot be, and what is left of groups when all have ended.
Outcome RunShared(const Scenario& scenario, const TraceSink& trace = {});

// Any scenario: RunShared or RunTrial.
Outcome RunScenario(const Scenario& scenario, const TraceSink& trace = {});

}  // namespace epic::sim
