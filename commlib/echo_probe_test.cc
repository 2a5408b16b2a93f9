#include "commlib/echo_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "gtest/gtest.h"

namespace epic::internal {
namespace {

constexpr Ipv4 kLoopback{0x7f000001};

// An echo server of which the test says what it does. On the loopback interface what was sent has arrived
// when send has returned.
class Server {
 public:
  Server() : fd_(socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(Raw(kLoopback));
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    socklen_t bytes = sizeof own;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
    port_ = ntohs(own.sin_port);
  }
  ~Server() { close(fd_); }

  std::vector<uint8_t> Take() {
    std::vector<uint8_t> request(100);
    pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&readable, 1, 10'000), 1);
    socklen_t bytes = sizeof client_;
    const ssize_t got =
        recvfrom(fd_, request.data(), request.size(), 0, reinterpret_cast<sockaddr*>(&client_), &bytes);
    request.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return request;
  }
  void Give(const std::vector<uint8_t>& echo) {
    EXPECT_EQ(sendto(fd_, echo.data(), echo.size(), 0, reinterpret_cast<sockaddr*>(&client_), sizeof client_),
              static_cast<ssize_t>(echo.size()));
  }
  void Echo() { Give(Take()); }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
  sockaddr_in client_{};
};

TEST(EchoProbe, SaysWhatBecameOfTheRequestsBefore) {
  Server server;
  EchoProbe probe(kLoopback);
  EXPECT_FALSE(probe.Ask(kLoopback, server.port()).asked);
  server.Echo();
  // The first request is the newest with an echo, until it is too old.
  for (uint32_t ask = 1; ask <= EchoHistory::kRequests + 1; ++ask) {
    const EchoProbe::Answer answer = probe.Ask(kLoopback, server.port());
    EXPECT_TRUE(answer.asked);
    EXPECT_EQ(answer.answered, ask <= EchoHistory::kRequests ? ask : 0u);
    server.Take();
  }
}

TEST(EchoProbe, AnEchoMayBeLate) {
  Server server;
  EchoProbe probe(kLoopback);
  std::vector<std::vector<uint8_t>> requests;
  constexpr size_t kLast = EchoHistory::kRequests + 1;
  for (size_t i = 0; i <= kLast; ++i) {
    EXPECT_EQ(probe.Ask(kLoopback, server.port()).answered, 0u);
    requests.push_back(server.Take());
  }
  server.Give(requests[1]);
  EXPECT_EQ(probe.Ask(kLoopback, server.port()).answered, 0u) << "older than the last requests that it knows";
  requests.push_back(server.Take());
  server.Give(requests[kLast - 1]);
  EXPECT_EQ(probe.Ask(kLoopback, server.port()).answered, 3u);
  server.Take();
  server.Give(requests[kLast]);
  server.Give(requests[kLast - 1]);
  EXPECT_EQ(probe.Ask(kLoopback, server.port()).answered, 3u) << "the older one was overtaken";
}

TEST(EchoProbe, AnEchoOfAnotherIsNone) {
  Server server, other;
  EchoProbe probe(kLoopback);
  probe.Ask(kLoopback, server.port());
  const std::vector<uint8_t> request = server.Take();
  probe.Ask(kLoopback, other.port());
  other.Take();
  std::vector<uint8_t> longer = request;
  longer.push_back(0);
  server.Give(longer);
  other.Give(request);
  EXPECT_EQ(probe.Ask(kLoopback, server.port()).answered, 0u);
  EXPECT_EQ(probe.Ask(kLoopback, other.port()).answered, 0u);
  server.Echo();
  EXPECT_EQ(probe.Ask(kLoopback, server.port()).answered, 1u);
}

TEST(EchoProbe, NobodyThereIsNoEcho) {
  uint16_t port = 0;
  {
    const Server gone;
    port = gone.port();
  }
  EchoProbe probe(kLoopback);
  probe.Ask(kLoopback, port);
  for (int i = 0; i < 3; ++i) {
    const EchoProbe::Answer answer = probe.Ask(kLoopback, port);
    EXPECT_TRUE(answer.asked);
    EXPECT_EQ(answer.answered, 0u);
  }
}

TEST(EchoProbe, AnAddressThatIsNotOursIsNoWitness) {
  EchoProbe probe(Ipv4{0xc0000201});  // of a documentation network
  EXPECT_FALSE(probe.Ask(kLoopback, 7).asked);
  EXPECT_FALSE(probe.Ask(kLoopback, 7).asked);
}

TEST(EchoProbe, ForgetsTheOldestOfTooManyTargets) {
  std::vector<Server> servers(9);
  EchoProbe probe(kLoopback);
  for (Server& server : servers) {
    EXPECT_FALSE(probe.Ask(kLoopback, server.port()).asked);
    server.Echo();
  }
  EXPECT_EQ(probe.Ask(kLoopback, servers[8].port()).answered, 1u);
  EXPECT_EQ(probe.Ask(kLoopback, servers[1].port()).answered, 1u);
  EXPECT_FALSE(probe.Ask(kLoopback, servers[0].port()).asked);
}

}  // namespace
}  // namespace epic::internal
