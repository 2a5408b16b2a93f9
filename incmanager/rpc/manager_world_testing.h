// A world in which nothing follows from what the manager asks for: tests keep what they look at.
#pragma once

#include <string>

#include "incmanager/rpc/manager_state.h"

namespace epic::manager::testing {

class IdleWorld : public ManagerWorld {
 public:
  void Send(SessionId, const proto::ServerMessage&, bool) override {}
  void SendToHost(HostId, const proto::ToHost&) override {}
  void EndHost(HostId, const Status&) override {}
  void SetAgent(NodeId, const std::string&) override {}
  void SetForwarding(NodeId, const proto::ForwardingTable&) override {}
  void Install(NodeId, const proto::GroupConfig&) override {}
  void Fail(NodeId, uint64_t, uint32_t) override {}
  void Remove(NodeId, uint64_t, uint32_t) override {}
  void Probe(NodeId, NodeId, const proto::ProbeRequest&) override {}
  void Locate(NodeId, const proto::LocateRequest&) override {}
  void OnCalls(SessionId, const proto::CallsMade*) override {}
};

}  // namespace epic::manager::testing
