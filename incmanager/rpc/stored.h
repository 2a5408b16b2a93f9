// Between a group that runs and its row in the store (proto/store.proto): pure functions, both ways. Nodes
// and links are named there, since their numbers are another manager's.
#pragma once

#include <string>

#include "base/status.h"
#include "incmanager/groups/group.h"
#include "incmanager/topology.h"
#include "proto/store.pb.h"

namespace epic::manager {

// Of a group that runs. What only people look at and ranks say again (windows, counts of datagrams, ends of
// connections) is not in it.
proto::StoredGroup ToStored(const Topology& topology, const Group& group);
// NOT_FOUND naming a node or a port that the topology has not, or INVALID_ARGUMENT naming what contradicts
// itself.
StatusOr<Group> FromStored(const Topology& topology, const proto::StoredGroup& stored);

}  // namespace epic::manager
