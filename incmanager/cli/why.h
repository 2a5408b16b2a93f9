// Why a group does not get on, or how it has ended, in a few lines.
#pragma once

#include <string>

#include "proto/manager.pb.h"

namespace epic::manager {

// group: ShowGroup's reply, with how its last life ended.
proto::GroupWhy WhyOf(const proto::GroupState& group);
// A line each.
std::string RenderWhy(const proto::GroupWhy& why);

// "ended 12 s ago: all 4 ranks have left".
std::string EndInWords(const proto::GroupEnd& end);

}  // namespace epic::manager
