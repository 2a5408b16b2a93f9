// What a thread has had of processors, as Linux tells (proc(5)): who waited for one was not silent, and did not listen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"

namespace epic {

// By /proc/PID/task/TID. In ns.
struct ThreadTime {
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;  // until it last ran: the kernel adds a wait when it ends
  bool runnable = false;
};

// Of the thread with this folder (/proc/PID/task/TID). Nothing if it has ended, be it while it is looked at.
std::optional<ThreadTime> TimeOf(const std::string& folder);

// How long a thread has waited for a processor since `before`, which was `passed` ago. One that is runnable and has not run has
// waited all the time.
Nanos WaitedSince(const ThreadTime& before, const ThreadTime& now, Nanos passed);

// How long the calling thread has waited for a processor since it began; 0 where the kernel does not say. Needs no memory; takes
// some 10 us.
Nanos OwnWait();

}  // namespace epic
