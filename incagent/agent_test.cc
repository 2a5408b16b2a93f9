// An agent between an engine and a manager that only say and keep what the test asks for, over gRPC on
// loopback.
#include "incagent/agent.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "proto/manager.grpc.pb.h"
#include "proto/switch.grpc.pb.h"

namespace epic::agent {
namespace {

// More than any machine needs, and less than the time between two heartbeats below.
constexpr std::chrono::seconds kPatience(40);

// A value that threads wait for.
template <typename Value>
class Seen {
 public:
  void Set(const std::function<void(Value*)>& change) {
    const std::lock_guard lock(mutex_);
    change(&value_);
    changed_.notify_all();
  }
  Value Get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  bool Await(const std::function<bool(const Value&)>& holds, std::chrono::milliseconds timeout) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return holds(value_); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Value value_{};
};

class Engine : public proto::SwitchTable::Service {
 public:
  explicit Engine(bool can_be_watched) : can_be_watched_(can_be_watched) {
    info_.Set([](proto::EngineInfo* info) {
      info->set_name("s1");
      info->add_ports()->set_name("p0");
    });
  }
  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest* request,
                        proto::EngineInfo* reply) override {
    if (const grpc::StatusCode code = fails_with_.Get(); code != grpc::OK) return {code, "as the test wants it"};
    if (request->has_heard()) heard_.Set([request](proto::Fence* heard) { *heard = request->heard(); });
    *reply = info_.Get();
    return grpc::Status::OK;
  }
  grpc::Status Hold(grpc::ServerContext*, const proto::HoldRequest* request, proto::HoldReply*) override {
    held_.Set([request](proto::HoldRequest* held) { *held = *request; });
    return fenced_ ? grpc::Status(grpc::FAILED_PRECONDITION, "fenced: it is another's") : grpc::Status::OK;
  }
  grpc::Status Dump(grpc::ServerContext*, const proto::DumpRequest*, proto::DumpReply* reply) override {
    const proto::EngineInfo info = info_.Get();
    for (const uint64_t id : info.group_ids()) reply->add_groups()->mutable_config()->set_group_id(id);
    return grpc::Status::OK;
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::RemoveRequest* request,
                      proto::RemoveReply*) override {
    removed_.Set([request](proto::RemoveRequest* removed) { *removed = *request; });
    return grpc::Status::OK;
  }
  void AddGroup(uint64_t id) {
    info_.Set([id](proto::EngineInfo* info) { info->add_group_ids(id); });
  }
  std::atomic<bool> fenced_ = false;  // it takes nobody
  const Seen<proto::Fence>& heard() const { return heard_; }
  const Seen<proto::HoldRequest>& held() const { return held_; }
  const Seen<proto::RemoveRequest>& removed() const { return removed_; }
  grpc::Status Watch(grpc::ServerContext* context, const proto::WatchRequest*,
                     grpc::ServerWriter<proto::EngineInfo>* writer) override {
    watched_.Set([](int* times) { ++*times; });
    if (!can_be_watched_) return {grpc::UNIMPLEMENTED, ""};
    int told = -1;
    while (!context->IsCancelled()) {
      const int neighbours = info_.Get().ports(0).neighbours_size();
      if (neighbours != told && !writer->Write(info_.Get())) break;
      told = neighbours;
      info_.Await([told](const auto& info) { return info.ports(0).neighbours_size() != told; },
                  std::chrono::milliseconds(50));
    }
    return grpc::Status::OK;
  }
  void AddNeighbour(const std::string& name) {
    info_.Set([&](proto::EngineInfo* info) { info->mutable_ports(0)->add_neighbours()->set_name(name); });
  }
  // Every call from now on.
  void FailWith(grpc::StatusCode code) {
    fails_with_.Set([code](grpc::StatusCode* fails) { *fails = code; });
  }
  const Seen<int>& watched() const { return watched_; }

 private:
  const bool can_be_watched_;
  Seen<grpc::StatusCode> fails_with_;
  Seen<proto::EngineInfo> info_;
  Seen<int> watched_;
  Seen<proto::Fence> heard_;
  Seen<proto::HoldRequest> held_;
  Seen<proto::RemoveRequest> removed_;
};

class Manager : public proto::Manager::Service {
 public:
  explicit Manager(uint32_t heartbeat_ms) : heartbeat_ms_(heartbeat_ms) {}
  grpc::Status Register(grpc::ServerContext*, const proto::RegisterRequest* request,
                        proto::RegisterReply* reply) override {
    reply->set_heartbeat_ms(heartbeat_ms_);
    const std::string cluster = cluster_.Get();
    if (!cluster.empty()) reply->mutable_fence()->set_cluster(cluster);
    reply->set_takes_over(request->follows() == "before");
    reply->set_time(++time_);
    asked_.Set([request](proto::RegisterRequest* asked) { *asked = *request; });
    registered_.Set([](int* times) { ++*times; });
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const proto::HeartbeatRequest* request,
                         proto::HeartbeatReply* reply) override {
    reply->set_register_again(request->epoch() != 0 || again_.exchange(false));
    reply->set_time(++time_);
    heard_.Set([request](proto::HeartbeatRequest* heard) { *heard = *request; });
    return grpc::Status::OK;
  }
  // From now on another manager serves here.
  void Become(const std::string& cluster) {
    cluster_.Set([&](std::string* now) { *now = cluster; });
    again_ = true;
  }
  const Seen<proto::RegisterRequest>& asked() const { return asked_; }
  const Seen<int>& registered() const { return registered_; }
  const Seen<proto::HeartbeatRequest>& heard() const { return heard_; }
  // True when the manager has been told of so many neighbours.
  bool HearsOf(int neighbours) const {
    return heard_.Await(
        [neighbours](const auto& heard) {
          return heard.engine().ports_size() == 1 && heard.engine().ports(0).neighbours_size() == neighbours;
        },
        kPatience);
  }

 private:
  const uint32_t heartbeat_ms_;
  std::atomic<bool> again_ = false;
  std::atomic<uint64_t> time_ = 0;  // of its replies
  Seen<std::string> cluster_;
  Seen<proto::RegisterRequest> asked_;
  Seen<int> registered_;
  Seen<proto::HeartbeatRequest> heard_;
};

class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    std::string name = std::filesystem::temp_directory_path() / "epic-agent-test-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~AgentTest() override {
    agent_.reset();
    for (auto* server : {&engine_server_, &manager_server_}) {
      if (*server != nullptr) (*server)->Shutdown(std::chrono::system_clock::now());
    }
    std::filesystem::remove_all(directory_);
  }
  void Start(bool can_be_watched, uint32_t heartbeat_ms) {
    engine_ = std::make_unique<Engine>(can_be_watched);
    manager_ = std::make_unique<Manager>(heartbeat_ms);
    const std::string socket = directory_ + "/engine.sock";
    grpc::ServerBuilder engine_builder;
    engine_builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    engine_builder.RegisterService(engine_.get());
    engine_server_ = engine_builder.BuildAndStart();
    int port = 0;
    grpc::ServerBuilder manager_builder;
    manager_builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    manager_builder.RegisterService(manager_.get());
    manager_server_ = manager_builder.BuildAndStart();
    auto agent = Agent::Start({.name = "s1",
                               .engine = socket,
                               .manager = "127.0.0.1:" + std::to_string(port),
                               .listen = "127.0.0.1:0"});
    ASSERT_TRUE(agent.ok()) << agent.status();
    agent_ = *std::move(agent);
    ASSERT_TRUE(manager_->registered().Await([](int times) { return times > 0; }, kPatience));
  }

  std::string directory_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Manager> manager_;
  std::unique_ptr<grpc::Server> engine_server_, manager_server_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentTest, WhatChangesAtAPortIsToldAtOnce) {
  Start(true, 60'000);
  for (const int neighbours : {1, 2}) {
    engine_->AddNeighbour("leaf1");
    EXPECT_TRUE(manager_->HearsOf(neighbours)) << neighbours;
  }
}

TEST_F(AgentTest, AnEngineThatCannotBeWatchedIsToldOfByHeartbeats) {
  Start(false, 100);
  ASSERT_TRUE(engine_->watched().Await([](int times) { return times > 0; }, kPatience));
  engine_->AddNeighbour("leaf1");
  EXPECT_TRUE(manager_->HearsOf(1));
}

// Whatever it says: while it takes connections, and has not been silent for long, it is slow.
TEST_F(AgentTest, AnEngineWhoseCallsFailIsSlowAndNotDown) {
  Start(true, 100);
  for (const grpc::StatusCode code :
       {grpc::UNAVAILABLE, grpc::INTERNAL, grpc::CANCELLED, grpc::RESOURCE_EXHAUSTED, grpc::UNKNOWN}) {
    engine_->FailWith(code);
    ASSERT_TRUE(manager_->heard().Await([](const auto& heard) { return heard.engine_slow(); }, kPatience)) << code;
    EXPECT_TRUE(manager_->heard().Get().engine_up()) << code;
    EXPECT_EQ(manager_->heard().Get().as_of(), 0u) << "it is what it said before";
    engine_->FailWith(grpc::OK);
    ASSERT_TRUE(manager_->heard().Await(
        [](const auto& heard) { return heard.engine_up() && !heard.engine_slow(); }, kPatience))
        << code;
  }
}

TEST_F(AgentTest, AnEngineWhoseSocketRefusesIsDown) {
  Start(true, 100);
  engine_server_->Shutdown(std::chrono::system_clock::now());
  engine_server_ = nullptr;
  EXPECT_TRUE(manager_->heard().Await([](const auto& heard) { return heard.epoch() == 0 && !heard.engine_up() && !heard.name().empty(); },
                                      kPatience));
}

// Of a group that is none, without a word to the engine: as the caller takes it.
TEST_F(AgentTest, ItsOwnRefusalIsAReplyToWhoTakesIt) {
  Start(true, 60'000);
  const auto agent =
      proto::SwitchTable::NewStub(grpc::CreateChannel(agent_->address(), grpc::InsecureChannelCredentials()));
  proto::InstallRequest request;
  proto::InstallReply reply;
  grpc::ClientContext plain;
  const grpc::Status status = agent->Install(&plain, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "group_id: missing");
  request.set_takes_refusal(true);
  grpc::ClientContext typed;
  EXPECT_TRUE(agent->Install(&typed, request, &reply).ok());
  EXPECT_EQ(reply.refusal().kind(), proto::REFUSAL_CONFIG);
  EXPECT_EQ(reply.refusal().message(), "group_id: missing");
}

// The registration's is the first, and each heartbeat has the one before.
TEST_F(AgentTest, AHeartbeatSaysWhichReplyItsEngineWasAskedAfter) {
  Start(true, 100);
  for (const uint64_t as_of : {1, 2, 3})
    EXPECT_TRUE(
        manager_->heard().Await([as_of](const auto& heard) { return heard.as_of() >= as_of; }, kPatience));
}

TEST_F(AgentTest, WhatItAsksOfItsEngineIsItsManagers) {
  Start(true, 100);
  engine_->AddGroup(5);
  manager_->Become("before");
  ASSERT_TRUE(
      engine_->removed().Await([](const auto& removed) { return removed.group_id() == 5; }, kPatience));
  EXPECT_EQ(engine_->removed().Get().fence().cluster(), "before");
  EXPECT_EQ(engine_->held().Get().fence().cluster(), "before");
  EXPECT_FALSE(engine_->held().Get().takes_over());
  EXPECT_TRUE(
      engine_->heard().Await([](const auto& heard) { return heard.cluster() == "before"; }, kPatience))
      << "that its manager is there is told, too";
  // The next one at this address is told whom it follows.
  manager_->Become("after");
  ASSERT_TRUE(
      engine_->held().Await([](const auto& held) { return held.fence().cluster() == "after"; }, kPatience));
  EXPECT_EQ(manager_->asked().Get().follows(), "before");
  EXPECT_TRUE(engine_->held().Get().takes_over());
}

TEST_F(AgentTest, ASwitchThatIsAnothersIsNotTouched) {
  Start(true, 100);
  engine_->AddGroup(5);
  engine_->fenced_ = true;
  const int before = manager_->registered().Get();
  manager_->Become("second");
  ASSERT_TRUE(manager_->registered().Await([before](int times) { return times >= before + 2; }, kPatience))
      << "it tries again";
  EXPECT_EQ(engine_->removed().Get().group_id(), 0u);
  engine_->fenced_ = false;
  EXPECT_TRUE(
      engine_->removed().Await([](const auto& removed) { return removed.group_id() == 5; }, kPatience));
}

// As an operator meets it who takes the agent's port for the manager's.
TEST_F(AgentTest, ItSaysOfItselfThatItIsNoManager) {
  Start(true, 60'000);
  const auto manager =
      proto::Manager::NewStub(grpc::CreateChannel(agent_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  proto::ListSwitchesReply reply;
  const grpc::Status status = manager->ListSwitches(&context, {}, &reply);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(status.error_message(), "this is the agent of switch s1, not the manager");
  grpc::ClientContext session_context;
  const auto session = manager->Session(&session_context);
  proto::ServerMessage message;
  EXPECT_FALSE(session->Read(&message));
  EXPECT_EQ(session->Finish().error_message(), "this is the agent of switch s1, not the manager");
}

TEST_F(AgentTest, AManagersAddressThatIsNoneIsRefused) {
  for (const char* address : {"http://m:7400", "127.0.0.1:0"}) {
    const auto agent = Agent::Start(
        {.name = "s1", .engine = directory_ + "/engine.sock", .manager = address, .listen = "127.0.0.1:0"});
    ASSERT_FALSE(agent.ok()) << address;
    EXPECT_EQ(agent.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(agent.status().message()).find("--manager, EPIC_MANAGER"), std::string::npos);
  }
}

// Whose it is may come later.
TEST_F(AgentTest, ANameThatIsNotKnownYetEndsNoAgent) {
  EXPECT_TRUE(Agent::Start({.name = "s1",
                            .engine = directory_ + "/engine.sock",
                            .manager = "-.-:7400",
                            .listen = "127.0.0.1:0"})
                  .ok());
}

TEST_F(AgentTest, AnAddressThatNobodyCanCallBackNamesItsOption) {
  struct Case {
    const char *listen, *advertise, *says;
  };
  const Case cases[] = {
      {"127.0.0.1:99999", "", "listen (--listen): '127.0.0.1:99999' is no address to listen on: '99999' is not a port"},
      {"127.0.0.1", "", "listen (--listen): '127.0.0.1' is no address to listen on: it has no port"},
      {"0.0.0.0:0", "", "advertise (--advertise): the manager cannot call back on 0.0.0.0:0; say under which"},
      {"[::]:0", "", "advertise (--advertise): the manager cannot call back on [::]:0; say under which"},
      {"*:0", "", "advertise (--advertise): the manager cannot call back on *:0; say under which"},
      {"127.0.0.1:0", "[::]:7401", "advertise (--advertise): '[::]:7401' is no address to be called at"},
      {"127.0.0.1:0", "127.0.0.1:0", "advertise (--advertise): '127.0.0.1:0' is no address to be called at: '0' is not a port"}};
  for (const Case& wrong : cases) {
    const auto agent = Agent::Start({.name = "s1",
                                     .engine = directory_ + "/engine.sock",
                                     .manager = "127.0.0.1:7400",
                                     .listen = wrong.listen,
                                     .advertise = wrong.advertise});
    ASSERT_FALSE(agent.ok()) << wrong.listen;
    EXPECT_EQ(agent.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(agent.status().message()).find(wrong.says), 0U) << agent.status();
  }
}

TEST_F(AgentTest, WhatItTellsTheManagerIsWhereItListensInNumbers) {
  const AgentOptions options{
      .name = "s1", .engine = directory_ + "/engine.sock", .manager = "127.0.0.1:7400", .listen = "localhost:0"};
  const auto agent = Agent::Start(options);
  ASSERT_TRUE(agent.ok()) << agent.status();
  const std::string address = (*agent)->address();
  EXPECT_TRUE(address.starts_with("127.0.0.1:") || address.starts_with("[::1]:")) << address;
  EXPECT_FALSE(address.ends_with(":0")) << address;
  AgentOptions everywhere = options;
  everywhere.listen = "*:0";
  everywhere.advertise = "leaf1:7401";
  const auto other = Agent::Start(everywhere);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->address(), "leaf1:7401");
}

}  // namespace
}  // namespace epic::agent
