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
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "incagent/agent.h"
#include "incmanager/rpc/server.h"
#include "incmanager/topology_testing.h"
#include "proto/manager.grpc.pb.h"
#include "proto/switch.grpc.pb.h"

namespace epic::manager::testing {

// Waits until holds() or 15 s are over; returns holds().
inline bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// An engine without a data path.
class FakeEngine : public proto::SwitchTable::Service {
 public:
  static constexpr uint64_t kArena = 4 << 20;

  FakeEngine(const Node& node, const std::string& socket, uint64_t boot_id) : socket_(socket) {
    info_.set_name(node.name);
    info_.set_address(Raw(node.address));
    info_.set_mac(std::string(node.mac.begin(), node.mac.end()));
    info_.set_boot_id(boot_id);
    info_.set_version("fake");
    info_.mutable_capability()->add_modes(proto::MODE_TRANSLATED);
    info_.mutable_capability()->set_max_path_mtu(4096);
    info_.mutable_capability()->set_max_children(64);
    info_.mutable_capability()->set_arena_bytes(kArena);
    for (const Hop& hop : node.hops) {
      proto::PortInfo* port = info_.add_ports();
      port->set_name(hop.port);
      port->set_mtu(4200);
      port->set_up(true);
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeEngine() override {
    {
      const std::lock_guard lock(mutex_);
      keep_dumps_ = false;
    }
    dumps_go_.notify_all();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    std::filesystem::remove(socket_);
  }

  std::vector<proto::GroupConfig> Groups() const {
    const std::lock_guard lock(mutex_);
    std::vector<proto::GroupConfig> groups;
    for (const auto& [id, group] : groups_) groups.push_back(group);
    return groups;
  }
  proto::ForwardingTable Forwarding() const {
    const std::lock_guard lock(mutex_);
    return forwarding_;
  }
  int fails() const {
    const std::lock_guard lock(mutex_);
    return fails_;
  }
  void SetArenaLeft(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    arena_left_ = bytes;
  }
  // It is not of an earlier version, which tells of its memory in words alone.
  void TellNumbers() {
    const std::lock_guard lock(mutex_);
    tells_numbers_ = true;
  }

  // From now on no echo reaches it.
  void SetDeaf() {
    const std::lock_guard lock(mutex_);
    deaf_ = true;
  }
  size_t probed() const {
    const std::lock_guard lock(mutex_);
    return probed_.size();
  }

  // Invocations that ranks have opened, as its dumps tell.
  void SetCalls(const std::map<uint32_t, int64_t>& calls) {
    const std::lock_guard lock(mutex_);
    calls_ = calls;
  }
  // From now on questions for dumps are not answered.
  void KeepDumps() {
    const std::lock_guard lock(mutex_);
    keep_dumps_ = true;
  }

  void RefuseOneRemoval() {
    const std::lock_guard lock(mutex_);
    refuse_removal_ = true;
  }

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*,
                        proto::EngineInfo* reply) override {
    const std::lock_guard lock(mutex_);
    *reply = InfoLocked();
    return grpc::Status::OK;
  }
  grpc::Status Install(grpc::ServerContext*, const proto::InstallRequest* request,
                       proto::InstallReply* reply) override {
    const std::lock_guard lock(mutex_);
    const proto::GroupConfig& group = request->group();
    const uint64_t bytes = uint64_t{group.slots()} * group.path_mtu();
    if (bytes > arena_left_ && tells_numbers_ && request->takes_refusal()) {
      proto::Refusal& refusal = *reply->mutable_refusal();
      refusal.set_kind(proto::REFUSAL_MEMORY);
      refusal.set_message("no room");
      refusal.set_needed_bytes(bytes);
      refusal.set_left_bytes(arena_left_);
      refusal.set_all_bytes(kArena);
      return grpc::Status::OK;
    }
    if (bytes > arena_left_)
      return {grpc::RESOURCE_EXHAUSTED, fmt::format("arena: {} bytes needed, {} left", bytes, arena_left_)};
    if (!groups_.emplace(group.group_id(), group).second) return {grpc::ALREADY_EXISTS, "group_id"};
    reply->set_arena_bytes(bytes);
    return grpc::Status::OK;
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::RemoveRequest* request,
                      proto::RemoveReply*) override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(refuse_removal_, false)) return {grpc::UNAVAILABLE, "busy"};
    const auto found = groups_.find(request->group_id());
    if (found != groups_.end() && found->second.generation() == request->generation()) groups_.erase(found);
    return grpc::Status::OK;
  }
  grpc::Status Fail(grpc::ServerContext*, const proto::FailRequest*, proto::FailReply*) override {
    const std::lock_guard lock(mutex_);
    ++fails_;
    return grpc::Status::OK;
  }
  grpc::Status SetForwarding(grpc::ServerContext*, const proto::SetForwardingRequest* request,
                             proto::SetForwardingReply*) override {
    const std::lock_guard lock(mutex_);
    forwarding_ = request->table();
    return grpc::Status::OK;
  }
  grpc::Status Probe(grpc::ServerContext*, const proto::ProbeRequest* request,
                     proto::ProbeReply* reply) override {
    const std::lock_guard lock(mutex_);
    reply->set_asked(!probed_.insert(request->ip()).second);
    reply->set_answered(deaf_ ? 0 : 1);
    return grpc::Status::OK;
  }
  grpc::Status Dump(grpc::ServerContext*, const proto::DumpRequest*, proto::DumpReply* reply) override {
    std::unique_lock lock(mutex_);
    dumps_go_.wait(lock, [this] { return !keep_dumps_; });
    *reply->mutable_info() = InfoLocked();
    *reply->mutable_forwarding() = forwarding_;
    for (const auto& [id, group] : groups_) {
      proto::GroupDump& dump = *reply->add_groups();
      *dump.mutable_config() = group;
      dump.set_tells_waits(!calls_.empty());
      for (const proto::EndpointConfig& child : group.children()) {
        proto::EndpointDump& endpoint = *dump.add_children();
        *endpoint.mutable_config() = child;
        const auto calls = child.is_host() ? calls_.find(child.ranks(0)) : calls_.end();
        if (calls != calls_.end()) endpoint.set_calls(calls->second);
      }
    }
    return grpc::Status::OK;
  }

 private:
  proto::EngineInfo InfoLocked() const {
    proto::EngineInfo info = info_;
    for (const auto& [id, group] : groups_) info.add_group_ids(id);
    return info;
  }

  const std::string socket_;
  proto::EngineInfo info_;
  mutable std::mutex mutex_;
  std::map<uint64_t, proto::GroupConfig> groups_;
  proto::ForwardingTable forwarding_;
  uint64_t arena_left_ = kArena;
  bool tells_numbers_ = false;
  int fails_ = 0;
  bool refuse_removal_ = false;
  bool deaf_ = false;
  std::set<uint32_t> probed_;  // addresses
  std::map<uint32_t, int64_t> calls_;
  bool keep_dumps_ = false;
  std::condition_variable dumps_go_;
  std::unique_ptr<grpc::Server> server_;
};

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

// Manager, and an agent and engine per switch.
class ControlPlane {
 public:
  explicit ControlPlane(const TopologyBuilder& builder, const GroupOptions& options = {})
      : topology(builder.Build()), options_(options) {
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
    auto started = ManagerServer::Start(topology, options_, listen);
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
  std::string directory_;
};

}  // namespace epic::manager::testing
