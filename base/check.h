// Invariant checks that stay on in release builds: a broken invariant stops the process before it can do
// harm. Not for bad packets (those are a DropReason) nor for bad requests (those are a Status).
#pragma once

namespace epic::internal {
// Prints the place and the condition to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace epic::internal

#define EPIC_CHECK(condition)                                        \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::epic::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
