// Paths of Unix sockets on which a daemon wants to listen.
#pragma once

#include <string>

#include "base/status.h"

namespace epic::io {

// Makes the path free: removes a socket that nobody listens on, left behind by a process that was killed.
// ALREADY_EXISTS: somebody listens there, or it is no socket. NOT_FOUND: the directory is missing.
// INVALID_ARGUMENT: too long for a socket.
Status ClaimSocketPath(const std::string& path);

}  // namespace epic::io
