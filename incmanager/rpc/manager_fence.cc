// Whose a switch is, as the manager judges it when the switch registers (docs/PROTOCOL-CONTROL.md, section
// 15).
#include <fmt/format.h>

#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

constexpr size_t kMostAdopted = 1'000;

}  // namespace

void ManagerState::NameItself(const std::string& cluster, uint64_t epoch, bool keeps) {
  fence_.set_cluster(cluster);
  fence_.set_epoch(epoch);
  fence_.set_keeps(keeps);
}

Status ManagerState::RefusesOthers(const proto::RegisterRequest& request) const {
  const proto::Fence& held = request.engine().fence();
  if (held.cluster().empty() || fence_.cluster().empty()) return absl::OkStatus();
  if (held.cluster() == fence_.cluster()) {
    if (held.epoch() <= fence_.epoch()) return absl::OkStatus();
    return MakeStatus(
        StatusCode::kFailedPrecondition,
        fmt::format("fenced: it has heard epoch {} of cluster {}, and this manager is of epoch {}: a later "
                    "manager has this store, or had a copy of it",
                    held.epoch(), ClusterName(held.cluster()), fence_.epoch()));
  }
  if (!request.engine().fenced() || TakesOver(request)) return absl::OkStatus();
  return MakeStatus(
      StatusCode::kFailedPrecondition,
      fmt::format("fenced: it has contexts of cluster {}, epoch {}, and this manager is of cluster {}, epoch "
                  "{}; `incmanager adopt {}` makes it this manager's, and ends the other's groups there",
                  ClusterName(held.cluster()), held.epoch(), ClusterName(fence_.cluster()), fence_.epoch(),
                  Shortened(request.name())));
}

// Groups of a manager without a store have ended with it; whoever serves at its address now has come after
// it.
bool ManagerState::TakesOver(const proto::RegisterRequest& request) const {
  const proto::Fence& held = request.engine().fence();
  if (held.cluster() == fence_.cluster()) return false;
  return adopted_.contains(request.name()) ||
         (!held.keeps() && !held.cluster().empty() && request.follows() == held.cluster());
}

void ManagerState::SignReply(const proto::RegisterRequest& request, proto::RegisterReply* reply) {
  if (fence_.cluster().empty()) return;
  *reply->mutable_fence() = fence_;
  reply->set_takes_over(TakesOver(request));
  if (request.engine().fence().cluster() == fence_.cluster()) adopted_.erase(request.name());
}

bool ManagerState::AwaitsAdoption(const proto::HeartbeatRequest& heartbeat) {
  if (!heartbeat.engine_up() || !adopted_.contains(heartbeat.name())) return false;
  const std::string& holder = heartbeat.engine().fence().cluster();
  if (!holder.empty() && holder != fence_.cluster()) return true;
  adopted_.erase(heartbeat.name());
  return false;
}

Status ManagerState::Adopt(Nanos now, const std::string& switch_name) {
  now_ = now;
  if (!graph_.discovers() && !topology_.FindSwitch(switch_name))
    return MakeStatus(StatusCode::kNotFound,
                      fmt::format("the topology has no switch {}", Shortened(switch_name)));
  if (adopted_.size() >= kMostAdopted && !adopted_.contains(switch_name)) {
    return MakeStatus(
        StatusCode::kResourceExhausted,
        fmt::format("{} switches are to be adopted, and nothing has been heard of their agents yet",
                    adopted_.size()));
  }
  adopted_.insert(switch_name);
  Note(fmt::format("switch {}: to be adopted when its agent is heard next", Shortened(switch_name)));
  return absl::OkStatus();
}

}  // namespace epic::manager
