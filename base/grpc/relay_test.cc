#include "base/grpc/relay.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace epic {
namespace {

// As of several daemons in one process, or with one number in containers that share a network: the kernel gives
// a name once.
TEST(RelayTest, SeveralOfOneProcessTakeAPeersConnectionsAtOnce) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  Relay one(epoll, 1000, [](int) {}), other(epoll, 1000, [](int) {});
  for (int i = 0; i < 3; ++i) {
    for (Relay* const relay : {&one, &other}) {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
      const int server = relay->Begin(ends[0], "10.0.0.1");
      EXPECT_GE(server, 0) << std::strerror(errno);
      if (server >= 0) close(server);
      close(ends[1]);
    }
  }
  close(epoll);
}

}  // namespace
}  // namespace epic
