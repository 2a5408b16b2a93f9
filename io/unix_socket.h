// Paths of Unix sockets on which a daemon listens, or wants to.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/status.h"

namespace epic::io {

// Makes the path free: removes a socket that nobody listens on, left behind by a process that was killed. Makes its directory, with
// mode 0755, where that alone is missing, as /run/epic is after a boot.
// ALREADY_EXISTS: somebody listens there, or it is no socket. NOT_FOUND, PERMISSION_DENIED: the directory is missing, and cannot be
// made. INVALID_ARGUMENT: too long for a socket.
Status ClaimSocketPath(const std::string& path);

// The process that listens at a path: the one that called listen() last; 0 where somebody listens and it is not to be had (more
// want to be heard than it has taken so far). None: nobody does. Waits for nothing.
std::optional<pid_t> ListenerAt(const std::string& path);

}  // namespace epic::io
