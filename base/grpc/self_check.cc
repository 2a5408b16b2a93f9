#include "base/grpc/self_check.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/grpc/first_words.h"

namespace epic {
namespace {

constexpr Nanos kSlice = kSecond;

Nanos NowOfCheck() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Closes it.
class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

struct Name {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_storage);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

// Where this process itself reaches a socket that listens.
Name ReachableName(int listening) {
  Name name;
  if (getsockname(listening, name.get(), &name.size) != 0) return {};
  if (name.address.ss_family == AF_INET) {
    auto& ip = reinterpret_cast<sockaddr_in&>(name.address).sin_addr;
    if (ip.s_addr == htonl(INADDR_ANY)) ip.s_addr = htonl(INADDR_LOOPBACK);
  } else if (name.address.ss_family == AF_INET6) {
    auto& ip = reinterpret_cast<sockaddr_in6&>(name.address).sin6_addr;
    if (IN6_IS_ADDR_UNSPECIFIED(&ip)) ip = in6addr_loopback;
  }
  return name;
}

// A name of its own for a socket, by which the acceptor knows it.
std::string OwnName(int fd, const Name& to) {
  Name name = to;
  if (to.address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(name.address).sin_port = 0;
  } else if (to.address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(name.address).sin6_port = 0;
  } else {
    name.size = sizeof(sa_family_t);  // the kernel takes one that nobody has
  }
  if (bind(fd, name.get(), name.size) != 0) return "";
  name.size = sizeof name.address;
  if (getsockname(fd, name.get(), &name.size) != 0) return "";
  return {reinterpret_cast<const char*>(&name.address), name.size};
}

}  // namespace

SelfCheck::SelfCheck(Acceptor* acceptor, std::function<void(const std::string& why)> deaf, const Times& times)
    : acceptor_(acceptor), deaf_(std::move(deaf)), times_(times), deafness_(times.deaf_after), thread_([this] { Loop(); }) {}

SelfCheck::~SelfCheck() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SelfCheck::Stopped() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void SelfCheck::Loop() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, times_.between, [this] { return stop_; })) {
    lock.unlock();
    if (Ask() == Answer::kYes) {
      deafness_.OnAnswer();
      ++answers_;
    }
    if (deafness_.IsDeaf()) {
      deaf_(fmt::format("nobody answers at {}, though this process runs: for {} s it has connected to itself in vain",
                        acceptor_->listener().ToString(), times_.deaf_after / kSecond));
      return;
    }
    lock.lock();
  }
}

SelfCheck::Answer SelfCheck::Ask() {
  const Nanos until = NowOfCheck() + std::chrono::nanoseconds(times_.patience).count();
  const Name to = ReachableName(acceptor_->listener().sockets().front());
  const Socket socket(to.address.ss_family);
  if (socket.fd() < 0) return Answer::kNotAsked;
  const std::string own = OwnName(socket.fd(), to);
  if (own.empty()) return Answer::kNotAsked;
  acceptor_->Expect(own);
  while (connect(socket.fd(), to.get(), to.size) != 0) {
    if (errno == EISCONN) break;
    if (errno != EINPROGRESS && errno != EALREADY && errno != EAGAIN) return Answer::kNotAsked;
    // A Unix socket has no room for one more: that is not told by poll.
    const bool full = errno == EAGAIN;
    if (!Wait(full ? -1 : socket.fd(), POLLOUT, full ? std::min(until, NowOfCheck() + kSlice) : until) && !full)
      return Answer::kNo;
    if (NowOfCheck() >= until) return Answer::kNo;
  }
  const std::string hello = HelloOfHttp2();
  if (send(socket.fd(), hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size()))
    return Answer::kNotAsked;
  std::string heard;
  std::array<char, 512> bytes;
  while (!HasSettingsAck(heard)) {
    if (!Wait(socket.fd(), POLLIN, until)) return Answer::kNo;
    const ssize_t size = recv(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size > 0) heard.append(bytes.data(), static_cast<size_t>(size));
    // Whoever ends a connection is there.
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) break;
  }
  return Answer::kYes;
}

// Whether something has come until then; what is waited in vain is silence.
bool SelfCheck::Wait(int fd, short events, Nanos until) {
  for (;;) {
    const Nanos begin = NowOfCheck();
    const Nanos slice = std::min(kSlice, until - begin);
    if (slice <= 0 || Stopped()) return false;
    pollfd waits{.fd = fd, .events = events, .revents = 0};
    if (poll(&waits, 1, static_cast<int>(slice / kMillisecond) + 1) > 0) return true;
    deafness_.OnSilence(slice, NowOfCheck() - begin);
  }
}

}  // namespace epic
