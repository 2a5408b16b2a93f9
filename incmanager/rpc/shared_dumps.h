// Dumps of groups at switches, and what ranks say of their calls, shared by all who ask for them at about the
// same time; and how long they are waited for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "incmanager/rpc/shared_questions.h"
#include "proto/manager.pb.h"
#include "proto/switch.pb.h"

namespace epic::manager {

// How long switches, or ranks, are waited for on behalf of who has so much time left, or none: the rest is for
// the answer's way, and for a machine that is busy.
inline std::chrono::nanoseconds PatienceOf(std::chrono::nanoseconds left, std::chrono::seconds most) {
  return std::clamp<std::chrono::nanoseconds>(left / 4 * 3, std::chrono::nanoseconds(0), most);
}

// By the switch's name.
using SharedDumps = SharedQuestions<std::string, proto::DumpReply>;
// By rank.
using SharedCalls = SharedQuestions<uint32_t, proto::CallsMade>;

}  // namespace epic::manager
