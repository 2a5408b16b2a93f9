#include <fmt/format.h>

#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"

namespace epic::manager {
namespace {

std::string Lenders(const proto::ListHostsReply& reply) {
  std::vector<std::vector<std::string>> rows{{"lends memory", "by", "MiB", "left", "groups"}};
  const auto mib = [](uint64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
  };
  for (const proto::HostState& state : reply.hosts()) {
    if (!state.info().has_fallback()) continue;
    const proto::FallbackOffer& offer = state.info().fallback();
    const auto& groups = state.fallback_groups();
    rows.push_back({state.info().name(), Ip(offer.ip()), mib(offer.bytes()), mib(state.fallback_left_bytes()),
                    groups.empty() ? "-" : fmt::format("{}", fmt::join(groups, ", "))});
  }
  return rows.size() == 1 ? "" : "\n" + Table(rows);
}

}  // namespace

// A row for each port; what concerns the host stands in the first of them. Behind it, hosts that lend memory.
std::string RenderHosts(const proto::ListHostsReply& reply) {
  std::vector<std::vector<std::string>> rows{
      {"host", "version", "heard", "sessions", "port", "interface", "address", "MAC", "Gbit/s", "path MTU"}};
  for (const proto::HostState& state : reply.hosts()) {
    const proto::HostInfo& info = state.info();
    std::vector<std::string> row{info.name(), info.version(),
                                 fmt::format("{} ms ago", state.last_heard_ms_ago()),
                                 fmt::format("{}", state.sessions())};
    if (!state.away().empty()) row = {info.name(), "-", "away", "-"};
    if (info.ports().empty()) row.insert(row.end(), 6, "-");
    for (const proto::HostPort& port : info.ports()) {
      row.resize(4);
      row.insert(row.end(), {fmt::format("{}/{}", port.device(), port.port()), port.ifname(), Ip(port.ip()),
                             MacText(port.mac()),
                             port.rate_mbps() == 0 ? "-" : fmt::format("{:g}", port.rate_mbps() / 1000.0),
                             fmt::format("{}", port.max_path_mtu())});
      if (&port != &*info.ports().rbegin()) {
        rows.push_back(row);
        row.assign(4, "");
      }
    }
    rows.push_back(row);
  }
  return Table(rows) + Lenders(reply);
}

}  // namespace epic::manager
