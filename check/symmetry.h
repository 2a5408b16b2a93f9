// Symmetry: nodes that the system cannot tell apart. States that differ by which of them plays which part are
// explored once (Ip and Dill, "Better Verification Through Symmetry", 1996).
#pragma once

#include <vector>

#include "check/system.h"

namespace epic::check {

// Node n becomes [n].
using Relabelling = std::vector<int>;

// Every relabelling of the nodes that leaves the tree, the modes and the roots of calls as they are, the
// identity first. Only the identity where something else tells nodes apart: a part of the data for each rank,
// or a mode whose row does not say that children are alike (protocol/modes.h); of several groups; and where
// there would be more than kMostRelabellings.
inline constexpr size_t kMostRelabellings = 128;
std::vector<Relabelling> Symmetries(const System& system);

}  // namespace epic::check
