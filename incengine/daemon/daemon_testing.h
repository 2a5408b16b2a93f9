// The control service as the agent sees it, for tests: a real server on a temporary Unix socket, real loops,
// a switch without interfaces.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "incengine/daemon/control.h"
#include "incengine/daemon/service.h"
#include "incengine/daemon/sharded_control.h"
#include "proto/switch.grpc.pb.h"

namespace epic::daemon {

inline const PortNames kPorts = {"p0", "p1"};
inline constexpr uint32_t kHost0 = 0x0a000001;

class DaemonTest : public ::testing::Test {
 protected:
  // So many share 64 KiB.
  explicit DaemonTest(size_t shards = 1) {
    std::string name = std::filesystem::temp_directory_path() / "epic-daemon-test-XXXXXX";
    directory_ = mkdtemp(name.data());
    std::vector<ShardedControl::Shard> controls;
    for (size_t i = 0; i < shards; ++i) {
      shards_.push_back(std::make_unique<OneShard>(65536 / shards, &probed_));
      controls.push_back({&shards_[i]->loop, &shards_[i]->control});
    }
    control_ = std::make_unique<ShardedControl>(std::move(controls));
    auto server = ControlServer::Start(socket(), *control_, changes_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = proto::SwitchTable::NewStub(
        grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials()));
  }
  ~DaemonTest() override {
    server_.reset();
    shards_.clear();
    std::filesystem::remove_all(directory_);
  }

  std::string socket() const { return directory_ + "/control.sock"; }

  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (proto::SwitchTable::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                     Reply*),
                    const Request& request, Reply* reply) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return ((*stub_).*method)(&context, request, reply);
  }
  grpc::Status Install(const proto::GroupConfig& group) {
    proto::InstallRequest request;
    *request.mutable_group() = group;
    proto::InstallReply reply;
    const grpc::Status status = Call(&Stub::Install, request, &reply);
    installed_bytes_ = reply.arena_bytes();
    return status;
  }
  proto::EngineInfo Describe() {
    proto::EngineInfo info;
    EXPECT_TRUE(Call(&Stub::Describe, proto::DescribeRequest(), &info).ok());
    return info;
  }
  proto::DumpReply Dump(uint64_t after_group = 0, uint32_t most_groups = 0) {
    proto::DumpRequest page;
    page.set_after_group(after_group);
    page.set_most_groups(most_groups);
    proto::DumpReply dump;
    EXPECT_TRUE(Call(&Stub::Dump, page, &dump).ok());
    return dump;
  }

  using Stub = proto::SwitchTable::Stub;

  struct OneShard {
    OneShard(size_t arena_bytes, std::vector<engine::ProbeTarget>* probed)
        : sw{{.address = Ipv4{0x0a00ff01},
              .mac = {2, 0, 0, 0, 0, 9},
              .port_count = 2,
              .arena_bytes = arena_bytes}},
          control(
              {"s1", "1.2.3", 77}, kPorts, sw, PortStates, nullptr,
              [probed](const engine::ProbeTarget& target) {
                probed->push_back(target);
                return engine::ProbeAnswer{.asked = probed->size() > 1, .answered = 3};
              },
              [](Ipv4 ip) { return ip == Ipv4{kHost0}; }),
          thread([this] { loop.Run(); }) {}
    ~OneShard() {
      loop.Post([this] { loop.Stop(); });
      thread.join();
    }
    static std::vector<PortState> PortStates() {
      return {{.name = "p0", .interface = {.exists = true, .up = true, .mtu = 4200}, .rate_mbps = 25000},
              {.name = "p1", .interface = {.exists = true, .mtu = 1500}}};
    }

    io::EventLoop loop{0};
    engine::Switch sw;
    SwitchControl control;
    std::thread thread;
  };

  Changes changes_;
  std::vector<engine::ProbeTarget> probed_;
  std::string directory_;
  std::vector<std::unique_ptr<OneShard>> shards_;
  std::unique_ptr<ShardedControl> control_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<Stub> stub_;
  uint64_t installed_bytes_ = 0;
};

}  // namespace epic::daemon
