#include "incmanager/rpc/agent_link.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "proto/switch.grpc.pb.h"

namespace epic::manager {
namespace {

constexpr unsigned kSeconds = 60;

// Where nobody answers: a port that this holds. Unless it has been told to listen there, nobody can connect.
class NobodysPort {
 public:
  explicit NobodysPort(bool listens = false) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    if (listens) {
      EXPECT_EQ(listen(socket_, SOMAXCONN), 0);
    }
    port_ = ntohs(address.sin_port);
  }
  ~NobodysPort() { close(socket_); }
  NobodysPort(const NobodysPort&) = delete;
  NobodysPort& operator=(const NobodysPort&) = delete;
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int socket_;
  int port_ = 0;
};

class Agent final : public proto::SwitchTable::Service {
 public:
  Agent() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Probe(grpc::ServerContext*, const proto::ProbeRequest*, proto::ProbeReply* reply) override {
    reply->set_answered(3);
    return grpc::Status::OK;
  }
  // Who is of an earlier version has a status alone.
  grpc::Status Install(grpc::ServerContext*, const proto::InstallRequest* request,
                       proto::InstallReply* reply) override {
    if (request->group().group_id() == 1) return {grpc::RESOURCE_EXHAUSTED, "of an earlier version"};
    EXPECT_TRUE(request->takes_refusal());
    reply->mutable_refusal()->set_kind(proto::REFUSAL_MEMORY);
    reply->mutable_refusal()->set_needed_bytes(600);
    return grpc::Status::OK;
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::RemoveRequest*, proto::RemoveReply*) override {
    const int now = ++at_once_;
    if (now > most_at_once_) most_at_once_ = now;
    --at_once_;
    return grpc::Status::OK;
  }
  int most_at_once() const { return most_at_once_; }

 private:
  std::atomic<int> at_once_ = 0, most_at_once_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The agent comes back under another address while a probe is under way: its call is the last user of the old
// channel.
TEST(AgentLink, AProbesChannelIsNotGivenFreeByAThreadOfGrpc) {
  alarm(kSeconds);  // gRPC waits for itself otherwise
  Agent before, after;
  AgentThread thread;
  AgentLink link("s1", &thread);
  for (int i = 0; i < 3; ++i) {
    for (const Agent* next : {&after, &before}) {
      std::promise<uint32_t> told;
      link.SetAddress((next == &after ? before : after).address());
      link.Probe({}, [&](const StatusOr<proto::ProbeReply>& reply) {
        link.SetAddress(next->address());
        told.set_value(reply.ok() ? reply->answered() : 0);
      });
      EXPECT_EQ(told.get_future().get(), 3u);
    }
  }
  alarm(0);
}

InstallAnswer AnswerOf(AgentLink* link, uint64_t group_id) {
  proto::GroupConfig group;
  group.set_group_id(group_id);
  std::promise<InstallAnswer> told;
  link->Install(group, [&told](const InstallAnswer& answer) { told.set_value(answer); });
  return told.get_future().get();
}

TEST(AgentLink, SaysHowAnInstallationWasAnswered) {
  Agent agent;
  AgentThread thread;
  AgentLink link("s1", &thread);
  InstallAnswer answer = AnswerOf(&link, 1);
  EXPECT_EQ(answer.status.message(), "the agent of s1 has not registered");
  EXPECT_EQ(answer.silent, "");
  link.SetAddress(agent.address());
  answer = AnswerOf(&link, 1);
  EXPECT_EQ(answer.status, MakeStatus(StatusCode::kResourceExhausted, "of an earlier version"));
  EXPECT_FALSE(answer.shortage);
  answer = AnswerOf(&link, 2);
  EXPECT_EQ(answer.status.code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(answer.shortage);
  EXPECT_EQ(answer.shortage->needed, 600U);

  const NobodysPort nobody(false);
  link.SetAddress(nobody.address());
  answer = AnswerOf(&link, 1);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(answer.silent, "the agent of s1 at " + nobody.address() + " does not answer");
  EXPECT_TRUE(std::string(answer.status.message()).starts_with(answer.silent + ": "));
}

size_t CountThreads() {
  const auto all = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(AgentLink, AThousandSwitchesTakeNoThousandThreadsAndSilentOnesHoldUpNobody) {
  Agent agent;
  // It is connected to, and says nothing.
  const NobodysPort silent(true);
  AgentThread thread;
  const size_t before = CountThreads();
  std::vector<std::unique_ptr<AgentLink>> links;
  std::promise<void> all_silent;
  std::atomic<int> waiting = 1000;
  for (int i = 0; i < 1000; ++i) {
    links.push_back(std::make_unique<AgentLink>("s" + std::to_string(i), &thread));
    // Two behind each other: the second begins when the first has been given up.
    if (i % 100 == 0) links.back()->SetAddress(silent.address());
    links.back()->Remove(1, 1, [&](const Status& status) {
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
      if (--waiting == 0) all_silent.set_value();
    });
  }
  AgentLink link("s1", &thread);
  link.SetAddress(agent.address());
  EXPECT_EQ(AnswerOf(&link, 2).status.code(), StatusCode::kResourceExhausted);
  EXPECT_GE(waiting, 10) << "those that are silent have been waited for";
  EXPECT_LT(CountThreads(), before + 100);
  all_silent.get_future().get();
}

TEST(AgentLink, CallsOfASwitchAreMadeOneAfterTheOther) {
  Agent agent;
  AgentThread thread;
  AgentLink link("s1", &thread);
  link.SetAddress(agent.address());
  std::vector<int> order;
  std::promise<void> over;
  for (int i = 0; i < 200; ++i) {
    link.Remove(static_cast<uint64_t>(i), 1, [&order, &over, i](const Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      order.push_back(i);
      if (i == 199) over.set_value();
    });
  }
  over.get_future().get();
  ASSERT_EQ(order.size(), 200U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(agent.most_at_once(), 1);
}

}  // namespace
}  // namespace epic::manager
