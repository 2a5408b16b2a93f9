// What engines refuse for good: groups that would wait for ever end, with what is wrong (docs/PROTOCOL.md,
// section 7.4).
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "incmanager/rpc/manager_state.h"

namespace epic::manager {
namespace {

constexpr const char* kStranger = "stranger";
constexpr const char* kWrongPort = "wrong_port";

const EndpointPlan* EndpointAt(const Group& group, NodeId node, uint32_t local_qpn) {
  for (const ContextPlan& context : group.plan.contexts) {
    if (context.node != node) continue;
    if (context.parent && context.parent->local_qpn == local_qpn) return &*context.parent;
    if (context.server && context.server->local_qpn == local_qpn) return &*context.server;
    const auto child = std::ranges::find(context.children, local_qpn, &EndpointPlan::local_qpn);
    if (child != context.children.end()) return &*child;
  }
  return nullptr;
}

// Null: a switch is at the other end.
const Member* RankAt(const Group& group, const EndpointPlan& endpoint) {
  if (!endpoint.is_host || endpoint.ranks.size() != 1) return nullptr;
  const auto member = group.members.find(endpoint.ranks.front());
  return member == group.members.end() ? nullptr : &member->second;
}

}  // namespace

void ManagerState::FollowRefused(Nanos now, NodeId node, const EngineReport& report) {
  if (report.repeated) return;
  std::set<uint32_t> stands;
  for (const RefusedReport& refused : report.refused) {
    const Group* group = groups_.FindRunning(refused.group_id, refused.generation);
    const EndpointPlan* endpoint = group == nullptr ? nullptr : EndpointAt(*group, node, refused.local_qpn);
    if (endpoint == nullptr) continue;
    stands.insert(refused.local_qpn);
    const Failure failure = RefusalOf(node, refused, *endpoint, *group);
    RefusedSince& since = refused_since_[{node, refused.local_qpn}];
    if (since.group_id != refused.group_id) {
      since = {refused.group_id, now};
      Warn(fmt::format("group {}: {}", group->spec.name, failure.message));
    }
    if (IsRefusedForGood(now, node, refused, *endpoint, *group))
      groups_.FailWith(now, refused.group_id, failure);
  }
  std::erase_if(refused_since_, [&](const auto& entry) {
    return entry.first.first == node && !stands.contains(entry.first.second);
  });
}

// Else it may be forged, or the host may still be heard where it is to be.
bool ManagerState::IsRefusedForGood(Nanos now, NodeId node, const RefusedReport& refused,
                                    const EndpointPlan& endpoint, const Group& group) {
  const Member* const rank = RankAt(group, endpoint);
  if (refused.reason == kStranger) {
    // Nobody else is at the host's own port.
    const LinkEnd home = rank == nullptr ? LinkEnd{} : topology_.Across(topology_.AttachedEnd(rank->host));
    return rank != nullptr && home.node == node &&
           topology_.nodes[node].hops[home.hop].port == endpoint.ingress_port;
  }
  if (refused.reason != kWrongPort) return true;
  if (graph_.LeadsToSwitch(node, refused.port)) return true;
  if (rank == nullptr || graph_.IsHeardThere(rank->host)) return false;
  graph_.Seek(rank->host);
  return now - refused_since_.at({node, refused.local_qpn}).at >= Graph::kDoubtFor;
}

Failure ManagerState::RefusalOf(NodeId node, const RefusedReport& refused, const EndpointPlan& endpoint,
                                const Group& group) const {
  const std::string& name = topology_.nodes[node].name;
  const Member* const rank = RankAt(group, endpoint);
  std::string who = ToString(endpoint.remote_ip);
  if (rank != nullptr) {
    who = fmt::format("rank {} on {}", rank->join.rank, topology_.nodes[rank->host].name);
  } else if (const auto there = topology_.FindSwitchByAddress(endpoint.remote_ip)) {
    who = fmt::format("switch {}", topology_.nodes[*there].name);
  }
  std::string text =
      fmt::format("{} refuses all that comes from {}: {}, {} packets in {:.1f} s", name, who, refused.reason,
                  refused.packets, static_cast<double>(refused.time) / kSecond);
  ErrorCode code = ErrorCode::kTransport;
  if (refused.reason == kWrongPort) {
    code = ErrorCode::kLinkLost;
    const auto there = topology_.EndAt(node, refused.port);
    text +=
        fmt::format("; they come in by {}:{}{}, not by {}:{}", name, refused.port,
                    there ? fmt::format(" ({})", topology_.nodes[topology_.Across(*there).node].name) : "",
                    name, endpoint.ingress_port);
  } else if (refused.reason == kStranger && refused.source == endpoint.remote_ip) {
    text += fmt::format("; they are not to {}, which {} bears there", ToString(endpoint.borne_ip), name);
  } else if (refused.reason == kStranger) {
    text += fmt::format("; they come from {}, not from {}", ToString(refused.source),
                        ToString(endpoint.remote_ip));
  }
  return rank != nullptr ? RankFailure(code, rank->join.rank, text) : SwitchFailure(code, name, text);
}

}  // namespace epic::manager
