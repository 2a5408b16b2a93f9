// Loads the library of groups.
#pragma once

#include <memory>
#include <string>

#include "mpi/group/group.h"

namespace epic::mpi {

// A group that has not been joined, from the library beside the object that this code is in; or null and why
// not. `softnic` is the file of a libibverbs that is loaded before, in place of the system's; empty: the
// system's. All calls of a process give the same one.
std::unique_ptr<Group> MakeGroup(const std::string& softnic, std::string* why_not);

}  // namespace epic::mpi
