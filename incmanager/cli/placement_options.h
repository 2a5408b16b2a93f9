// Options of the commands that place a group, or say where one would be.
#pragma once

#include "base/command_line.h"
#include "incmanager/cli/client.h"

namespace epic::manager {

// Adds the options that decide where a group is placed, and by which path it goes; what is given goes into
// *create, which must live as long as the command line.
void AddPlacementOptions(const Command& command, CreateOptions* create);

}  // namespace epic::manager
