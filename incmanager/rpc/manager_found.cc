// Groups of a former manager in a network that is discovered: they go on when all that they name is found
// again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/stored.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// Of one rank, in its messages; what a rank says that comes back to the largest group is below.
constexpr size_t kMostHeldBack = 4 << 20;
// Of one message, besides its bytes.
constexpr size_t kMessageBytes = sizeof(proto::ClientMessage);

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
    if (stored.has_server() && !stored.contexts().empty()) {
      const Ipv4 lender{stored.contexts(0).config().server().remote_ip()};
      if (const auto host = topology_.FindHostByAddress(lender))
        graph_.NameHost(*host, stored.server().host());
    }
    StatusOr<Group> group = FromStored(topology_, stored);
    if (group.ok()) {
      groups_.ResumeGroup(now, *std::move(group));
      OnResumed(now, stored);
    } else if (!late) {
      rest.push_back(std::move(stored));
    } else {
      EndResumed(now, stored, group.status());
      OnResumed(now, stored);
      for (const proto::TreeNode& context : stored.contexts()) {
        if (const auto node = topology_.FindSwitch(context.switch_name()); node && had_.contains(*node))
          Remove(*node, stored.id(), stored.generation());
      }
    }
  }
  for (const auto& [node, contexts] : had_) groups_.OnContexts(now, node, contexts, 0, {});
  unfound_ = std::move(rest);
  if (!unfound_.empty()) return;
  had_.clear();
  returning_as_.clear();
  for (const auto& [id, returning] : std::exchange(returning_, {})) {
    for (const proto::ClientMessage& message : returning.said) OnMessage(now, id, message);
  }
}

bool ManagerState::HoldsBack(SessionId id, const proto::ClientMessage& message) {
  const bool is_held = returning_.contains(id);
  const auto is_its = [&](const proto::StoredGroup& group) {
    return group.id() == message.rejoin().group_id();
  };
  if (!is_held && (!message.has_rejoin() || std::ranges::none_of(unfound_, is_its))) return false;
  Failure failure;
  if (!is_held) {
    failure = RefusesToReturn(message.rejoin());
  } else if (returning_[id].bytes + kMessageBytes + message.ByteSizeLong() > kMostHeldBack) {
    failure = {
        ErrorCode::kNoResource,
        fmt::format("what it has said before its group is found is more than {} bytes, and no more may wait",
                    kMostHeldBack),
        -1, ""};
  }
  if (!failure.ok()) {
    ForgetReturning(id);
    Refuse(id, failure);
    return true;
  }
  if (!is_held) {
    const auto [before, is_first] =
        returning_as_.try_emplace({message.rejoin().group_id(), message.rejoin().rank()}, id);
    // By another session once more: the one before is nobody's any more.
    if (!is_first) returning_.erase(std::exchange(before->second, id));
  }
  Returning& returning = returning_[id];
  returning.bytes += kMessageBytes + message.ByteSizeLong();
  returning.said.push_back(message);
  return true;
}

// Only who has its secret may wait as that rank.
Failure ManagerState::RefusesToReturn(const proto::Rejoin& rejoin) const {
  const auto group = std::ranges::find(unfound_, rejoin.group_id(), &proto::StoredGroup::id);
  const auto is_it = [&](const proto::StoredMember& member) {
    return member.join().rank() == rejoin.rank() && !member.secret().empty() &&
           member.secret() == rejoin.secret();
  };
  if (std::ranges::any_of(group->members(), is_it)) return {};
  return RankFailure(ErrorCode::kInvalidArgument, rejoin.rank(),
                     fmt::format("group {}: who comes back as rank {} is not that rank",
                                 Shortened(rejoin.group()), rejoin.rank()));
}

void ManagerState::ForgetReturning(SessionId id) {
  const auto returning = returning_.find(id);
  if (returning == returning_.end()) return;
  const proto::Rejoin& rejoin = returning->second.said.front().rejoin();
  returning_as_.erase({rejoin.group_id(), rejoin.rank()});
  returning_.erase(returning);
}

}  // namespace epic::manager
