// incmanager serve: runs the manager until SIGTERM or SIGINT.
#pragma once

#include <string>

#include "incmanager/graph/graph.h"
#include "incmanager/groups/group_life.h"

namespace epic::manager {

struct ServeOptions {
  std::string topology;  // file; empty: all is discovered
  LinkDefaults links;    // of discovered ones
  std::string listen = "127.0.0.1:7400";
  std::string log_level = "info";
  // Folder, "memory" for none, "etcd:..." if one of several leads; empty: kDefaultStore if it is there, else
  // none.
  std::string store;
  GroupOptions groups;
};

// Returns an exit code: 0 after a signal, kExitRefused if it cannot serve or its store is not good, kExitUsage if the topology is not
// good.
int Serve(const ServeOptions& options);

}  // namespace epic::manager
