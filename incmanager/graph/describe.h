// The live graph as a file, for people and for `incmanager serve --topology`.
#pragma once

#include <string>

#include "incmanager/topology.h"

namespace epic::manager {

// What is known now, in the form that ParseTopology reads: links that are gone are left out, and what has no
// link or no address; those that are down have a comment; of two at one port the second is a comment.
std::string ToYaml(const Topology& topology);

}  // namespace epic::manager
