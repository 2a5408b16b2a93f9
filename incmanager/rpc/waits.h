// Whom a group waits for, from what the switches of its tree say (docs/PROTOCOL.md, section 7.3).
#pragma once

#include <map>
#include <string>

#include "proto/manager.pb.h"

namespace epic::manager {

// dumps: of the switches of the group's tree, by name, as far as they have answered; each with the group as
// the only one. Sets `tells_waits`, and `wait` if a call is open. If no switch of it answers, `wait` says so,
// with the call -1; nothing if one answers and none can tell.
void AddWait(const std::map<std::string, proto::DumpReply>& dumps, proto::GroupState* group);

}  // namespace epic::manager
