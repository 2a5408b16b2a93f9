// What the manager has of a former one, and what its store is to keep.
#include <fmt/format.h>

#include <utility>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/convert_policy.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// Of one batch, which stays below Store::kMostBytes.
constexpr size_t kMostEvents = 500, kMostBegun = 1'000;

}  // namespace

void ManagerState::Resume(const Moment& at, const Kept& kept, const std::string& place) {
  now_ = at.now;
  events_.Resume(kept.events);
  groups_.Resume(kept.groups);
  Note(fmt::format("manager: started with the store {}: cluster {}, epoch {}, {}, {}", place,
                   ClusterName(kept.cluster), kept.epoch,
                   Counted(kept.groups.reserved.size(), "reserved group"),
                   Counted(kept.groups.tenants.size(), "tenant")));
}

StatusOr<Batch> ManagerState::Keep(const proto::CreateGroupRequest& request) const {
  const StatusOr<GroupSpec> spec = groups_.MayCreate(FromProto(request));
  if (!spec.ok()) return spec.status();
  return Batch{RowOf(*spec)};
}

StatusOr<Batch> ManagerState::Keep(const proto::DestroyGroupRequest& request) const {
  if (Status status = groups_.MayDestroy(request.name(), request.force()); !status.ok()) return status;
  if (groups_.FindReserved(request.name()) == nullptr) return Batch{};
  return Batch{{{RowKind::kReserved, request.name()}, {}}, {{RowKind::kLives, request.name()}, {}}};
}

StatusOr<Batch> ManagerState::Keep(const proto::PolicyRequest& request) const {
  if (request.policy().empty()) return Batch{};
  const auto policy = PolicyFromProto(request);
  if (!policy.ok()) return policy.status();
  return Batch{RowOf(*policy)};
}

StatusOr<Batch> ManagerState::Keep(const proto::SetTenantRequest& request) const {
  const StatusOr<Tenant> tenant = FromProto(request.tenant());
  if (!tenant.ok()) return tenant.status();
  if (Status status = groups_.MaySetTenant(*tenant); !status.ok()) return status;
  return Batch{RowOf(*tenant)};
}

StatusOr<Batch> ManagerState::Keep(const proto::RemoveTenantRequest& request) const {
  if (Status status = groups_.MayRemoveTenant(request.name()); !status.ok()) return status;
  return Batch{{{RowKind::kTenant, request.name()}, {}}};
}

RowChange ManagerState::TruthOf(const RowKey& row) const {
  switch (row.kind) {
    case RowKind::kMeta:  // of the two only the policy changes
      return RowOf(groups_.default_policy());
    case RowKind::kReserved: {
      const GroupSpec* const spec = groups_.FindReserved(row.key);
      return spec == nullptr ? RowChange{row, {}} : RowOf(*spec);
    }
    case RowKind::kLives: {
      const uint32_t lives = groups_.LivesOf(row.key);
      return lives == 0 ? RowChange{row, {}} : RowOfLives(row.key, lives);
    }
    case RowKind::kTenant: {
      const Tenant* const tenant = groups_.tenants().Find(row.key);
      return tenant == nullptr ? RowChange{row, {}} : RowOf(*tenant);
    }
    case RowKind::kEvent:  // written by TakeUnkept alone
      break;
  }
  return {row, {}};
}

Batch ManagerState::TruthOf(const Batch& of) const {
  Batch truth;
  for (const RowChange& change : of) truth.push_back(TruthOf(change.row));
  return truth;
}

Batch ManagerState::TakeUnkept(const Moment& at) {
  Batch batch;
  for (const std::string& name : groups_.TakeBegun(kMostBegun))
    batch.push_back(TruthOf({RowKind::kLives, name}));
  const EventLog::Changes changes = events_.TakeChanges(kMostEvents);
  for (const uint64_t number : changes.dropped) batch.push_back({EventKey(number), {}});
  for (const Event& event : changes.events) batch.push_back(RowOf(event, at));
  return batch;
}

void ManagerState::OnStoreHealth(Nanos now, const Status& health) {
  const std::string trouble = health.ok() ? "" : Shortened(std::string(health.message()));
  if (trouble == store_trouble_) return;
  now_ = now;
  store_trouble_ = trouble;
  if (trouble.empty()) return Note("manager: its store can be written again");
  Warn(fmt::format("manager: its store cannot be written, so that nothing new is promised; groups run on: {}",
                   trouble));
}

}  // namespace epic::manager
