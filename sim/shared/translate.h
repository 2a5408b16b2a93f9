// What the manager's plain values mean to a world's engines and hosts: here in place of gRPC and the agents.
#pragma once

#include "incengine/state/config.h"
#include "incmanager/engine_report.h"
#include "incmanager/groups/plan.h"
#include "incmanager/topology.h"
#include "sim/world.h"

namespace epic::sim {

// The world's network as its operator describes it: nodes by their numbers, ports by theirs. The world
// forwards from now on.
manager::Topology TopologyOf(World& world, const WorldConfig& config);

// What the engine of a switch says of itself. arena_bytes: as it states them; 0: it does not.
manager::EngineReport ReportOf(const World& world, const manager::Topology& topology, manager::NodeId node,
                               uint64_t arena_bytes);

// A context as its engine is given it.
engine::GroupConfig ConfigOf(const manager::ContextPlan& context);

// A rank's queue pair to its switch, as the rank makes it when it has joined; of a group between the hosts
// one that nobody sends to.
HostConfig EndOf(const manager::JoinRequest& join, const manager::JoinedReply& reply);

}  // namespace epic::sim
