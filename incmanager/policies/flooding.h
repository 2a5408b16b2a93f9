// The spanning tree by which broadcast and multicast go. Pure functions.
#pragma once

#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/topology.h"

namespace epic::manager {

// Sets the flood ports of all tables: those to hosts, and those of links that together are free of loops.
// They join all switches that links join, by links over which frames pass as far as these reach. Links that
// both ends flood in the former tables, if any are given, go first, so that little moves.
void SetFloodPorts(const Topology& topology, const std::vector<Forwarding>* former,
                   std::vector<Forwarding>* tables);

// Takes out of the ports of groups those that do not flood. A frame to a group, wherever all tables are so,
// goes nowhere where a flooded one would not go.
void KeepWithinFloodPorts(Forwarding* table);

// Links whose both ends flood by these tables, by their lesser end: those over which a flooded frame goes on.
std::vector<LinkEnd> FloodedLinks(const Topology& topology, const std::vector<Forwarding>& tables);

}  // namespace epic::manager
