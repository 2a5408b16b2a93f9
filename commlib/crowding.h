// Whether more threads of this machine want to run than it has processors.
//
// Polling then delays whoever could end the wait: sched_yield gives the core only to threads of the same
// scheduling group (of one session or control group, with Linux' group scheduling), and sleeping gives it to
// all.
#pragma once

#include <optional>
#include <string_view>

#include "base/types.h"

namespace epic::internal {

// Threads that run or could run, from the text of /proc/loadavg: of "0.52 0.58 0.59 3/870 1234" 3.
std::optional<int> RunnableThreads(std::string_view loadavg);

// Not thread-safe.
class Crowding {
 public:
  Crowding();
  ~Crowding();
  Crowding(const Crowding&) = delete;
  Crowding& operator=(const Crowding&) = delete;

  // Looks at most every 50 us, or every millisecond while it is crowded; a look takes a microsecond. False
  // also where the kernel does not say.
  bool IsCrowded(Nanos now);

 private:
  int fd_;  // /proc/loadavg, or -1
  int processors_;
  bool crowded_ = false;
  Nanos look_at_ = 0;
};

}  // namespace epic::internal
