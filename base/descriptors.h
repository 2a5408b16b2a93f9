// How many files and sockets this process may have open.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace epic {

// Now; another caller may change it.
inline size_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

// As many as may be without more rights: the soft limit, 1,024 by custom, is for programs that use select().
// Returns how many that are.
inline size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  return DescriptorLimit();
}

}  // namespace epic
