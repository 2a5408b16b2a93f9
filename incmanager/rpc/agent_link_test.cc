#include "incmanager/rpc/agent_link.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "proto/switch.grpc.pb.h"

namespace epic::manager {
namespace {

constexpr unsigned kSeconds = 60;

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

}  // namespace
}  // namespace epic::manager
