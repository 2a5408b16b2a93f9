// The daemon of one host (EPIC paper, section 3.3.1): registers the host's RoCE ports at the manager, and
// carries the sessions of all ranks of the host in its one stream. Never in the data path.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace epic::host {

struct HostOptions {
  std::string name;     // of this host; empty: as the kernel says
  std::string manager;  // as ManagerAddress takes it
  std::string socket;   // path of the Unix socket that ranks connect to
  std::string version;
  uint64_t fallback_bytes = 0;  // that this host lends to groups of mode V; 0: none
  std::string fallback_ifname;  // by whose RoCE port it serves them; empty: the first
  Nanos manager_wait;  // how long a rank waits for a manager that is away, above 0
};

class Daemon {
 public:
  // Serves ranks and speaks to the manager on threads of its own; a manager that is away is tried again every
  // second. INVALID_ARGUMENT naming the option, also if there is no such host; ALREADY_EXISTS if another
  // process listens on this socket, NOT_FOUND if its folder is missing, UNAVAILABLE if it cannot be had. If
  // it lends memory also the errors of Servers::Open.
  static StatusOr<std::unique_ptr<Daemon>> Start(const HostOptions& options);
  // Ends all sessions and removes the socket.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace epic::host
