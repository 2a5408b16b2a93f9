// Whom a group by the hosts waits for, and what ranks do that a group waits for, from what ranks say
// themselves (docs/PROTOCOL-CONTROL.md, section 7.3).
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "proto/manager.pb.h"

namespace epic::manager {

// Of a group through switches: ranks that are to be asked what they do; the first eight that it waits for.
std::set<uint32_t> RanksToAsk(const proto::GroupState& group);

// In both: calls is what ranks have answered, asked all that could be asked.

// Of such a group, behind AddWait: adds what these ranks do to `wait` and its words.
void AddDoing(const std::map<uint32_t, proto::CallsMade>& calls, const std::set<uint32_t>& asked,
              proto::GroupState* group);
// Of a group by the hosts: as AddWait and AddDoing. Nothing if nobody could be asked.
void AddHostsWait(const std::map<uint32_t, proto::CallsMade>& calls, const std::set<uint32_t>& asked,
                  proto::GroupState* group);

}  // namespace epic::manager
