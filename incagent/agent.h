// The agent of one switch: serves SwitchTable to the manager and passes it on to the engine; registers the
// switch and says once a second that it lives, and at once what has changed at its ports. Never in the data
// path: its end disturbs no running collective.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace epic::agent {

struct AgentOptions {
  std::string name;       // of the switch in the topology
  std::string engine;     // path of the engine's Unix socket
  std::string manager;    // as ManagerAddress takes it
  std::string listen;     // on which SwitchTable is served, as ListenAddress takes it
  std::string advertise;  // told to the manager, as CallableAddress takes it; empty: what listen has got, in numbers
};

class Agent {
 public:
  // Serves and registers on threads of its own; an engine or manager that is away is tried again every
  // second. INVALID_ARGUMENT naming the option, also if there is no such host; UNAVAILABLE if the address cannot be had.
  static StatusOr<std::unique_ptr<Agent>> Start(const AgentOptions& options);
  // Stops serving. The engine keeps its contexts and its forwarding table.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Where it serves, as told to the manager.
  std::string address() const;

 private:
  class Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace epic::agent
