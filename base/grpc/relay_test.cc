#include "base/grpc/relay.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "base/grpc/first_words.h"
#include "base/types.h"

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

// A client's end of a line, and the server's; the client goes with both events at once, as one that exits.
struct Ended {
  Ended(uint64_t frames_a_second, const std::string& said) : relay(epoll, frames_a_second, [](int) {}) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    server = relay.Begin(ends[0], "10.0.0.1");
    EXPECT_GE(server, 0) << std::strerror(errno);
    EXPECT_EQ(send(ends[1], said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
    close(ends[1]);
    relay.OnEvents(ends[0], EPOLLIN | EPOLLHUP | EPOLLRDHUP, 0);
  }
  ~Ended() {
    close(server);
    close(epoll);
  }
  // All of it, and then the line has ended.
  std::string Heard() const {
    std::string heard;
    char some[4096];
    for (ssize_t size = 0; (size = recv(server, some, sizeof some, 0)) > 0;)
      heard.append(some, static_cast<size_t>(size));
    return heard;
  }
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  Relay relay;
  int server = -1;
};

TEST(RelayTest, WhatAClientSaysLastIsPassedOn) {
  const std::string said(40'000, 'l');
  Ended ended(1000, said);
  EXPECT_EQ(ended.Heard(), said);
  EXPECT_TRUE(ended.relay.empty());
}

// A flood that ends is no less a flood.
TEST(RelayTest, WhatAClientSaysLastIsPassedOnAsFarAsItMaySayIt) {
  std::string said = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 8000; ++i) said += std::string(9, '\0');  // frames without anything
  Ended ended(1000, said);
  const std::string heard = ended.Heard();
  EXPECT_LT(heard.size(), 24'000u);
  EXPECT_GT(heard.size(), 2'000u);
  EXPECT_TRUE(ended.relay.empty());
}

TEST(RelayTest, OneThatWaitsAgainAndAgainIsCountedOnce) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  Relay relay(epoll, 1000, [](int) {});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const int server = relay.Begin(ends[0], "10.0.0.1");
  const std::string said = std::string(kHttp2Preface) + std::string(60'000, '\0');
  ASSERT_EQ(send(ends[1], said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
  std::map<std::string, uint64_t> waited;
  char some[65'536];
  for (Nanos now = 0; now < 10 * kSecond; now += kMillisecond) {
    relay.OnEvents(ends[0], EPOLLIN, now);
    (void)!recv(server, some, sizeof some, MSG_DONTWAIT);
    for (const auto& [peer, count] : relay.TakeWaited()) waited[peer] += count;
    relay.Tick(now);
  }
  EXPECT_EQ(waited, (std::map<std::string, uint64_t>{{"10.0.0.1", 1}}));
  close(server);
  close(ends[1]);
  close(epoll);
}

}  // namespace
}  // namespace epic
