// What an exploration is going to cost, from how it begins: an order of magnitude.
#pragma once

#include <cstdint>
#include <span>

#include "check/model.h"

namespace epic::check {

// Steps of one run without faults, from the first call to the last acknowledgement: about how deep the states
// lie that nothing goes wrong before.
int64_t StepsOfARun(Model& model);

// How many states there are, when a search by breadth has found layers of these sizes and a run has so many
// steps. Their logarithms are taken to lie on a parabola, through the first layer, the widest of these, and
// the end of a run with its repairs: interleavings of many short sequences are about binomial. Once twenty
// thousand states are known that was within a factor of ten of what the configurations of docs/PROOF.md came
// to; more are better. Nothing is known of a search without layers: 0.
double EstimatedStates(std::span<const uint64_t> layers, int64_t run_steps);

}  // namespace epic::check
