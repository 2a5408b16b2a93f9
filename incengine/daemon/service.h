// Serves proto/switch.proto on a Unix socket. Calls come on gRPC's threads, which wait there for the shards'
// answers.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "incengine/daemon/changes.h"
#include "incengine/daemon/sharded_control.h"

namespace epic::daemon {

class ControlServer {
 public:
  // Listens on the socket; its file belongs to this user and group only. UNAVAILABLE if it cannot. control
  // and changes, which are noted of what Describe says of ports, outlive the server, and the loops of
  // control's shards run until it is gone.
  static StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& socket_path,
                                                        ShardedControl& control, Changes& changes);
  // Ends the calls that are under way and removes the socket's file.
  virtual ~ControlServer() = default;
};

}  // namespace epic::daemon
