// The shapes of networks by name, as replay lines have them.
#pragma once

#include <string>

#include "base/status.h"
#include "sim/tree.h"

namespace epic::sim {

// More ranks' sums would not be exact in BF16 (collectives.h).
inline constexpr int kMaxHosts = 16;

// "star-N" (2 to 16 hosts), "tree-S-F" (S switches, each with F children: tree-3-2, tree-7-2, tree-4-3),
// "spine-S-L-F" (S spines, of which groups that the world plans use the first, above L leaves with F hosts
// each), "uneven", "interleaved". An error says what there is.
StatusOr<TreeSpec> TopologyNamed(const std::string& name);

}  // namespace epic::sim
