#include "incmanager/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace epic::manager {

void Write(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "standard output");
}

}  // namespace epic::manager
