// Counting wake-ups through an eventfd.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace epic::io {

// Adds one to the counter, which makes the descriptor readable. Fails only when the counter is full, and then
// it is readable anyway.
inline void SignalEventFd(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

// Takes the counter (one of it, if the descriptor was made with EFD_SEMAPHORE). Blocks while it is 0, unless
// the descriptor is non-blocking. False with errno.
inline bool TakeEventFd(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof count) == sizeof count;
}

}  // namespace epic::io
