// Runs a program as its user does, for tests of what it prints and how it exits.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace epic {

struct Ran {
  int code = -1;    // -1 if it did not exit by itself
  std::string out;  // stdout and stderr
};

inline Ran Shell(const std::string& command) {
  Ran ran;
  std::FILE* const pipe = popen(fmt::format("{{ {}; }} 2>&1", command).c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer;
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) ran.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
  return ran;
}

}  // namespace epic
