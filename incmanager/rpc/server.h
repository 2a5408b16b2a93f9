// The manager's gRPC server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "incmanager/graph/graph.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/rpc/committer.h"
#include "incmanager/store/store.h"
#include "incmanager/topology.h"

namespace epic::manager {

class ManagerServer {
 public:
  // Called on a thread of its own when nobody answers at the manager's address any more; need not return.
  using OnDeaf = std::function<void(const std::string& why)>;
  // Serves on listen (as ListenAddress takes it) on threads of its own. store: where it keeps what is to outlive
  // it, and has it from; null: nowhere. INVALID_ARGUMENT if listen is no address; NOT_FOUND, UNAVAILABLE if it
  // cannot be had; errors of the store, and DATA_LOSS if it cannot be read.
  static StatusOr<std::unique_ptr<ManagerServer>> Start(
      const Topology& topology, const GroupOptions& options, const std::string& listen,
      const LinkDefaults& defaults = {}, std::unique_ptr<Store> store = nullptr,
      OnDeaf deaf = [](const std::string&) {}, const CommitTimes& times = {});
  // Ends all sessions; the ranks see the manager as lost. Contexts stay on the switches until they register
  // again. False if its store hangs: then this object cannot go, and its process can only end as a whole.
  bool End();
  // As End, but waits for a store that hangs.
  ~ManagerServer();
  ManagerServer(const ManagerServer&) = delete;
  ManagerServer& operator=(const ManagerServer&) = delete;

  int port() const { return port_; }
  // How many registrations and heartbeats of agents it has taken so far.
  uint64_t agents_heard() const;
  // Only with a store of several managers: it is another one's to write from now on, and nobody is told
  // anything more.
  void GiveWay();

 private:
  struct Impl;
  ManagerServer();
  std::unique_ptr<Impl> impl_;
  int port_ = 0;
};

}  // namespace epic::manager
