#include "incmanager/cli/tenant.h"

#include <algorithm>
#include <cmath>

namespace epic::manager {

proto::Tenant TenantWith(const proto::TenantsReply& all, const TenantOptions& options) {
  proto::Tenant out;
  const auto had = std::ranges::find_if(
      all.tenants(), [&](const proto::TenantState& state) { return state.tenant().name() == options.name; });
  if (had != all.tenants().end()) out = had->tenant();
  out.set_name(options.name);
  if (options.limit_bytes) out.set_limit_bytes(*options.limit_bytes);
  if (options.limit_groups) out.set_limit_groups(*options.limit_groups);
  if (options.limit_gbps) out.set_limit_gbps(*options.limit_gbps);
  if (options.guarantee_bytes) out.set_guarantee_bytes(*options.guarantee_bytes);
  if (out.limit_bytes() == kNoLimit) out.clear_limit_bytes();
  if (out.limit_groups() == kNoLimit) out.clear_limit_groups();
  if (std::isinf(out.limit_gbps()) && out.limit_gbps() > 0) out.clear_limit_gbps();
  return out;
}

}  // namespace epic::manager
