// Where a communicator's options come from: the call, else EPIC_* variables, else those of the usual
// launchers.
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "epic/epic.h"

namespace epic::internal {

// Fills in what `options` leaves open and checks the result: afterwards every field is set, except ifname
// (empty: any), join_timeout (0: the manager's default), path (kDefault: as the group was created) and, of a
// group of one rank that does not ask for the network, manager; and no timeout is longer than 10^9 s.
// kInvalidArgument names the option and the variable.
// With `options.environment` false the environment is not asked. host_daemon: the manager where nobody says
// one, as HostDaemon().
Error ResolveOptions(const GetEnv& environment, Options* options, const std::string& host_daemon = "");

// The address of this host's daemon (inchost), "unix:/run/epic/host.sock"; empty if it has none.
std::string HostDaemon();

// The names of EPIC_ variables in `environment` ("NAME=value" strings) that this library does not know.
std::vector<std::string> UnknownVariables(const char* const* environment);

}  // namespace epic::internal
