// What switches have, beside what the manager means (docs/PROTOCOL-CONTROL.md, sections 14 and 15).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/stable_hash.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/kept.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// Of one switch, that have not been answered: the others are asked for then. It may be slow.
constexpr int64_t kMostRemoving = 100;
// A removal that has had no effect is asked for again.
constexpr Nanos kRemovesAgain = 10 * kSecond;
// What an agent asks its engine before it registers is no older: more than its calls may take.
constexpr Nanos kRegistersIn = 10 * kSecond;

}  // namespace

bool ManagerState::IsOurs(const proto::EngineInfo& engine) const {
  return engine.fence().cluster() == fence_.cluster() && engine.fence().epoch() <= fence_.epoch();
}

std::string ManagerState::WhoElse(const proto::EngineInfo& engine) const {
  const proto::Fence& holder = engine.fence();
  if (holder.cluster().empty()) return "nobody has said who";
  if (holder.cluster() != fence_.cluster())
    return fmt::format("cluster {}, epoch {}, has that switch now", ClusterName(holder.cluster()),
                       holder.epoch());
  if (holder.epoch() > fence_.epoch())
    return fmt::format("a later manager of this cluster, epoch {}, has that switch now", holder.epoch());
  return "somebody has done that in this manager's name";
}

void ManagerState::FollowContexts(Nanos now, NodeId node, const proto::EngineInfo& engine,
                                  const ContextReports& contexts, Nanos as_of) {
  groups_.OnContexts(now, node, contexts, as_of, WhoElse(engine));
  std::map<std::pair<uint64_t, uint32_t>, Unmeant> seen;
  std::vector<std::pair<uint64_t, uint32_t>> removed;
  std::swap(seen, unmeant_[node]);
  const auto is_removing = [](const auto& context) { return context.second.is_removing; };
  std::ranges::copy_if(seen, std::inserter(unmeant_[node], unmeant_[node].end()), is_removing);
  if (!IsOurs(engine)) return;
  int64_t removing = std::ranges::ssize(unmeant_[node]);
  for (const auto& [id, context] : contexts) {
    const auto is_it = [id = id](const proto::StoredGroup& group) { return group.id() == id; };
    if (!context.generation || groups_.Means(node, id, *context.generation) ||
        std::ranges::any_of(unfound_, is_it))
      continue;
    const std::pair key{id, *context.generation};
    const auto before = seen.find(key);
    Unmeant& unmeant = unmeant_[node][key];
    if (unmeant.is_removing) continue;
    unmeant.since = before == seen.end() ? now : before->second.since;
    // The first time it may be what was there before a removal that has been answered meanwhile.
    if (unmeant.since > as_of || removing == kMostRemoving) continue;
    unmeant = {.since = now + kRemovesAgain, .is_removing = true};
    ++removing;
    removed.push_back(key);
  }
  if (removed.empty()) return;
  const auto [first, generation] = removed.front();
  const std::string more = removed.size() == 1 ? "" : fmt::format(", and {} more", removed.size() - 1);
  Warn(fmt::format(
      "switch {}: it has a context of group {:#x}, generation {}{}, of which this manager knows nothing: "
      "being removed",
      topology_.nodes[node].name, first, generation, more));
  for (const auto& [id, of] : removed) world_->Remove(node, id, of);
}

void ManagerState::FollowTable(NodeId node, const proto::EngineInfo& engine, Nanos as_of) {
  if (engine.forwarding_hash() == 0 || !tables_.OnTold(node, engine.forwarding_hash(), as_of)) return;
  const bool is_empty = engine.forwarding_hash() == StableHash({});
  Warn(fmt::format("switch {}: its forwarding table {}, and is set anew: {}", topology_.nodes[node].name,
                   is_empty ? "has been emptied" : "is not the one that it was sent", WhoElse(engine)));
  update_.OnReady(node, false);
}

void ManagerState::FollowEngine(Nanos now, NodeId node, const proto::HeartbeatRequest& heartbeat) {
  const auto as_of = static_cast<Nanos>(heartbeat.as_of());
  if (as_of == 0 || heartbeat.engine_slow()) return;
  FollowContexts(now, node, heartbeat.engine(), ContextsOf(heartbeat.engine()), as_of);
  FollowTable(node, heartbeat.engine(), as_of);
}

void ManagerState::FollowRegistered(Nanos now, NodeId node, const proto::EngineInfo& engine) {
  std::erase_if(unmeant_[node], [](const auto& context) { return !context.second.is_removing; });
  FollowTable(node, engine, now - kRegistersIn);
  OnSettled(now, node, engine, ContextsOf(engine));
}

void ManagerState::OnRemoved(Nanos now, NodeId node, uint64_t group_id, const Status& status) {
  now_ = now;
  if (!status.ok()) {
    switches_.OnLeftover(node);
    Warn(fmt::format("switch {}: group {:#x} not removed: {}; its agent removes it when it registers again",
                     topology_.nodes[node].name, group_id, std::string(status.message())));
  }
  for (auto& [context, unmeant] : unmeant_[node]) {
    if (context.first == group_id) unmeant.is_removing = false;
  }
  groups_.OnRemoved(now, node, group_id);
}

void ManagerState::SendTables(Nanos now) {
  for (const TableUpdate::Order& order : update_.Due(now)) {
    const proto::ForwardingTable table = ToProto(topology_, order.node, order.table);
    const uint64_t hash = StableHash(table.SerializeAsString());
    const bool has = tables_.Has(order.node, hash);
    tables_.OnSent(order.node, hash);
    has ? world_->KeepForwarding(order.node, hash) : world_->SetForwarding(order.node, table);
  }
}

void ManagerState::OnForwardingSet(Nanos now, NodeId node, const Status& status) {
  now_ = now;
  const bool was_up = switches_.entry(node).state == SwitchState::kUp;
  switches_.OnForwardingSet(node, status.ok());
  update_.OnAnswer(node, status.ok());
  tables_.OnAnswer(now, node, status.ok());
  const std::string& name = topology_.nodes[node].name;
  if (!status.ok()) {
    Warn(fmt::format("switch {}: forwarding table not set: {}", name,
                     std::string(status.message().data(), status.message().size())));
  } else if (!was_up) {
    Note(fmt::format("switch {}: up", name));
  }
  SendTables(now);
}

}  // namespace epic::manager
