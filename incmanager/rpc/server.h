// The manager's gRPC server.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "incmanager/graph/graph.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/store/store.h"
#include "incmanager/topology.h"

namespace epic::manager {

class ManagerServer {
 public:
  // Serves on listen ("IP:PORT"; port 0: any) on threads of its own. store: where it keeps what is to outlive it, and
  // has it from; null: nowhere. UNAVAILABLE if the address cannot be had; errors of the store, and DATA_LOSS if it
  // cannot be read.
  static StatusOr<std::unique_ptr<ManagerServer>> Start(const Topology& topology, const GroupOptions& options,
                                                        const std::string& listen,
                                                        const LinkDefaults& defaults = {},
                                                        std::unique_ptr<Store> store = nullptr);
  // Ends all sessions; the ranks see the manager as lost. Contexts stay on the switches until they register
  // again.
  ~ManagerServer();
  ManagerServer(const ManagerServer&) = delete;
  ManagerServer& operator=(const ManagerServer&) = delete;

  int port() const { return port_; }

 private:
  struct Impl;
  ManagerServer();
  std::unique_ptr<Impl> impl_;
  int port_ = 0;
};

}  // namespace epic::manager
