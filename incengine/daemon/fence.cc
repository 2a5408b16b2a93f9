#include "incengine/daemon/fence.h"

#include <fmt/format.h>

#include <utility>

namespace epic::daemon {

Status Fence::Enter(Nanos now, const ManagerId& manager, bool takes_over,
                    const std::function<ContextUse()>& contexts) {
  const bool is_same = manager.cluster == manager_.cluster;
  if (is_same && manager.epoch < manager_.epoch) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("fenced: the call is of {}, and this switch has heard epoch {} of it",
                                  Describe(manager), manager_.epoch));
  }
  const auto is_held = [&] {
    const ContextUse use = contexts();
    Saw(now, use.merged);
    return Holds(now, use.any);
  };
  if (!is_same && !takes_over && !manager_.cluster.empty() && is_held()) {
    return MakeStatus(StatusCode::kFailedPrecondition,
                      fmt::format("fenced: the call is of {}, and this switch has contexts of {}",
                                  Describe(manager), Describe(manager_)));
  }
  manager_ = manager;
  heard_ = now;
  return {};
}

void Fence::Heard(Nanos now, const ManagerId& manager) {
  if (manager.cluster == manager_.cluster && manager.epoch >= manager_.epoch) heard_ = now;
}

void Fence::Saw(Nanos now, uint64_t merged) {
  if (std::exchange(merged_, merged) != merged) merged_at_ = now;
}

bool Fence::Holds(Nanos now, bool has_contexts) const {
  const Nanos patience = manager_.keeps ? kSilentKeeper : kSilent;
  const bool is_live = now - heard_ < patience || now - merged_at_ < kIdle;
  return has_contexts && !manager_.cluster.empty() && is_live;
}

std::string Describe(const ManagerId& manager) {
  if (manager.cluster.empty()) return "a manager of an earlier version";
  std::string name;
  for (const char c : manager.cluster) name += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return fmt::format("cluster {}, epoch {}", name, manager.epoch);
}

}  // namespace epic::daemon
