#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {

// "policy      spatial, prefers auto, 2.5 Gbit/s reserved".
std::string PolicyLines(const proto::GroupState& group) {
  const proto::GroupPlacement& placement = group.placement();
  std::string out;
  if (!placement.policy().empty()) {
    out += fmt::format("policy      {}", placement.policy());
    if (!placement.prefer().empty()) out += fmt::format(", prefers {}", placement.prefer());
    // Only a group that goes through switches has its rate.
    const char* const had = group.path_taken() == proto::PATH_NETWORK ? "reserved" : "asked for, none reserved";
    if (placement.rate_gbps() > 0) out += fmt::format(", {} Gbit/s {}", placement.rate_gbps(), had);
    if (placement.duty() > 0) out += fmt::format(", duty {}", placement.duty());
    if (!placement.job().empty()) out += fmt::format(", job {}", placement.job());
    if (!placement.phase().empty()) out += fmt::format(", phase {}", placement.phase());
    out += "\n";
  }
  if (placement.width_gbps() > 0)
    out +=
        fmt::format("width       {} Gbit/s of links and memory when it was placed\n", placement.width_gbps());
  if (placement.has_grants() || placement.has_busy()) {
    const double requests = static_cast<double>(placement.grants()) + static_cast<double>(placement.busy());
    out += fmt::format("requests    {} granted, {} busy", placement.grants(), placement.busy());
    if (requests > 0)
      out += fmt::format(": {:.1f} % of its calls went between the hosts",
                         100 * static_cast<double>(placement.busy()) / requests);
    out += "\n";
  }
  if (!placement.tenant().empty()) out += fmt::format("tenant      {}\n", placement.tenant());
  return out;
}

std::string RenderTenants(const proto::TenantsReply& reply) {
  if (reply.tenants().empty()) return "no tenants\n";
  std::vector<std::vector<std::string>> rows{
      {"tenant", "groups", "Gbit/s reserved", "bytes of a switch", "kept for it", "has"}};
  const auto of = [](uint64_t has, bool limited, uint64_t limit) {
    return limited ? fmt::format("{} of {}", has, limit) : fmt::format("{}", has);
  };
  for (const proto::TenantState& state : reply.tenants()) {
    const proto::Tenant& tenant = state.tenant();
    // Protobuf's maps have no order.
    const std::map<std::string, uint64_t> by_switch(state.bytes().begin(), state.bytes().end());
    std::string has;
    for (const auto& [name, bytes] : by_switch)
      has += fmt::format("{}{} {}", has.empty() ? "" : ", ", name, BytesWords(bytes));
    rows.push_back({tenant.name(), of(state.groups(), tenant.has_limit_groups(), tenant.limit_groups()),
                    tenant.has_limit_gbps()
                        ? fmt::format("{} of {}", state.reserved_gbps(), tenant.limit_gbps())
                        : fmt::format("{}", state.reserved_gbps()),
                    tenant.has_limit_bytes() ? BytesWords(tenant.limit_bytes()) : "any",
                    tenant.guarantee_bytes() == 0 ? "-" : BytesWords(tenant.guarantee_bytes()),
                    has.empty() ? "-" : has});
  }
  return Table(rows);
}

}  // namespace epic::manager
