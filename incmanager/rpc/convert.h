// Between the manager's plain values and the messages of proto/.
#pragma once

#include <string>

#include "incmanager/engine_report.h"
#include "incmanager/failure.h"
#include "incmanager/groups/event_log.h"
#include "incmanager/groups/group_life.h"
#include "incmanager/groups/install_answer.h"
#include "incmanager/groups/switch_table.h"
#include "incmanager/hosts/host_table.h"
#include "proto/manager.pb.h"
#include "proto/switch.pb.h"
#include "protocol/abilities.h"
#include "protocol/types.h"

namespace epic::manager {

// Of the hosts' queue pairs (docs/PROTOCOL.md, section 6): about 1 s of patience per try; 7 RNR retries mean
// no limit.
inline constexpr uint32_t kQpTimeout = 18;
inline constexpr uint32_t kRetryCount = 7;
inline constexpr uint32_t kRnrRetry = 7;
inline constexpr uint32_t kMinRnrTimer = 1;

JoinRequest FromProto(const proto::Join& join);
proto::Join ToProto(const JoinRequest& join);
EngineReport FromProto(const proto::EngineInfo& info);
// What contexts it says that it has.
ContextReports ContextsOf(const proto::EngineInfo& info);
// Of a call that gRPC says has succeeded: installed, or refused.
InstallAnswer FromProto(const proto::InstallReply& reply);
GroupSpec FromProto(const proto::CreateGroupRequest& request);
WindowInUse FromProto(const proto::WindowInUse& window);
DatagramsSeen FromProto(const proto::DatagramsSeen& datagrams);
PeerEnd FromProto(const proto::PeerEnd& end);
// Of a reach that only a later version knows: nobody's.
DatagramReach FromProto(proto::DatagramReach reach);
// What a rank says that a switch refused its call with, if it leaves for that; else ok.
Failure RefusedOf(const proto::Leave& leave);

proto::Failure ToProto(const Failure& failure);
proto::ServerMessage ToProto(const SessionEvent& event);
proto::PeerEnd ToProto(const PeerEnd& end);
proto::MulticastGroup ToProto(const MulticastGroup& group);
proto::DatagramsSeen ToProto(const DatagramsSeen& datagrams);
proto::GroupConfig ToProto(const ContextPlan& context);
proto::ForwardingTable ToProto(const Topology& topology, NodeId node, const Forwarding& forwarding);
// What a switch is asked for to probe another one by the link at this port.
proto::ProbeRequest ProbeOf(const Topology& topology, NodeId from, const std::string& port, NodeId to);
proto::GroupState ToProto(const Topology& topology, const Group& group);
// How a group ended; now: on the clock of its end.
proto::GroupEnd ToProto(const GroupEnd& end, Nanos now);
// A group of which there is nothing any more, but for its last_end.
proto::GroupState ToProto(const GroupEnd& end);

proto::ExplainReply ToProto(const Topology& topology, const Placement& placement);

// Errors: INVALID_ARGUMENT naming the port.
StatusOr<HostInfo> FromProto(const proto::HostInfo& info);
proto::HostInfo ToProto(const HostInfo& info);
ServedGroup FromProto(const proto::ServedGroup& group);
proto::ServedGroup ToProto(const ServedGroup& group);
proto::MakeServer ToProto(const ServerRequest& request);
// Its ports, as "vec0 10.0.0.1, vec1 10.0.1.1".
std::string InWords(const HostInfo& info);

// now: on the clock of the event's time.
proto::Event ToProto(const Event& event, Nanos now);

// Adds the names of the types, or of the operations, that they have to a message with such a field.
template <typename Message>
void NameTypes(const Abilities& abilities, Message* out) {
  for (const TypeInfo& row : kDataTypes) {
    if (abilities.Has(row.type)) out->add_types(std::string(row.name));
  }
}
template <typename Message>
void NameOperations(const Abilities& abilities, Message* out) {
  for (const OpInfo& row : kReduceOps) {
    if (abilities.Has(row.op)) out->add_operations(std::string(row.name));
  }
}

// Fills in what the group has had to send again or refuse at the node's switch, by that switch's tables.
void AddTrouble(const proto::DumpReply& tables, uint64_t group_id, proto::TreeNode* node);

}  // namespace epic::manager
