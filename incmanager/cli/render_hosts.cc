#include <fmt/format.h>

#include <vector>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"

namespace epic::manager {

// A row for each port; what concerns the host stands in the first of them.
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
  return Table(rows);
}

}  // namespace epic::manager
