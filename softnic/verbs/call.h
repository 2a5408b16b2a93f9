// The way into a verb and out of it, the same for each that may fail:
//
// - What a child of fork has inherited is refused with EIO before any lock or memory of it is touched, as the
//   kernel's verbs refuse what belongs to a device that has gone.
// - No C++ exception leaves: memory that is not to be had, or a thread, becomes an errno. (Others than the
//   standard's pass, since the C library cancels threads by one.)
#pragma once

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

#include "base/fork.h"
#include "softnic/verbs/abi.h"

namespace epic::softnic {

inline bool IsInherited(ibv_context* context) { return Of(context)->fork_depth != ForkDepth(); }

// Returns action(), or `failed(errno)`.
template <typename Action, typename Failed>
auto Caught(Action action, Failed failed) -> decltype(action()) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return failed(ENOMEM);
  } catch (const std::system_error& e) {
    return failed(e.code().value());
  } catch (const std::exception&) {
    return failed(EIO);
  }
}

// For verbs that return an errno.
template <typename Action>
int ErrnoOf(ibv_context* context, Action action) {
  return IsInherited(context) ? EIO : Caught(action, [](int error) { return error; });
}

// For verbs that return an object, or null and errno.
template <typename Action>
auto ObjectOf(Action action) -> decltype(action()) {
  return Caught(action, [](int error) { return Null(error); });
}
template <typename Action>
auto ObjectOf(ibv_context* context, Action action) -> decltype(action()) {
  return IsInherited(context) ? Null(EIO) : ObjectOf(action);
}

// For verbs that return a count or 0, or -1 and errno.
template <typename Action>
int CountOf(ibv_context* context, Action action) {
  const auto minus_1 = [](int error) {
    errno = error;
    return -1;
  };
  return IsInherited(context) ? minus_1(EIO) : Caught(action, minus_1);
}

}  // namespace epic::softnic
