// An engine for tests of the control plane that only keeps tables, behind a real socket.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "incmanager/topology.h"
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

}  // namespace epic::manager::testing
