#include "commlib/echo_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace epic::internal {
namespace {

constexpr std::array<char, 12> kText = {'E', 'P', 'I', 'C', ' ', 'p', 'r', 'o', 'b', 'e', ' ', ' '};
struct Datagram {
  std::array<char, 12> text;
  uint32_t number;  // network byte order
};
static_assert(sizeof(Datagram) == 16);
// More echoes than requests can be outstanding; whoever floods the socket does not hold up this thread.
constexpr int kMaxEchoes = 64;

sockaddr_in Address(Ipv4 ip, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(Raw(ip));
  address.sin_port = htons(port);
  return address;
}

}  // namespace

EchoProbe::~EchoProbe() {
  if (fd_ >= 0) close(fd_);
}

bool EchoProbe::Open() {
  if (fd_ >= 0) return true;
  fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) return false;
  const sockaddr_in own = Address(own_, 0);
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0) return true;
  close(fd_);
  fd_ = -1;
  return false;
}

EchoProbe::Answer EchoProbe::Ask(Ipv4 to, uint16_t port) {
  if (!Open()) return {};
  ReadEchoes();
  Target* target = std::ranges::find_if(targets_, [&](const Target& t) {
    return t.requests.last_number() != 0 && t.ip == to && t.port == port;
  });
  Answer answer;
  if (target != targets_.end()) {
    answer = {true, target->requests.Answered()};
  } else {
    // A free one, else the oldest.
    target = std::ranges::min_element(targets_, {}, [](const Target& t) { return t.requests.last_number(); });
    *target = {.ip = to, .port = port, .requests = {}};
  }
  target->requests.OnRequest(next_number_);
  const Datagram request{kText, htonl(next_number_++)};
  const sockaddr_in address = Address(to, port);
  // Fails where the port is down or has no route: then no echo comes either.
  static_cast<void>(
      sendto(fd_, &request, sizeof request, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address));
  return answer;
}

void EchoProbe::ReadEchoes() {
  for (int i = 0; i < kMaxEchoes; ++i) {
    Datagram echo;
    sockaddr_in from{};
    socklen_t from_bytes = sizeof from;
    const ssize_t bytes =
        recvfrom(fd_, &echo, sizeof echo, MSG_TRUNC, reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // Other errors are those of earlier requests, such as "host unreachable"; each is told once.
    if (bytes != sizeof echo || echo.text != kText) continue;
    for (Target& target : targets_) {
      if (Raw(target.ip) != ntohl(from.sin_addr.s_addr) || target.port != ntohs(from.sin_port)) continue;
      target.requests.OnEcho(ntohl(echo.number));
    }
  }
}

}  // namespace epic::internal
