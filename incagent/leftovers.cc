#include "incagent/leftovers.h"

#include <algorithm>
#include <unordered_set>

namespace epic::agent {
namespace {

// A set, for a message may have half a million of them.
std::unordered_set<uint64_t> UnknownToManager(const proto::EngineInfo& engine,
                                              const proto::RegisterReply& reply) {
  std::unordered_set<uint64_t> ids(engine.group_ids().begin(), engine.group_ids().end());
  for (const uint64_t id : reply.keep_group_ids()) ids.erase(id);
  return ids;
}

}  // namespace

std::chrono::milliseconds HeartbeatInterval(const proto::RegisterReply& reply) {
  return std::clamp(std::chrono::milliseconds(reply.heartbeat_ms()), kMinHeartbeat, kMaxHeartbeat);
}

bool HasLeftovers(const proto::EngineInfo& engine, const proto::RegisterReply& reply) {
  return !UnknownToManager(engine, reply).empty();
}

std::vector<const proto::GroupConfig*> Leftovers(const proto::EngineInfo& engine,
                                                 const proto::RegisterReply& reply,
                                                 const proto::DumpReply& dump) {
  std::vector<const proto::GroupConfig*> leftovers;
  const std::unordered_set<uint64_t> unknown = UnknownToManager(engine, reply);
  for (const proto::GroupDump& group : dump.groups()) {
    if (unknown.contains(group.config().group_id())) leftovers.push_back(&group.config());
  }
  return leftovers;
}

}  // namespace epic::agent
