// Invariant checks that stay on in release builds: a broken invariant stops the process before it can do
// harm. Not for bad packets (those are a DropReason) nor for bad requests (those are a Status).
#pragma once

namespace epic::internal {
// Prints the place and the condition to stderr, then aborts; or calls the handler that was set.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

// For programs that look for broken invariants: called instead; must not return (it may throw, which leaves
// what was running in an undefined state). Null sets things back. Not thread-safe.
using CheckHandler = void (*)(const char* file, int line, const char* condition);
void SetCheckHandler(CheckHandler handler);
}  // namespace epic::internal

#define EPIC_CHECK(condition)                                        \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::epic::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
