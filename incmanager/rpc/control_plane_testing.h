// A control plane in one process for tests: the real manager and agents over gRPC on loopback, engines that
// only keep tables, and ranks that only join.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "incagent/agent.h"
#include "incmanager/rpc/fake_engine_testing.h"
#include "incmanager/rpc/server.h"
#include "incmanager/store/store.h"
#include "incmanager/topology_testing.h"
#include "proto/manager.grpc.pb.h"
#include "proto/switch.grpc.pb.h"

namespace epic::manager::testing {

// A rank's session.
class Rank {
 public:
  explicit Rank(proto::Manager::Stub* stub) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub->Session(&context_);
  }
  ~Rank() {
    if (stream_ == nullptr) return;
    Kill();
  }
  void Join(const proto::Join& join) {
    proto::ClientMessage message;
    *message.mutable_join() = join;
    stream_->Write(message);
  }
  void Say(const proto::ClientMessage& message) { stream_->Write(message); }
  void Leave() {
    proto::ClientMessage message;
    message.mutable_leave()->set_drained(true);
    stream_->Write(message);
  }
  void Abort(const std::string& reason) {
    proto::ClientMessage message;
    message.mutable_abort()->set_reason(reason);
    stream_->Write(message);
  }
  void Tell(const proto::PeerEnd& end) {
    proto::ClientMessage message;
    *message.mutable_peer() = end;
    stream_->Write(message);
  }
  void Tell(const proto::CallsMade& calls) {
    proto::ClientMessage message;
    *message.mutable_calls() = calls;
    stream_->Write(message);
  }
  void Tell(const proto::WindowInUse& window) {
    proto::ClientMessage message;
    *message.mutable_window() = window;
    stream_->Write(message);
  }
  // The next message that is neither Waiting, a probe nor a sign of life; KIND_NOT_SET when the stream has
  // ended.
  proto::ServerMessage Next() {
    proto::ServerMessage message;
    while (stream_->Read(&message)) {
      if (message.kind_case() == proto::ServerMessage::KIND_NOT_SET || message.has_probe()) continue;
      if (!message.has_waiting()) return message;
      missing.assign(message.waiting().missing_ranks().begin(), message.waiting().missing_ranks().end());
    }
    return {};
  }
  // As if the process had died.
  void Kill() {
    context_.TryCancel();
    stream_->Finish();
    stream_ = nullptr;
  }

  std::vector<uint32_t> missing;  // as told last

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::ClientMessage, proto::ServerMessage>> stream_;
};

// Of a store that is somebody else's.
class LentStore : public Store {
 public:
  explicit LentStore(Store* of) : of_(of) {}
  StatusOr<Contents> Load() override { return of_->Load(); }
  Status Apply(const Batch& batch) override { return of_->Apply(batch); }
  void Close() override { of_->Close(); }
  std::string Place() const override { return of_->Place(); }
  BatchBounds bounds() const override { return of_->bounds(); }
  bool Holds() const override { return of_->Holds(); }
  std::optional<uint64_t> Epoch() const override { return of_->Epoch(); }

 private:
  Store* const of_;
};

// Manager, and an agent and engine per switch.
class ControlPlane {
 public:
  // store: where the manager keeps what outlives it; outlives this. Null: nowhere.
  explicit ControlPlane(const TopologyBuilder& builder, const GroupOptions& options = {},
                        Store* store = nullptr, const CommitTimes& times = {})
      : topology(builder.Build()), options_(options), store_(store), times_(times) {
    char name[] = "/tmp/epic-control-XXXXXX";
    directory_ = mkdtemp(name);
    StartManager("127.0.0.1:0");
    for (const NodeId node : topology.switches) {
      StartEngine(topology.nodes[node].name, 1);
      StartAgent(topology.nodes[node].name);
    }
    EXPECT_TRUE(Eventually([this] {
      for (const NodeId node : topology.switches) {
        if (StateOf(topology.nodes[node].name) != "up") return false;
      }
      return true;
    }));
  }
  ~ControlPlane() {
    ranks.clear();
    agents.clear();
    server.reset();
    engines.clear();
    std::filesystem::remove_all(directory_);
  }

  void StartManager(const std::string& listen) {
    server.reset();
    std::unique_ptr<Store> lent;
    if (store_ != nullptr) lent = std::make_unique<LentStore>(store_);
    auto started = ManagerServer::Start(
        topology, options_, listen, {}, std::move(lent), [](const std::string&) {}, times_);
    ASSERT_TRUE(started.ok()) << started.status();
    server = std::move(*started);
    address = fmt::format("127.0.0.1:{}", server->port());
    stub = proto::Manager::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  }
  void StartEngine(const std::string& name, uint64_t boot_id) {
    engines[name] =
        std::make_unique<FakeEngine>(topology.nodes[*topology.FindNode(name)], Socket(name), boot_id);
  }
  void StartAgent(const std::string& name) {
    auto agent = agent::Agent::Start({name, Socket(name), address, "127.0.0.1:0", ""});
    ASSERT_TRUE(agent.ok()) << agent.status();
    agents[name] = std::move(*agent);
  }

  proto::SwitchState Switch(const std::string& switch_name) {
    grpc::ClientContext context;
    proto::ListSwitchesReply reply;
    const grpc::Status status = stub->ListSwitches(&context, {}, &reply);
    for (const auto& state : reply.switches()) {
      if (status.ok() && state.name() == switch_name) return state;
    }
    return {};
  }
  std::string StateOf(const std::string& switch_name) { return Switch(switch_name).state(); }
  std::string AgentOf(const std::string& switch_name) { return Switch(switch_name).agent_address(); }
  proto::GroupState Show(const std::string& group, bool ask_ranks = false) {
    grpc::ClientContext context;
    proto::ShowGroupRequest request;
    request.set_name(group);
    request.set_ask_ranks(ask_ranks);
    proto::GroupState reply;
    if (!stub->ShowGroup(&context, request, &reply).ok()) reply.set_state("none");
    return reply;
  }
  grpc::Status Destroy(const std::string& group, bool force) {
    grpc::ClientContext context;
    proto::DestroyGroupRequest request;
    request.set_name(group);
    request.set_force(force);
    proto::DestroyGroupReply reply;
    return stub->DestroyGroup(&context, request, &reply);
  }

  proto::Join Request(uint32_t rank, uint32_t size, const std::string& group = "g") const {
    const Node& host = topology.nodes[*topology.FindNode(fmt::format("h{}", rank))];
    proto::Join join;
    join.set_group(group);
    join.set_rank(rank);
    join.set_world_size(size);
    join.set_ip(Raw(host.address));
    join.set_qpn(0x11 + rank);
    join.set_max_path_mtu(4096);
    join.set_max_outstanding(129);
    join.set_host_name(host.name);
    join.set_pid(1000 + rank);
    return join;
  }
  Rank& Join(const proto::Join& join) {
    ranks.push_back(std::make_unique<Rank>(stub.get()));
    ranks.back()->Join(join);
    return *ranks.back();
  }
  // Joins ranks 0 to size - 1 and expects all to be told to start; returns what they were told.
  std::vector<proto::Joined> Run(uint32_t size, const std::string& group = "g") {
    const size_t first = ranks.size();
    for (uint32_t rank = 0; rank < size; ++rank) Join(Request(rank, size, group));
    std::vector<proto::Joined> joined;
    for (uint32_t rank = 0; rank < size; ++rank) {
      const proto::ServerMessage message = ranks[first + rank]->Next();
      EXPECT_TRUE(message.has_joined()) << message.ShortDebugString();
      joined.push_back(message.joined());
    }
    return joined;
  }
  size_t Contexts() const {
    size_t count = 0;
    for (const auto& [name, engine] : engines) count += engine->Groups().size();
    return count;
  }

  const Topology topology;
  std::string address;
  std::unique_ptr<ManagerServer> server;
  std::unique_ptr<proto::Manager::Stub> stub;
  std::map<std::string, std::unique_ptr<FakeEngine>> engines;
  std::map<std::string, std::unique_ptr<agent::Agent>> agents;
  std::vector<std::unique_ptr<Rank>> ranks;

 private:
  std::string Socket(const std::string& name) const { return directory_ + "/" + name + ".sock"; }

  const GroupOptions options_;
  Store* const store_;
  const CommitTimes times_;
  std::string directory_;
};

}  // namespace epic::manager::testing
