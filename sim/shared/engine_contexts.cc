#include "sim/shared/engine_contexts.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "sim/shared/translate.h"

namespace epic::sim {
namespace {

// A QPN of 65,536 is of these by chance once in some hundred runs.
constexpr size_t kMostByChance = 2;

std::vector<Qpn> QpnsOf(const engine::GroupConfig& config) {
  std::vector<Qpn> qpns;
  if (config.parent) qpns.push_back(config.parent->local_qpn);
  for (const engine::EndpointConfig& child : config.children) qpns.push_back(child.local_qpn);
  return qpns;
}

}  // namespace

void EngineContexts::Complain(std::string what) {
  if (wrong_.empty()) wrong_ = std::move(what);
}

manager::InstallAnswer EngineContexts::Install(manager::NodeId node, const manager::ContextPlan& context) {
  if (world_.now() < world_.switch_up_at(static_cast<int>(node)))
    return {.status = MakeStatus(StatusCode::kUnavailable, "the engine does not answer")};
  const engine::GroupConfig config = ConfigOf(context);
  const auto bytes = world_.engine(static_cast<int>(node)).Install(config);
  if (bytes.ok()) {
    for (const Qpn qpn : QpnsOf(config)) Take(node, config.group_id, qpn);
    return {.arena_bytes = *bytes};
  }
  if (states_arena_ || bytes.status().code() != StatusCode::kResourceExhausted) {
    Complain(fmt::format("switch {} refused group {}, for which there should be room: {}\n", node,
                         context.name, std::string(bytes.status().message())));
  }
  return {.status = bytes.status()};
}

void EngineContexts::Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  engine::Engine& engine = world_.engine(static_cast<int>(node));
  if (const auto found = engine.groups().find(group_id); found != engine.groups().end())
    Forget(node, found->second.config);
  engine.Remove(group_id, generation);
}

void EngineContexts::RemoveUnknown(manager::NodeId node, uint64_t group_id) {
  engine::Engine& engine = world_.engine(static_cast<int>(node));
  const auto found = engine.groups().find(group_id);
  if (found == engine.groups().end()) return;
  Forget(node, found->second.config, /*unknown=*/true);
  engine.Remove(group_id, found->second.config.generation);
}

void EngineContexts::OnCrash(manager::NodeId node) {
  for (const auto& [id, context] : world_.engine(static_cast<int>(node)).groups())
    Forget(node, context.config);
}

void EngineContexts::Forget(manager::NodeId node, const engine::GroupConfig& config, bool unknown) {
  for (const Qpn qpn : QpnsOf(config)) {
    qpns_.erase({node, qpn});
    (unknown ? forgotten_ : resting_)[{node, qpn}] = world_.now();
  }
}

bool EngineContexts::HasRested(const Rests& rests, manager::NodeId node, Qpn qpn) const {
  const auto since = rests.find({node, qpn});
  return since == rests.end() || world_.now() >= since->second + manager::QpnPool::kQuarantine;
}

void EngineContexts::Take(manager::NodeId node, uint64_t group_id, Qpn qpn) {
  const auto complain = [&](const char* why) {
    Complain(fmt::format("switch {}: QPN {:#x} of group {:#x} {}\n", node, Raw(qpn), group_id, why));
  };
  if (!qpns_.emplace(node, qpn).second) complain("is in use");
  if (!HasRested(resting_, node, qpn)) complain("has not rested");
  if (HasRested(forgotten_, node, qpn)) return;
  early_.insert(group_id);
  if (early_.size() > kMostByChance) complain("and others have not rested since the manager before");
}

void EngineContexts::OnManagerLost() {
  for (const auto& [qpn, since] : std::exchange(resting_, {})) forgotten_[qpn] = since;
}

std::string EngineContexts::Leftovers(const manager::QpnPool& qpns) const {
  std::string out;
  for (int s = 0; s < world_.switches(); ++s) {
    const engine::Engine& engine = static_cast<const World&>(world_).engine(s);
    const engine::Arena& arena = engine.arena();
    if (!engine.groups().empty() || !engine.blocks().empty() || arena.free_bytes() != arena.size()) {
      out += fmt::format("switch {} has {} groups, {} blocks, {} of {} bytes free\n", s,
                         engine.groups().size(), engine.blocks().size(), arena.free_bytes(), arena.size());
    }
    const size_t used = qpns.InUse(static_cast<manager::NodeId>(s));
    if (used > 0) out += fmt::format("{} QPNs of switch {} have not been given back\n", used, s);
  }
  if (!qpns_.empty()) out += fmt::format("contexts still have {} QPNs\n", qpns_.size());
  return out;
}

}  // namespace epic::sim
