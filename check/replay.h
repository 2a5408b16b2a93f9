// Runs one sequence of steps, and makes a sequence that shows a violation shorter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/model.h"

namespace epic::check {

struct Told {
  std::vector<std::string> steps;  // what each did, in words
  size_t possible = 0;             // so many of them could be made
  std::optional<Breach> breach;    // by the last one made
  bool done = false;               // the calls have ended
};

Told Run(Model& model, const std::vector<Action>& steps);

// Leaves out what can be left out while the last step still breaks the invariant that it breaks: no single
// step and no run of steps of a power-of-two length can be taken from what is returned.
std::vector<Action> Minimise(Model& model, std::vector<Action> steps);

}  // namespace epic::check
