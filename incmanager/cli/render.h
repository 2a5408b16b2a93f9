// Tables for people.
#pragma once

#include <cstdint>
#include <string>

#include "proto/manager.pb.h"
#include "proto/switch.pb.h"

namespace epic::manager {

std::string RenderSwitches(const proto::ListSwitchesReply& reply);
std::string RenderHosts(const proto::ListHostsReply& reply);
std::string RenderTables(const proto::DumpReply& reply);
// The part of it about ports and who is there.
std::string RenderPorts(const proto::EngineInfo& info);
std::string RenderGroups(const proto::ListGroupsReply& reply);
// The group's parameters and its tree, each edge with both ends.
std::string RenderGroup(const proto::GroupState& group);

// How a group is placed and whose it is: lines of RenderGroup. Nothing of an earlier manager.
std::string PolicyLines(const proto::GroupState& group);
// The address of its multicast group, or why it has none: a line of RenderGroup. Nothing where nobody asks for it.
std::string MulticastLine(const proto::GroupState& group);
// What has become of its ranks' datagrams: a table of RenderGroup. Nothing where no rank has said so.
std::string DatagramLines(const proto::GroupState& group);
// Of RenderTables: multicast groups of ours and their ports, a line each.
std::string GroupPortLines(const proto::ForwardingTable& table);
// Of RenderExplanation: whether the group could have multicast. Nothing of an earlier manager.
std::string MulticastOutcome(const proto::ExplainReply& reply);
// Its fallback server and what it has had of its switch's pool: lines of RenderGroup. Nothing of a group that
// has neither.
std::string PoolLines(const proto::GroupState& group);
// Of RenderTables: the switch's pool, a line; nothing if it has none.
std::string PoolLine(const proto::EngineInfo& info);
// Of RenderExplanation: which host would lend how much. Nothing of a mode without a pool.
std::string ServerOutcome(const proto::ExplainReply& reply);
std::string RenderTenants(const proto::TenantsReply& reply);

// "no tree": what kind of error it is.
std::string ErrorWords(proto::ErrorCode code);

// A row for each switch, and what the group would get.
std::string RenderExplanation(const proto::ExplainReply& reply);

// A line each, with the local time: now_ms, since 1970, is when the reply came.
std::string RenderEvents(const proto::EventsReply& reply, int64_t now_ms);

}  // namespace epic::manager
