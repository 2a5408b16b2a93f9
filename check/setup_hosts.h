// Setups of calls between the hosts (--path hosts).
#pragma once

#include "base/status.h"
#include "check/setup.h"

namespace epic::check {

// An error names the first value that calls between the hosts do not have, or that is none of theirs.
Status CheckByHosts(const Setup& setup);

// Makes the calls, which are as long as they are in a tree, those between the hosts: `messages` in each block
// of the ring, or as many elements as fit into a message; and one rank's last call different, if that is
// asked for. Of a setup that CheckByHosts takes.
Status MakeByHosts(const Setup& setup, SystemConfig* config);

// Of the line that replays: "path=hosts ranks=3 ..."
std::string LineByHosts(const Setup& setup);

}  // namespace epic::check
