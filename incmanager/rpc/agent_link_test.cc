#include "incmanager/rpc/agent_link.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "proto/switch.grpc.pb.h"

namespace epic::manager {
namespace {

constexpr unsigned kSeconds = 60;

// Where nobody listens: a port that this holds, and has not been told to listen at.
class NobodysPort {
 public:
  NobodysPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
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

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The agent comes back under another address while a probe is under way: its call is the last user of the old
// channel.
TEST(AgentLink, AProbesChannelIsNotGivenFreeByAThreadOfGrpc) {
  alarm(kSeconds);  // gRPC waits for itself otherwise
  Agent before, after;
  AgentLink link("s1");
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
  AgentLink link("s1");
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

  const NobodysPort nobody;
  link.SetAddress(nobody.address());
  answer = AnswerOf(&link, 1);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(answer.silent, "the agent of s1 at " + nobody.address() + " does not answer");
  EXPECT_TRUE(std::string(answer.status.message()).starts_with(answer.silent + ": "));
}

}  // namespace
}  // namespace epic::manager
