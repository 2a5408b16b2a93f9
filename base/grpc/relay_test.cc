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

// With both events at once, as of a peer that has exited.
TEST(RelayTest, WhatAPeerSaysLastIsPassedOn) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  Relay relay(epoll, 1000, [](int) {});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const int server = relay.Begin(ends[0], "10.0.0.1");
  ASSERT_GE(server, 0) << std::strerror(errno);
  ASSERT_EQ(send(ends[1], "leave", 5, 0), 5);
  close(ends[1]);
  relay.OnEvents(ends[0], EPOLLIN | EPOLLHUP | EPOLLRDHUP, 0);
  char said[8] = {};
  EXPECT_EQ(recv(server, said, sizeof said, 0), 5);
  EXPECT_STREQ(said, "leave");
  EXPECT_EQ(recv(server, said, sizeof said, 0), 0) << "and then it ends";
  EXPECT_TRUE(relay.empty());
  close(server);
  close(epoll);
}

}  // namespace
}  // namespace epic
