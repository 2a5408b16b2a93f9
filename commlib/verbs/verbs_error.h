// What a verb says that fails.
#pragma once

#include <fmt/format.h>

#include <cstring>

#include "epic/epic.h"

namespace epic::verbs {

// "cannot create a queue pair: Cannot allocate memory"; `error` is an errno.
inline Error VerbsError(ErrorCode code, const char* what, int error) {
  return {code, fmt::format("{}: {}", what, std::strerror(error))};
}

}  // namespace epic::verbs
