// What an agent checks before it bothers its engine: every message is INVALID_ARGUMENT and names the field.
#pragma once

#include "base/status.h"
#include "proto/switch.pb.h"

namespace epic::agent {

// engine: of its last description (ports, children, path MTU).
Status CheckGroup(const proto::GroupConfig& group, const proto::EngineInfo& engine);
Status CheckForwarding(const proto::ForwardingTable& table, const proto::EngineInfo& engine);
Status CheckProbe(const proto::ProbeRequest& probe, const proto::EngineInfo& engine);
Status CheckLocate(const proto::LocateRequest& locate);

}  // namespace epic::agent
