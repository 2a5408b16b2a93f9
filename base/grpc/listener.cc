#include "base/grpc/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace epic {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// A socket that listens there, or -1 with errno.
int ListenAt(const addrinfo& at, int port) {
  const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  const auto network_port = htons(static_cast<uint16_t>(port));
  if (at.ai_family == AF_INET6) {
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = network_port;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = network_port;
  }
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

Address InNumbers(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  (void)getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  const uint16_t port = address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                      : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return {.host = host, .port = ntohs(port)};
}

// What a socket has been given.
Address BoundTo(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return InNumbers(address, size);
}

}  // namespace

StatusOr<Listener> Listener::At(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  // An empty host is every address: with a socket of IPv6, which takes IPv4 as well, where there is IPv6.
  const char* names[] = {address.host.empty() ? "::" : address.host.c_str(),
                         address.host.empty() ? "0.0.0.0" : nullptr};
  Listener listener;
  std::string why;
  const auto wrong = [&address](const std::string& text) {
    return MakeStatus(StatusCode::kUnavailable,
                      fmt::format("cannot listen on {}: it is not an address of this machine or is in use: {}",
                                  address.ToString(), text));
  };
  for (const char* const name : names) {
    if (name == nullptr || !listener.sockets_.empty()) break;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(name, nullptr, &hints, &found); error != 0) {
      return MakeStatus(error == EAI_NONAME || error == EAI_NODATA ? StatusCode::kNotFound : StatusCode::kUnavailable,
                        fmt::format("cannot listen on {}: {}: {}", address.ToString(), name, gai_strerror(error)));
    }
    const AddressList list(found, &freeaddrinfo);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      // A free port is that of all of them.
      const int fd = ListenAt(*at, listener.sockets_.empty() ? address.port : listener.bound_.port);
      if (fd < 0) {
        // A name may stand for what this machine has not, as localhost for ::1 without IPv6. But nobody is to
        // listen beside another daemon, under the same name.
        const int error = errno;
        if (why.empty() || error == EADDRINUSE) why = std::strerror(error);
        if (error != EADDRINUSE) continue;
        return wrong(why);
      }
      listener.sockets_.push_back(fd);
      if (listener.sockets_.size() == 1) listener.bound_ = BoundTo(fd);
    }
  }
  if (listener.sockets_.empty()) return wrong(why);
  return listener;
}

StatusOr<Listener> Listener::AtPath(const std::string& path, mode_t rights) {
  Listener listener;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto wrong = [&path](const std::string& why) {
    return MakeStatus(StatusCode::kUnavailable, fmt::format("cannot listen on {}: {}", path, why));
  };
  if (path.empty() || path.size() >= sizeof address.sun_path) return wrong("a socket's path is not so long");
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return wrong(std::strerror(errno));
  listener.sockets_.push_back(fd);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return wrong(std::strerror(errno));
  listener.path_ = path;
  if (chmod(path.c_str(), rights) != 0 || listen(fd, SOMAXCONN) != 0) return wrong(std::strerror(errno));
  return listener;
}

Listener::Listener(Listener&& other) noexcept
    : sockets_(std::exchange(other.sockets_, {})),
      bound_(std::move(other.bound_)),
      path_(std::exchange(other.path_, {})) {}

Listener::~Listener() {
  for (const int fd : sockets_) close(fd);
  if (!path_.empty()) unlink(path_.c_str());
}

bool IsElsewhere(const std::string& address) {
  const StatusOr<Address> there = CallableAddress(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (!there.ok() || getaddrinfo(there->host.c_str(), "1", &hints, &found) != 0) return false;
  const AddressList list(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  // Nothing is sent.
  const bool reached = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  const Address own = BoundTo(fd);
  sockaddr_storage other{};
  socklen_t size = sizeof other;
  (void)getpeername(fd, reinterpret_cast<sockaddr*>(&other), &size);
  close(fd);
  const Address peer = InNumbers(other, size);
  return reached && peer.host != own.host && !peer.IsLoopback();
}

}  // namespace epic
