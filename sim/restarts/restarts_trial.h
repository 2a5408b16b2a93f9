// One run of scenario `restarts`: `shared`, but that the manager is the shipped ManagerState with a store,
// which dies and comes back, while messages between it and ranks, agents and switches are late, lost with it
// and said again.
#pragma once

#include "sim/trial.h"

namespace epic::sim {

// As RunShared. Wrong is also what ranks are told that has not been kept, a manager that does not know what a
// former one has told, two ends of one group, an id that comes twice, and a group that ends without a reason
// of its own.
Outcome RunRestarts(const Scenario& scenario, const TraceSink& trace = {});

// Any scenario: RunRestarts, RunShared or RunTrial.
Outcome RunScenario(const Scenario& scenario, const TraceSink& trace = {});

}  // namespace epic::sim
