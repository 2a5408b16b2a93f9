#include "incmanager/rpc/convert_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "incmanager/text.h"

namespace epic::manager {
namespace {

constexpr double kKbps = 1e6;  // of a Gbit/s
constexpr double kMostGbps = 1e6;

std::string NoPolicy(const std::string& text) {
  return fmt::format("policy: '{}' is none of shortest, edt, spatial and temporal", Shortened(text));
}

// Nothing if it is no rate, as what is less than nothing, or no number.
std::optional<uint64_t> KbpsOf(double gbps) {
  if (!(gbps >= 0) || gbps > kMostGbps) return std::nullopt;
  return static_cast<uint64_t>(std::llround(gbps * kKbps));
}

std::string NoRate(const char* field, double gbps) {
  return fmt::format("{}: {} is not between 0 and {} Gbit/s", field, gbps, kMostGbps);
}

double DutyOf(uint64_t duty) { return static_cast<double>(duty) / kWholeTime; }

}  // namespace

double GbpsOf(uint64_t kbps) { return static_cast<double>(kbps) / kKbps; }

void AddPolicy(const proto::CreateGroupRequest& request, GroupSpec* spec) {
  if (!request.policy().empty()) {
    const auto policy = PolicyNamed(request.policy());
    if (policy) spec->policy = *policy;
    if (!policy) spec->wrong = NoPolicy(request.policy());
  }
  if (!request.prefer().empty()) {
    const auto prefer = PreferNamed(request.prefer());
    if (prefer) spec->prefer = *prefer;
    if (!prefer) {
      spec->wrong =
          fmt::format("prefer: '{}' is none of auto, latency and bandwidth", Shortened(request.prefer()));
    }
  }
  const auto kbps = KbpsOf(request.rate_gbps());
  spec->rate_kbps = kbps.value_or(0);
  if (!kbps) spec->wrong = NoRate("rate", request.rate_gbps());
  spec->tenant = Shortened(request.tenant());
  spec->job = Shortened(request.job());
  spec->phase = Shortened(request.phase());
  if (!request.has_duty()) return;
  const double duty = request.duty() * kWholeTime;
  // What is less than a millionth is that much.
  if (duty > 0 && duty <= kWholeTime) {
    spec->duty = static_cast<uint32_t>(std::max(std::llround(duty), 1LL));
  } else {
    spec->wrong = fmt::format("duty: {} is not more than 0 and at most 1", request.duty());
  }
}

proto::GroupPlacement PlacementOf(const Group& group) {
  proto::GroupPlacement out;
  const GroupSpec& spec = group.spec;
  if (spec.policy != Policy::kUnspecified) out.set_policy(Name(spec.policy));
  if (HasWidths(spec.policy))
    out.set_prefer(Name(spec.prefer == Prefer::kUnspecified ? Prefer::kAuto : spec.prefer));
  out.set_rate_gbps(GbpsOf(spec.rate_kbps));
  out.set_tenant(spec.tenant);
  out.set_width_gbps(GbpsOf(group.width_kbps));
  if (spec.policy != Policy::kTemporal) return out;
  out.set_duty(DutyOf(ShareOf(spec).duty));
  out.set_job(spec.job);
  out.set_phase(spec.phase);
  return out;
}

void AddBlocks(const Load& load, const Group& group, proto::GroupState* state) {
  for (size_t i = 0; i < group.plan.contexts.size(); ++i) {
    const ContextPlan& context = group.plan.contexts[i];
    const BlockLoads& blocks = load.at(context.node).blocks;
    const auto block = blocks.find(static_cast<uint32_t>(context.block));
    if (block != blocks.end())
      state->mutable_tree(static_cast<int>(i))->set_block_duty(DutyOf(block->second.Taken()));
  }
}

void AddRequests(const proto::DumpReply& tables, uint64_t group_id, proto::GroupPlacement* placement) {
  for (const proto::GroupDump& group : tables.groups()) {
    if (group.config().group_id() != group_id || group.config().block() == 0) continue;
    for (const proto::Counter& counter : group.counters()) {
      if (counter.name() == "grants") placement->set_grants(counter.value());
      if (counter.name() == "busy") placement->set_busy(counter.value());
    }
  }
}

StatusOr<Policy> PolicyFromProto(const proto::PolicyRequest& request) {
  const auto policy = PolicyNamed(request.policy());
  if (!policy) return MakeStatus(StatusCode::kInvalidArgument, NoPolicy(request.policy()));
  return *policy;
}

StatusOr<Tenant> FromProto(const proto::Tenant& tenant) {
  Tenant out{.name = Shortened(tenant.name()), .guaranteed_bytes = tenant.guarantee_bytes()};
  for (const auto& [field, bytes] : {std::pair{"limit_bytes", tenant.limit_bytes()},
                                     std::pair{"guarantee_bytes", tenant.guarantee_bytes()}}) {
    if (bytes > kMostArenaBytes)
      return MakeStatus(StatusCode::kInvalidArgument,
                        fmt::format("{}: {} are more than any switch has", field, bytes));
  }
  if (tenant.has_limit_bytes()) out.limit_bytes = tenant.limit_bytes();
  if (tenant.has_limit_groups()) out.limit_groups = tenant.limit_groups();
  if (tenant.has_limit_gbps()) {
    out.limit_kbps = KbpsOf(tenant.limit_gbps());
    if (!out.limit_kbps)
      return MakeStatus(StatusCode::kInvalidArgument, NoRate("limit_gbps", tenant.limit_gbps()));
  }
  return out;
}

proto::Tenant ToProto(const Tenant& tenant) {
  proto::Tenant out;
  out.set_name(tenant.name);
  if (tenant.limit_bytes) out.set_limit_bytes(*tenant.limit_bytes);
  if (tenant.limit_groups) out.set_limit_groups(*tenant.limit_groups);
  if (tenant.limit_kbps) out.set_limit_gbps(GbpsOf(*tenant.limit_kbps));
  out.set_guarantee_bytes(tenant.guaranteed_bytes);
  return out;
}

proto::TenantsReply ToProto(const Topology& topology, const Tenants& tenants, const Load& load) {
  proto::TenantsReply reply;
  for (const Tenant& tenant : tenants.List()) {
    proto::TenantState& state = *reply.add_tenants();
    *state.mutable_tenant() = ToProto(tenant);
    const TenantLoad& taken = load.of(tenant.name);
    state.set_groups(taken.groups);
    state.set_reserved_gbps(GbpsOf(taken.reserved_kbps));
    for (const auto& [node, bytes] : taken.bytes) (*state.mutable_bytes())[topology.nodes[node].name] = bytes;
  }
  return reply;
}

}  // namespace epic::manager
