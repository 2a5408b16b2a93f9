// An agent that is told of several managers, of which one leads.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/grpc/not_a_manager.h"
#include "base/grpc/standing_by.h"
#include "incagent/agent.h"
#include "proto/manager.grpc.pb.h"
#include "proto/switch.grpc.pb.h"

namespace epic::agent {
namespace {

// An engine that only says who it is.
class NamedEngine : public proto::SwitchTable::Service {
 public:
  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*,
                        proto::EngineInfo* reply) override {
    reply->set_name("s1");
    return grpc::Status::OK;
  }
};

// A manager that takes whoever comes.
class LeadingManager : public proto::Manager::Service {
 public:
  grpc::Status Register(grpc::ServerContext*, const proto::RegisterRequest* request,
                        proto::RegisterReply* reply) override {
    reply->set_heartbeat_ms(100);
    if (!std::exchange(is_told_, true)) registered.set_value(request->name());
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const proto::HeartbeatRequest*,
                         proto::HeartbeatReply*) override {
    return grpc::Status::OK;
  }
  std::promise<std::string> registered;

 private:
  bool is_told_ = false;
};

// Until it goes; *port: 0 for any, and which it got.
template <typename Add>
std::unique_ptr<grpc::Server> ServeAt(int* port, const Add& add) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(fmt::format("127.0.0.1:{}", *port), grpc::InsecureServerCredentials(), port);
  add(&builder);
  return builder.BuildAndStart();
}

TEST(AgentOfSeveral, FollowsTheOneThatLeads) {
  std::string folder = std::filesystem::temp_directory_path() / "epic-agent-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string socket = folder + "/engine.sock";
  NamedEngine engine;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&engine);
  const auto engine_server = builder.BuildAndStart();
  StandingBy stands_by([] { return "stands by: somebody else leads"; });
  LeadingManager first, next;
  int standby_port = 0, port = 0;
  auto standby =
      ServeAt(&standby_port, [&](auto* server) { server->RegisterCallbackGenericService(&stands_by); });
  auto leads = ServeAt(&port, [&](auto* server) { server->RegisterService(&first); });
  // One of the list is no manager: the engine's own port would be as good a mistake.
  NotAManager other(proto::RegisterRequest::descriptor()->file()->FindServiceByName("Manager"), "a test");
  int other_port = 0;
  const auto mistake = ServeAt(&other_port, [&](auto* server) { server->RegisterService(&other); });
  const std::string managers =
      fmt::format("nosuch.invalid,127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}", other_port, standby_port, port);
  const auto agent =
      Agent::Start({.name = "s1", .engine = socket, .manager = managers, .listen = "127.0.0.1:0"});
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_EQ(first.registered.get_future().get(), "s1");
  // The leader goes, and who stood by leads.
  standby = nullptr;
  leads = nullptr;
  leads = ServeAt(&standby_port, [&](auto* server) { server->RegisterService(&next); });
  EXPECT_EQ(next.registered.get_future().get(), "s1");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace epic::agent
