// How much of the processors this process's session gets from Linux's scheduler beside others.
#pragma once

#include <string>

#include "base/status.h"

namespace epic::io {

// Where Linux groups processes by session (autogroups, kernel.sched_autogroup_enabled), sets the nice value
// of this session's group, -20 to 19; that of a process counts only among those of its session. `file` is
// /proc/self/autogroup, or one like it. An error says why it is as it was: the session is another process's
// (kFailedPrecondition), the right is missing (kPermissionDenied; below 0 CAP_SYS_NICE), or the kernel has no
// such groups (kNotFound).
Status SetAutogroupNice(int nice, const std::string& file = "/proc/self/autogroup");

}  // namespace epic::io
