#include "sim/restarts/restarts_trial.h"

#include <memory>

#include "base/check.h"
#include "sim/restarts/kept_manager.h"
#include "sim/shared/shared_trial.h"

namespace epic::sim {

Outcome RunRestarts(const Scenario& scenario, const TraceSink& trace) {
  EPIC_CHECK(PlanNamed(scenario.name).restarts);
  return RunShared(scenario, trace, [](World& world, SharedShape& shape, RankSessions& ranks) {
    return std::make_unique<KeptManager>(world, shape, shape.choices, ranks);
  });
}

Outcome RunScenario(const Scenario& scenario, const TraceSink& trace) {
  const FaultPlan& plan = PlanNamed(scenario.name);
  if (plan.restarts) return RunRestarts(scenario, trace);
  return plan.shares ? RunShared(scenario, trace) : RunTrial(scenario, trace);
}

}  // namespace epic::sim
