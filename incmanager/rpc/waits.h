// Whom a group waits for, from what the switches of its tree say (docs/PROTOCOL-CONTROL.md, section 7.3).
#pragma once

#include <map>
#include <string>

#include "proto/manager.pb.h"

namespace epic::manager {

// dumps: of the switches of the group's tree, by name, as far as they have answered; each with the group as
// the only one. Sets `tells_waits`, and `wait` if a call is open. If no switch of it answers, `wait` says so,
// with the call -1; nothing if one answers and none can tell.
void AddWait(const std::map<std::string, proto::DumpReply>& dumps, proto::GroupState* group);

using Ranks = google::protobuf::RepeatedField<uint32_t>;
// "ranks 0, 2, 3", "rank 1 (h1)", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 120 others".
std::string RanksInWords(const Ranks& ranks, const proto::GroupState* with_hosts = nullptr);
// All of a wait but its words, and what its ranks do, in a line.
std::string WaitInWords(const proto::GroupState& group, const proto::CallWait& wait);

}  // namespace epic::manager
