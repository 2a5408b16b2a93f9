// Between the values of the simulation and what ranks, agents and the manager say on the wire.
#pragma once

#include "incmanager/engine_report.h"
#include "incmanager/failure.h"
#include "incmanager/groups/plan.h"
#include "proto/manager.pb.h"

namespace epic::sim {

// As the library says it: the rank comes back, and is known by the nonce, which is not 0.
proto::ClientMessage JoinMessage(const manager::JoinRequest& join, uint64_t nonce);
proto::ClientMessage RejoinMessage(const manager::JoinRequest& join, const proto::Joined& joined);
// As an engine describes itself; without its contexts and whose it is.
proto::EngineInfo InfoOf(const manager::EngineReport& report);
manager::Failure FailureOf(const proto::Failure& failure);

}  // namespace epic::sim
