// A switch as the manager's calls find it: the agent's checks and the engine's own tables, without sockets
// and without a data path.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/stable_hash.h"
#include "incagent/checks.h"
#include "incengine/core/engine.h"
#include "incengine/core/forwarding.h"
#include "incengine/daemon/convert.h"
#include "incmanager/groups/install_answer.h"
#include "incmanager/topology.h"
#include "proto/manager.pb.h"
#include "protocol/bounds.h"

namespace epic::manager::testing {

class SwitchModel {
 public:
  static constexpr size_t kArenaBytes = 1 << 18;

  // node outlives this.
  explicit SwitchModel(const Node& node) : node_(node) {
    for (const Hop& hop : node.hops) ports_.push_back(hop.port);
    Start();
  }

  // Anew, without contexts.
  void Start() {
    engine_ = std::make_unique<engine::Engine>(node_.address, ports_.size(), kArenaBytes);
    ++boots_;
    table_ = {};
  }
  // As an engine of an earlier version.
  proto::EngineInfo Describe() const {
    proto::EngineInfo info;
    info.set_name(node_.name);
    info.set_address(Raw(node_.address));
    info.set_mac(daemon::MacBytes(node_.mac));
    info.set_boot_id(boots_);
    for (int mode = proto::Mode_MIN + 1; mode <= proto::Mode_MAX; ++mode)
      info.mutable_capability()->add_modes(static_cast<proto::Mode>(mode));
    info.mutable_capability()->set_max_path_mtu(4096);
    info.mutable_capability()->set_max_children(kMaxChildren);
    for (const std::string& name : ports_) {
      info.add_ports()->set_name(name);
      info.mutable_ports()->rbegin()->set_mtu(4200);
      info.mutable_ports()->rbegin()->set_up(true);
    }
    return info;
  }
  // With what it has.
  proto::EngineInfo DescribeAll() const {
    proto::EngineInfo info = Describe();
    for (const auto& [id, group] : engine_->groups()) {
      info.add_group_ids(id);
      proto::ContextInfo& context = *info.add_contexts();
      context.set_group_id(id);
      context.set_generation(group.config.generation);
      context.set_stopped(group.state == engine::GroupState::kStopped);
    }
    info.set_forwarding_hash(StableHash(table_.SerializeAsString()));
    if (!fence.cluster().empty()) *info.mutable_fence() = fence;
    return info;
  }
  // As its description has it: what its engine refuses for good.
  void SetRefused(Nanos now, proto::EngineInfo* info) const {
    info->clear_refused();
    for (const engine::RefusedEndpoint& endpoint : engine::RefusedEndpoints(*engine_, now))
      *info->add_refused() = daemon::ToProto(endpoint, ports_);
  }
  InstallAnswer Install(const proto::GroupConfig& group) {
    if (const Status status = agent::CheckGroup(group, Describe()); !status.ok()) return {.status = status};
    const auto config = daemon::FromProto(group, ports_);
    if (!config.ok()) return {.status = config.status()};
    engine::Shortage shortage;
    const StatusOr<size_t> bytes = engine_->Install(*config, &shortage);
    if (bytes.ok()) return {.arena_bytes = *bytes};
    InstallAnswer answer{.status = bytes.status()};
    if (shortage.needed != 0)
      answer.shortage = {.needed = shortage.needed, .left = shortage.left, .all = shortage.all};
    return answer;
  }
  Status KeepForwarding(uint64_t hash) const {
    if (hash == StableHash(table_.SerializeAsString())) return absl::OkStatus();
    return MakeStatus(StatusCode::kFailedPrecondition, "keeps: another one");
  }
  Status SetForwarding(const proto::ForwardingTable& table) {
    if (const Status status = agent::CheckForwarding(table, Describe()); !status.ok()) return status;
    const auto converted = daemon::FromProto(table, ports_);
    if (!converted.ok()) return converted.status();
    const Status status =
        engine::Forwarding(engine::ForwardingMode::kStatic, ports_.size()).SetTable(*converted);
    if (status.ok()) table_ = table;
    return status;
  }
  // As an agent does when it has registered.
  void RemoveAllBut(const proto::RegisterReply& reply) {
    std::vector<std::pair<uint64_t, uint32_t>> leftovers;
    for (const auto& [id, group] : engine_->groups()) {
      if (std::ranges::count(reply.keep_group_ids(), id) == 0)
        leftovers.emplace_back(id, group.config.generation);
    }
    for (const auto& [id, generation] : leftovers) engine_->Remove(id, generation);
  }
  engine::Engine& engine() { return *engine_; }

  bool honest = true;  // all that the manager was told of it is true
  uint64_t epoch = 0;  // of the manager, as its agent was told
  uint64_t as_of = 0;  // the time in its last reply
  proto::Fence fence;  // whose it is

 private:
  const Node& node_;
  daemon::PortNames ports_;
  uint64_t boots_ = 0;
  std::unique_ptr<engine::Engine> engine_;
  proto::ForwardingTable table_;
};

}  // namespace epic::manager::testing
