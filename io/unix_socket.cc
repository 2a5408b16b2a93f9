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

// Of a path that fits.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  return address;
}

// Makes the folder of a path if its own parent is there. Others may look into it, whatever the umask is: a
// socket in it may be for them, and has rights of its own.
Status MakeFolderOf(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  std::error_code unused;
  if (std::filesystem::is_directory(folder, unused)) return {};
  if (mkdir(folder.c_str(), 0755) == 0 && chmod(folder.c_str(), 0755) == 0) return {};
  const int error = errno;
  if (std::filesystem::is_directory(folder, unused)) return {};  // another daemon has made it just now
  return MakeStatus(error == EACCES || error == EPERM ? StatusCode::kPermissionDenied : StatusCode::kNotFound,
                    fmt::format("{}: there is no directory {}, and it cannot be made: {}", path,
                                folder.string(), std::strerror(error)));
}

bool Fits(const std::string& path) { return !path.empty() && path.size() < sizeof sockaddr_un{}.sun_path; }

}  // namespace

Status ClaimSocketPath(const std::string& path) {
  if (!Fits(path)) {
    return MakeStatus(StatusCode::kInvalidArgument, fmt::format("{}: a socket's path has 1 to {} bytes", path,
                                                                sizeof sockaddr_un{}.sun_path - 1));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return MakeFolderOf(path);
  if (!S_ISSOCK(status.st_mode)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("{}: exists and is no socket", path));
  }
  if (ListenerAt(path)) {
    return MakeStatus(StatusCode::kAlreadyExists, fmt::format("{}: another process listens there", path));
  }
  if (unlink(path.c_str()) != 0) {
    return MakeStatus(StatusCode::kPermissionDenied, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return {};
}

std::optional<pid_t> ListenerAt(const std::string& path) {
  if (!Fits(path)) return std::nullopt;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return 0;  // that is this process' own trouble
  const sockaddr_un address = AddressOf(path);
  std::optional<pid_t> found = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) found = peer.pid;
  } else if (errno == ECONNREFUSED || errno == ENOENT) {
    found = std::nullopt;
  }
  close(fd);
  return found;
}

}  // namespace epic::io
