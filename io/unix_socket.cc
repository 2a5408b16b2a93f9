#include "io/unix_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace epic::io {
namespace {

bool SomebodyListens(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // A full backlog (EAGAIN) also means that there is somebody.
  const bool listens = result == 0 || errno != ECONNREFUSED;
  close(fd);
  return listens;
}

}  // namespace

Status ClaimSocketPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: a socket's path has 1 to {} bytes", path,
                                                                sizeof address.sun_path - 1));
  }
  path.copy(address.sun_path, path.size());
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    const auto directory = std::filesystem::absolute(path).parent_path();
    std::error_code error;
    if (std::filesystem::is_directory(directory, error)) return {};
    return MakeStatus(StatusCode::kNotFound,
                      fmt::format("{}: there is no directory {}", path, directory.string()));
  }
  if (!S_ISSOCK(status.st_mode)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("{}: exists and is no socket", path));
  }
  if (SomebodyListens(address)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("{}: another process listens there", path));
  }
  if (unlink(path.c_str()) != 0) {
    return MakeStatus(StatusCode::kPermissionDenied, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return {};
}

}  // namespace epic::io
