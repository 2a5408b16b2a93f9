// What a seed of scenario `shared` chooses: a network with little memory in its switches, and jobs that come
// and go on it.
#pragma once

#include <string>
#include <vector>

#include "incmanager/groups/group_life.h"
#include "sim/faults.h"
#include "sim/scenario.h"
#include "sim/shared/control.h"
#include "sim/trial.h"
#include "sim/world.h"

namespace epic::sim {

// One group and its lives.
struct Job {
  manager::GroupSpec spec;
  bool reserved = false;       // by the operator; else its ranks say what they want
  std::vector<int> rank_host;  // several ranks may be on one host
  int lives = 1;               // one after the other, however each ends
  Nanos begin = 0;
  Nanos pause = 0;  // longest between two lives
};

// One end of the manager, and how long it is away.
struct Restart {
  Nanos pause = 0;    // from when it had started
  int commit = 0;     // then at the so manieth thing that its store is asked to keep; 0: at once
  bool kept = false;  // when that is kept, and nobody has been told of it; else before
  Nanos away = 0;
};

struct SharedShape {
  explicit SharedShape(const Scenario& scenario);

  Choices choices;
  WorldConfig config;
  ControlOptions control;
  FaultRates faults;  // until faults_end
  Nanos faults_end = 0;
  Nanos spread = 0;        // longest between a rank's calls, and of what else a rank waits
  uint64_t max_count = 0;  // of a call's elements
  int calls = 0;           // of each life
  bool changes_windows = false;
  // Most groups ask for blocks of one size, which they share.
  bool crowded = false;
  manager::Policy default_policy = manager::Policy::kShortest;
  std::vector<manager::Tenant> tenants;
  std::vector<Job> jobs;
  std::vector<Crash> crashes;
  Nanos look_after = 0;  // at least between two looks at what ranks have done
  Nanos bound = kLivenessBound;
  // Of a manager that dies and comes back.
  std::vector<Restart> restarts;
  Nanos commit = 1;  // longest time of its store
  Nanos again = 1;   // until a rank that has lost it tries again; twice as long each time
  Nanos beat = 1;    // between two words of an agent

 private:
  void ChooseNetwork(const Scenario& scenario);
  void ChooseTenants();
  void ChooseCrashes();
  void ChooseRestarts();
  Job ChooseJob(const Scenario& scenario, int number);
  void ChoosePolicy(manager::GroupSpec* spec);
  void ChooseModes(const Scenario& scenario, manager::GroupSpec* spec);
  bool OneIn(uint64_t n) { return choices.Below(n) == 0; }
};

}  // namespace epic::sim
