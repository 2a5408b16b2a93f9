// Serves proto/switch.proto on a Unix socket. Calls come on gRPC's threads; each runs as a closure on the
// loop's.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "incengine/daemon/control.h"
#include "io/event_loop.h"

namespace epic::daemon {

class ControlServer {
 public:
  // Listens on the socket; its file belongs to this user and group only. UNAVAILABLE if it cannot. loop and
  // control outlive the server, and the loop runs until it is gone.
  static StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& socket_path, io::EventLoop& loop,
                                                        SwitchControl& control);
  // Ends the calls that are under way and removes the socket's file.
  virtual ~ControlServer() = default;
};

}  // namespace epic::daemon
