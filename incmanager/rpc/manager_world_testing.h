// A world in which nothing follows from what the manager asks for: tests keep what they look at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "incmanager/rpc/manager_state.h"

namespace epic::manager::testing {

// What a rank says first that was told this and comes back.
inline proto::ClientMessage RejoinOf(const std::string& group, uint32_t rank, const proto::Joined& joined) {
  proto::ClientMessage message;
  proto::Rejoin& rejoin = *message.mutable_rejoin();
  rejoin.set_group(group);
  rejoin.set_group_id(joined.group_id());
  rejoin.set_generation(joined.generation());
  rejoin.set_rank(rank);
  rejoin.set_secret(joined.secret());
  return message;
}

// An engine whose ports are up, with contexts of these groups; and what its agent says first.
inline proto::EngineInfo EngineOf(const Node& node, const std::vector<uint64_t>& groups = {}) {
  proto::EngineInfo info;
  info.set_name(node.name);
  info.set_address(Raw(node.address));
  info.set_mac(std::string(node.mac.begin(), node.mac.end()));
  info.set_boot_id(1);
  for (const Hop& hop : node.hops) {
    proto::PortInfo* port = info.add_ports();
    port->set_name(hop.port);
    port->set_up(true);
  }
  info.mutable_group_ids()->Add(groups.begin(), groups.end());
  return info;
}
inline proto::RegisterRequest RegistrationOf(const Node& node, const std::vector<uint64_t>& groups = {}) {
  proto::RegisterRequest request;
  request.set_name(node.name);
  request.set_agent_address("10.0.0.1:7401");
  *request.mutable_engine() = EngineOf(node, groups);
  return request;
}

class IdleWorld : public ManagerWorld {
 public:
  void Send(SessionId, const proto::ServerMessage&, bool) override {}
  void SendToHost(HostId, const proto::ToHost&) override {}
  void EndHost(HostId, const Status&) override {}
  void SetAgent(NodeId, const std::string&) override {}
  void SetForwarding(NodeId, const proto::ForwardingTable&) override {}
  void KeepForwarding(NodeId, uint64_t) override {}
  void Install(NodeId, const proto::GroupConfig&) override {}
  void Fail(NodeId, uint64_t, uint32_t) override {}
  void Remove(NodeId, uint64_t, uint32_t) override {}
  void Probe(NodeId, NodeId, const proto::ProbeRequest&) override {}
  void Locate(NodeId, const proto::LocateRequest&) override {}
  void OnCalls(SessionId, const proto::CallsMade*) override {}
};

}  // namespace epic::manager::testing
