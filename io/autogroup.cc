#include "io/autogroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/descriptor.h"

namespace epic::io {

Status SetAutogroupNice(int nice, const std::string& file) {
  // Else it would be a shell's, with all that it has started.
  if (getsid(0) != getpid())
    return MakeStatus(StatusCode::kFailedPrecondition,
                      "this process does not lead its session: start it by systemd or setsid");
  const Descriptor autogroup(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (autogroup.get() < 0)
    return MakeStatus(StatusCode::kNotFound,
                      "the kernel has no groups by session: " + file + ": " + std::strerror(errno));
  const std::string text = std::to_string(nice);
  if (write(autogroup.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return {};
  return MakeStatus(StatusCode::kPermissionDenied,
                    std::string(std::strerror(errno)) + (nice < 0 ? ": it takes CAP_SYS_NICE" : ""));
}

}  // namespace epic::io
