#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "incmanager/cli/render.h"
#include "incmanager/cli/table.h"

namespace epic::manager {

std::string MulticastLine(const proto::GroupState& group) {
  if (group.multicast_address() != 0) return fmt::format("multicast   {}\n", Ip(group.multicast_address()));
  return group.multicast_reason().empty() ? ""
                                          : fmt::format("multicast   none: {}\n", group.multicast_reason());
}

std::string GroupPortLines(const proto::ForwardingTable& table) {
  std::string out;
  for (const proto::GroupPorts& group : table.groups())
    out += fmt::format("  multicast {}: {}\n", MacText(group.mac()), fmt::join(group.ports(), " "));
  return out;
}

std::string MulticastOutcome(const proto::ExplainReply& reply) {
  if (reply.multicast()) return "multicast: if all ranks ask for it, and their NICs receive it\n";
  return reply.multicast_reason().empty() ? ""
                                          : fmt::format("multicast: none: {}\n", reply.multicast_reason());
}

}  // namespace epic::manager
