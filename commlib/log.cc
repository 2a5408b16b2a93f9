#include "commlib/log.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace epic::internal {
namespace {

struct Logger {
  LogLevel level = LogLevel::kWarn;
  std::FILE* out = stderr;
  std::string who;  // "host:pid"

  Logger() {
    char host[256] = "?";
    gethostname(host, sizeof host - 1);
    who = fmt::format("{}:{}", host, getpid());
    bool known = true;
    if (const char* text = std::getenv("EPIC_DEBUG")) known = Parse(text);
    if (const char* pattern = std::getenv("EPIC_DEBUG_FILE")) {
      const std::string name = ExpandLogName(pattern, host, getpid());
      if (std::FILE* file = std::fopen(name.c_str(), "a")) {
        out = file;
      } else {
        fmt::print(stderr, "epic {} warn: cannot write EPIC_DEBUG_FILE={}; using standard error\n", who,
                   name);
      }
    }
    if (!known) fmt::print(stderr, "epic {} warn: EPIC_DEBUG must be none, warn, info or trace\n", who);
  }

  bool Parse(std::string_view text) {
    constexpr std::string_view kNames[] = {"none", "warn", "info", "trace"};
    for (int i = 0; i < 4; ++i) {
      if (text == kNames[i]) {
        level = static_cast<LogLevel>(i);
        return true;
      }
    }
    return false;
  }
};

// Never destroyed: threads may log while the process ends.
const Logger& TheLogger() {
  static const Logger* logger = new Logger;
  return *logger;
}

}  // namespace

bool LogEnabled(LogLevel level) { return level <= TheLogger().level; }

void WriteLog(LogLevel level, std::string_view text) {
  const Logger& logger = TheLogger();
  const char* name = level == LogLevel::kWarn ? "warn" : level == LogLevel::kInfo ? "info" : "trace";
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  fmt::print(logger.out, "epic {} {}.{:06} {}: {}\n", logger.who, us / 1'000'000, us % 1'000'000, name, text);
  std::fflush(logger.out);
}

std::string ExpandLogName(std::string_view pattern, std::string_view host, int64_t pid) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool escape = pattern[i] == '%' && i + 1 < pattern.size();
    if (escape && pattern[i + 1] == 'h') {
      name += host;
      ++i;
    } else if (escape && pattern[i + 1] == 'p') {
      name += std::to_string(pid);
      ++i;
    } else {
      name += pattern[i];
    }
  }
  return name;
}

}  // namespace epic::internal
