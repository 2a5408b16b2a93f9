// SwitchTable over TCP: checks, then the engine. All but Watch, of which the agent makes heartbeats.
#pragma once

#include "incagent/engine_client.h"

namespace epic::agent {

class TableService : public proto::SwitchTable::Service {
 public:
  // engine outlives the service.
  explicit TableService(EngineClient* engine) : engine_(engine) {}

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*, proto::EngineInfo*) override;
  grpc::Status Install(grpc::ServerContext*, const proto::InstallRequest*, proto::InstallReply*) override;
  grpc::Status Remove(grpc::ServerContext*, const proto::RemoveRequest*, proto::RemoveReply*) override;
  grpc::Status Fail(grpc::ServerContext*, const proto::FailRequest*, proto::FailReply*) override;
  grpc::Status SetForwarding(grpc::ServerContext*, const proto::SetForwardingRequest*,
                             proto::SetForwardingReply*) override;
  grpc::Status Probe(grpc::ServerContext*, const proto::ProbeRequest*, proto::ProbeReply*) override;
  grpc::Status Locate(grpc::ServerContext*, const proto::LocateRequest*, proto::LocateReply*) override;
  grpc::Status Dump(grpc::ServerContext*, const proto::DumpRequest*, proto::DumpReply*) override;

 private:
  EngineClient* const engine_;
};

}  // namespace epic::agent
