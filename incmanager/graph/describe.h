// The live graph as a file, for people and for `incmanager serve --topology`.
#pragma once

#include <functional>
#include <string>

#include "incmanager/topology.h"

namespace epic::manager {

// What is known now, in the form that ParseTopology reads: links that are gone are left out, and what has no
// link or no address; those that are down have a comment, which differs where has_carriers says that neither end lacks its
// carrier; of two at one port the second is a comment.
std::string ToYaml(const Topology& topology, const std::function<bool(LinkEnd end)>& has_carriers);

}  // namespace epic::manager
