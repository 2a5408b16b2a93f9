// Pools of switches, and the hosts that serve groups in them (docs/PROTOCOL-MODE-V.md).
#include <fmt/format.h>

#include <string>

#include "base/counted.h"
#include "incmanager/cli/render.h"
#include "incmanager/policies/memory.h"

namespace epic::manager {
namespace {

std::string ServerWords(const proto::GroupServer& server) {
  return fmt::format("{}, which lends {}{}", server.host(), BytesWords(server.bytes()),
                     server.of_a_rank() ? ", though ranks are on it: no other host lends enough" : "");
}

}  // namespace

std::string PoolLines(const proto::GroupState& group) {
  std::string out;
  if (group.has_server()) out += fmt::format("server      {}\n", ServerWords(group.server()));
  if (group.priority_limit() != 0) out += fmt::format("priority    at most {}\n", group.priority_limit());
  for (const proto::TreeNode& node : group.tree()) {
    if (node.pool().empty()) continue;
    std::string counts;
    for (const proto::Counter& counter : node.pool())
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", counter.name(), counter.value());
    out += fmt::format("pool        {}\n", counts);
  }
  return out;
}

std::string PoolLine(const proto::EngineInfo& info) {
  if (!info.capability().has_pool()) return {};
  const proto::Pool& pool = info.capability().pool();
  const std::string age =
      pool.age_ns() == 0 ? "" : fmt::format(", age {} ms", static_cast<double>(pool.age_ns()) * 1e-6);
  return fmt::format(
      "pool: {} in buffers of {}: {} of {} in use, {} of {} spare; addressing {}, policy {}{}\n",
      BytesWords(pool.bytes()), BytesWords(pool.buffer_bytes()), pool.places_in_use(),
      Counted(pool.places(), "place"), pool.spare_buffers(), Counted(pool.buffers(), "buffer"),
      pool.addressing(), pool.policy(), age);
}

std::string ServerOutcome(const proto::ExplainReply& reply) {
  return reply.has_server() ? fmt::format("fallback server: {}\n", ServerWords(reply.server())) : "";
}

}  // namespace epic::manager
