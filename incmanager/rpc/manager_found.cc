// Groups of a former manager in a network that is discovered: they go on when all that they name is found
// again.
#include <algorithm>
#include <utility>

#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/stored.h"

namespace epic::manager {
namespace {

// Of one rank; more is no rank's.
constexpr size_t kMostHeldBack = 16'384;

}  // namespace

void ManagerState::ResumeFound(Nanos now) {
  const bool late = now >= settled_at_;
  // A link has two ends: it is known when both switches have spoken.
  if (unfound_.empty() || (!awaited_.empty() && !late)) return;
  std::vector<proto::StoredGroup> rest;
  for (proto::StoredGroup& stored : std::exchange(unfound_, {})) {
    for (const proto::StoredMember& member : stored.members()) {
      if (const auto host = topology_.FindHostByAddress(Ipv4{member.join().ip()}))
        graph_.NameHost(*host, member.host());
    }
    StatusOr<Group> group = FromStored(topology_, stored);
    if (group.ok()) {
      groups_.ResumeGroup(now, *std::move(group));
    } else if (!late) {
      rest.push_back(std::move(stored));
    } else {
      EndResumed(now, stored, group.status());
      for (const proto::TreeNode& context : stored.contexts()) {
        if (const auto node = topology_.FindSwitch(context.switch_name()); node && had_.contains(*node))
          Remove(*node, stored.id(), stored.generation());
      }
    }
  }
  for (const auto& [node, contexts] : had_) groups_.OnContexts(now, node, contexts);
  unfound_ = std::move(rest);
  if (!unfound_.empty()) return;
  had_.clear();
  for (const auto& [id, messages] : std::exchange(returning_, {})) {
    for (const proto::ClientMessage& message : messages) OnMessage(now, id, message);
  }
}

bool ManagerState::HoldsBack(SessionId id, const proto::ClientMessage& message) {
  if (const auto held = returning_.find(id); held != returning_.end()) {
    if (held->second.size() < kMostHeldBack) held->second.push_back(message);
    return true;
  }
  const auto is_its = [&](const proto::StoredGroup& group) {
    return group.id() == message.rejoin().group_id();
  };
  if (!message.has_rejoin() || std::ranges::none_of(unfound_, is_its)) return false;
  returning_[id] = {message};
  return true;
}

}  // namespace epic::manager
