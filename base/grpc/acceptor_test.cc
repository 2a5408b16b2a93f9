#include "base/grpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptors.h"
#include "base/grpc/channel.h"
#include "base/grpc/first_words.h"
#include "base/grpc/self_check.h"
#include "proto/switch.grpc.pb.h"

namespace epic {
namespace {

// Other processes, with descriptors of their own: made before gRPC has threads.
class Others {
 public:
  // work: in the other process, with the server's port; says by `said` that it has got so far, and holds what
  // it has until `held` ends. Ends itself.
  struct Pipes {
    int said = -1, held = -1;
    void Say() const { (void)!write(said, "x", 1); }
    void Hold() const {
      char byte = 0;
      (void)!read(held, &byte, 1);
    }
  };
  explicit Others(const std::function<void(int port, const Pipes&)>& work) {
    int to[2], from[2];
    EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(to[1]);
      close(from[0]);
      RaiseDescriptorLimit();
      int port = 0;
      if (read(to[0], &port, sizeof port) == sizeof port) work(port, {.said = from[1], .held = to[0]});
      _exit(0);
    }
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }
  ~Others() { End(); }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;

  void Go(int port) const { EXPECT_EQ(write(to_, &port, sizeof port), static_cast<ssize_t>(sizeof port)); }
  // Whether it has said so.
  bool HasSaid() const {
    char byte = 0;
    return read(from_, &byte, 1) == 1;
  }
  void End() {
    if (pid_ <= 0) return;
    close(to_);
    close(from_);
    EXPECT_GT(waitpid(std::exchange(pid_, 0), nullptr, 0), 0);
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
};

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) _exit(1);
  return fd;
}

void Send(int fd, const std::string& what) { (void)!send(fd, what.data(), what.size(), MSG_NOSIGNAL); }

// Until the server has closed it.
void AwaitEnd(int fd) {
  char bytes[512];
  while (recv(fd, bytes, sizeof bytes, 0) > 0) {
  }
}

// A server behind an acceptor, with its calls counted.
class Server final : public proto::SwitchTable::Service {
 public:
  explicit Server(AcceptorOptions options, std::optional<std::string> path = {}) {
    auto listener = path ? Listener::AtPath(*path, 0600) : Listener::At({.host = "127.0.0.1", .port = 0});
    EXPECT_TRUE(listener.ok()) << listener.status();
    options.say = [this](const std::string& line) {
      lines.push_back(line);
      ++said;
    };
    acceptor.emplace(*std::move(listener), std::move(options));
    grpc::ServerBuilder builder;
    acceptor->AddTo(&builder, {});
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    acceptor->Start();
  }
  ~Server() override {
    if (acceptor) Stop();
  }

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*, proto::EngineInfo* reply) override {
    reply->set_name(name);
    return grpc::Status::OK;
  }
  grpc::Status Install(grpc::ServerContext*, const proto::InstallRequest* request, proto::InstallReply*) override {
    return {grpc::NOT_FOUND, std::to_string(request->group().name().size())};
  }

  // On a connection of its own; waits for an answer for as long as it takes.
  std::string Ask() const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    proto::EngineInfo reply;
    const grpc::Status status = Stub()->Describe(&context, {}, &reply);
    return status.ok() ? reply.name() : status.error_message();
  }
  std::unique_ptr<proto::SwitchTable::Stub> Stub() const {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
    const std::string address = acceptor->listener().is_path() ? "unix:" + acceptor->listener().ToString()
                                                               : acceptor->listener().ToString();
    return proto::SwitchTable::NewStub(ChannelTo(address, args));
  }
  void Stop() {
    acceptor->Stop();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    acceptor.reset();
  }

  std::optional<Acceptor> acceptor;
  std::vector<std::string> lines;  // of the log; to be read when the acceptor has stopped
  std::atomic<int> said = 0;
  std::string name = "s1";

 private:
  std::unique_ptr<grpc::Server> server_;
};

// As ulimit -n 256, for as long as it lives.
class FewDescriptors {
 public:
  FewDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 256;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

void FourHundred(int port, const Others::Pipes& pipes, const std::string& words) {
  std::vector<int> connections;
  for (int i = 0; i < 400; ++i) {
    connections.push_back(ConnectTo(port));
    Send(connections.back(), words);
  }
  pipes.Say();
  pipes.Hold();
}

// gRPC's own listener never takes anybody again after this.
TEST(AcceptorTest, AnswersWhileAndAfterFourHundredTakeAllOf256Descriptors) {
  for (const bool speak : {false, true}) {
    Others others([speak](int port, const Others::Pipes& pipes) {
      FourHundred(port, pipes, speak ? HelloOfHttp2() : "");
    });
    const FewDescriptors few;
    // Bounds that are no help.
    Server server({.bounds = {.all = 10'000, .of_peer = 10'000}});
    others.Go(server.acceptor->port());
    EXPECT_TRUE(others.HasSaid());
    while (server.acceptor->refused() < 100) std::this_thread::yield();
    if (!speak) {
      EXPECT_EQ(server.Ask(), "s1") << "who is silent gives way";
    }
    others.End();
    EXPECT_EQ(server.Ask(), "s1");
  }
}

TEST(AcceptorTest, ItsOwnBoundsLeaveDescriptorsForTheRest) {
  Others others([](int port, const Others::Pipes& pipes) { FourHundred(port, pipes, HelloOfHttp2()); });
  const FewDescriptors few;
  Server server({});
  others.Go(server.acceptor->port());
  EXPECT_TRUE(others.HasSaid());
  std::vector<int> rest;
  for (int i = 0; i < 60; ++i) rest.push_back(dup(0));
  EXPECT_GE(rest.back(), 0) << "of 256, 64 are not for connections";
  for (const int fd : rest) close(fd);
  others.End();
  EXPECT_EQ(server.Ask(), "s1");
}

TEST(AcceptorTest, ADaemonIsNotDeafToItselfWhenAPeerHasAllItsConnections) {
  Others others([](int port, const Others::Pipes& pipes) {
    const int first = ConnectTo(port);
    Send(first, HelloOfHttp2());
    char byte = 0;
    (void)!recv(first, &byte, 1, 0);  // it has been taken
    AwaitEnd(ConnectTo(port));        // for another one there is no room
    pipes.Say();
    pipes.Hold();
  });
  Server server({.bounds = {.all = 2, .of_peer = 1}});
  others.Go(server.acceptor->port());
  EXPECT_TRUE(others.HasSaid());
  const SelfCheck check(&*server.acceptor, [](const std::string& why) { ADD_FAILURE() << why; },
                        {.between = std::chrono::milliseconds(1)});
  while (check.answers() < 3) std::this_thread::yield();
}

TEST(AcceptorTest, HalfAHandshakeIsGivenUp) {
  Others others([](int port, const Others::Pipes& pipes) {
    const std::string hello = HelloOfHttp2();
    std::vector<int> halves;
    for (size_t size = 0; size < hello.size(); ++size) {
      halves.push_back(ConnectTo(port));
      Send(halves.back(), hello.substr(0, size));
    }
    // One that is gRPC's, and waits for the rest of what is said.
    std::string cut = hello;
    cut[kHttp2Preface.size() + 2] = 6;
    halves.push_back(ConnectTo(port));
    Send(halves.back(), cut);
    for (const int fd : halves) AwaitEnd(fd);
    pipes.Say();
  });
  Server server({.patience = std::chrono::milliseconds(50)});
  others.Go(server.acceptor->port());
  EXPECT_TRUE(others.HasSaid());
  EXPECT_EQ(server.Ask(), "s1");
  EXPECT_GE(server.acceptor->refused(), kFirstWords);
}

TEST(AcceptorTest, OtherWordsAreEndedAtOnce) {
  Others others([](int port, const Others::Pipes& pipes) {
    for (const char* words : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "PRI * HTTP/1.1\r\n"}) {
      const int fd = ConnectTo(port);
      Send(fd, words);
      AwaitEnd(fd);
    }
    pipes.Say();
  });
  Server server({.patience = std::chrono::hours(1)});
  others.Go(server.acceptor->port());
  EXPECT_TRUE(others.HasSaid());
  EXPECT_EQ(server.acceptor->refused(), 3U);
}

// Ten connections say this, and then as much of the flood as is taken at once; they stay until the test ends.
void FloodFromTen(int port, const Others::Pipes& pipes, const std::string& hello, const std::string& flood) {
  for (int i = 0; i < 10; ++i) {
    const int fd = ConnectTo(port);
    Send(fd, hello);
    // It may be that nobody reads all of it, as nothing of the answers is read.
    (void)!send(fd, flood.data(), flood.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  pipes.Say();
  pipes.Hold();
}

TEST(AcceptorTest, AFloodOfSettingsStopsNobodyElse) {
  Others others([](int port, const Others::Pipes& pipes) {
    std::string flood;
    for (int i = 0; i < 10'000; ++i) flood += HelloOfHttp2().substr(kHttp2Preface.size());
    FloodFromTen(port, pipes, HelloOfHttp2(), flood);
  });
  Server server({});
  others.Go(server.acceptor->port());
  EXPECT_TRUE(others.HasSaid());
  EXPECT_EQ(server.Ask(), "s1");
}

// Calls that are taken back at once: gRPC takes them faster than it is done with them, and keeps all.
TEST(AcceptorTest, AFloodOfCallsThatAreTakenBackWaitsAndStopsNobodyElse) {
  Others others([](int port, const Others::Pipes& pipes) {
    std::string headers;
    for (const auto& [name, value] : {std::pair<std::string, std::string>{":method", "POST"},
                                      {":scheme", "http"},
                                      {":path", "/epic.proto.SwitchTable/Describe"},
                                      {":authority", "x"},
                                      {"te", "trailers"},
                                      {"content-type", "application/grpc"}})
      headers += '\0' + std::string(1, static_cast<char>(name.size())) + name + static_cast<char>(value.size()) + value;
    const auto frame = [](char kind, char flags, uint32_t stream, const std::string& payload) {
      const uint32_t number = htonl(stream);
      return std::string("\0\0", 2) + static_cast<char>(payload.size()) + kind + flags +
             std::string(reinterpret_cast<const char*>(&number), 4) + payload;
    };
    std::string flood;
    for (uint32_t stream = 1; stream < 40'000; stream += 2)
      flood += frame(1, 4, stream, headers) + frame(3, 0, stream, std::string(4, '\0'));
    FloodFromTen(port, pipes, HelloOfHttp2(), flood);
  });
  Server server({});
  others.Go(server.acceptor->port());
  EXPECT_TRUE(others.HasSaid());
  while (server.said == 0) std::this_thread::yield();
  EXPECT_EQ(server.Ask(), "s1");
  server.Stop();
  const std::string waits = "of 127.0.0.1 had to wait, which says more than 6000 frames a second";
  EXPECT_NE(server.lines.front().find(waits), std::string::npos) << server.lines.front();
}

TEST(AcceptorTest, WhatIsSaidIsPassedOnWholeBothWays) {
  Server server({.frames_a_second = 2000});
  server.name = std::string(3'000'000, 'n');
  EXPECT_EQ(server.Ask(), server.name);
  grpc::ClientContext context;
  proto::InstallRequest request;
  request.mutable_group()->set_name(std::string(3'000'000, 'g'));
  proto::InstallReply reply;
  EXPECT_EQ(server.Stub()->Install(&context, request, &reply).error_message(), "3000000");
}

TEST(AcceptorTest, OfAUnixSocketTheUserHasTheBound) {
  const std::string path = testing::TempDir() + "acceptor_test.sock";
  unlink(path.c_str());
  {
    Server server({.bounds = {.all = 100, .of_peer = 1}}, path);
    EXPECT_EQ(server.Ask(), "s1");
    const SelfCheck check(&*server.acceptor, [](const std::string& why) { ADD_FAILURE() << why; },
                          {.between = std::chrono::milliseconds(1)});
    while (check.answers() < 3) std::this_thread::yield();
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "it is removed";
}

TEST(SelfCheckTest, SaysWhenNobodyAnswers) {
  auto listener = Listener::At({.host = "localhost", .port = 0});
  ASSERT_TRUE(listener.ok()) << listener.status();
  Acceptor never_started(*std::move(listener), {});
  std::promise<std::string> deaf;
  const SelfCheck check(&never_started, [&deaf](const std::string& why) { deaf.set_value(why); },
                        {.between = std::chrono::milliseconds(1),
                         .patience = std::chrono::milliseconds(20),
                         .deaf_after = 100 * kMillisecond});
  EXPECT_EQ(deaf.get_future().get().find("nobody answers at "), 0U);
  EXPECT_EQ(check.answers(), 0U);
}

TEST(DeafnessTest, OnlyTimeInWhichThisProcessRanCounts) {
  Deafness deafness;
  for (int i = 0; i < 1000; ++i) deafness.OnSilence(kSecond, 30 * kSecond);  // stopped, and continued
  EXPECT_FALSE(deafness.IsDeaf());
  for (int i = 0; i < 59; ++i) deafness.OnSilence(kSecond, kSecond + kMillisecond);
  EXPECT_FALSE(deafness.IsDeaf());
  deafness.OnAnswer();
  for (int i = 0; i < 59; ++i) deafness.OnSilence(kSecond, kSecond);
  EXPECT_FALSE(deafness.IsDeaf()) << "one answer is enough";
  deafness.OnSilence(kSecond, kSecond);
  EXPECT_TRUE(deafness.IsDeaf());
}

TEST(ListenerTest, ASecondOneAtAnAddressIsRefused) {
  const auto first = Listener::At({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->bound().host, "127.0.0.1");
  for (const char* name : {"127.0.0.1", "localhost", "0.0.0.0", ""}) {
    const auto second = Listener::At({.host = name, .port = first->bound().port});
    EXPECT_FALSE(second.ok()) << name;
    EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(Listener::At({.host = "nosuch.invalid", .port = 0}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Listener::At({.host = "192.0.2.1", .port = 0}).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace epic
