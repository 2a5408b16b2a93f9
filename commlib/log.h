// What the library tells people: EPIC_DEBUG=none|warn|info|trace (default warn), to standard error or
// EPIC_DEBUG_FILE, in whose name %h becomes the host and %p the process. A library must not set up a logger
// of the program's, hence a small one of its own.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace epic::internal {

enum class LogLevel { kNone = 0, kWarn = 1, kInfo = 2, kTrace = 3 };

bool LogEnabled(LogLevel level);
void WriteLog(LogLevel level, std::string_view text);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) WriteLog(level, fmt::format(format, std::forward<Args>(args)...));
}

// `pattern` with %h and %p replaced.
std::string ExpandLogName(std::string_view pattern, std::string_view host, int64_t pid);

}  // namespace epic::internal
