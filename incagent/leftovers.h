// What an agent makes of the manager's answer to its registration.
#pragma once

#include <chrono>
#include <vector>

#include "proto/manager.pb.h"

namespace epic::agent {

inline constexpr std::chrono::milliseconds kMinHeartbeat{100}, kMaxHeartbeat{60000};

// The time between two heartbeats: what the manager asks for, within kMinHeartbeat and kMaxHeartbeat, for an
// agent that is told a day would not be heard of again.
std::chrono::milliseconds HeartbeatInterval(const proto::RegisterReply& reply);

// Has the engine, as it described itself before the agent registered, groups that the manager does not know?
bool HasLeftovers(const proto::EngineInfo& engine, const proto::RegisterReply& reply);

// Those groups as they are in `dump`, which was taken after the answer and holds what is returned: groups
// that are only in it came later and stay.
std::vector<const proto::GroupConfig*> Leftovers(const proto::EngineInfo& engine,
                                                 const proto::RegisterReply& reply,
                                                 const proto::DumpReply& dump);

}  // namespace epic::agent
