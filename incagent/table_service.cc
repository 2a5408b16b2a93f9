#include "incagent/table_service.h"

#include <string>

#include "base/status.h"
#include "incagent/checks.h"

namespace epic::agent {
namespace {

using Stub = EngineClient::Stub;

// The one place of the agent where Status becomes grpc::Status; both have the numbers of gRPC's
// specification.
grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(status.message().data(), status.message().size())};
}

}  // namespace

grpc::Status TableService::Describe(grpc::ServerContext*, const proto::DescribeRequest*,
                                    proto::EngineInfo* reply) {
  return engine_->Describe(reply);
}

grpc::Status TableService::Install(grpc::ServerContext*, const proto::InstallRequest* request,
                                   proto::InstallReply* reply) {
  const Status status = CheckGroup(request->group(), engine_->info());
  if (status.ok()) return engine_->Call(&Stub::Install, *request, reply);
  if (!request->takes_refusal()) return ToGrpc(status);
  reply->mutable_refusal()->set_kind(proto::REFUSAL_CONFIG);
  reply->mutable_refusal()->set_message(std::string(status.message().data(), status.message().size()));
  return grpc::Status::OK;
}

grpc::Status TableService::Remove(grpc::ServerContext*, const proto::RemoveRequest* request,
                                  proto::RemoveReply* reply) {
  return engine_->Call(&Stub::Remove, *request, reply);
}

grpc::Status TableService::Fail(grpc::ServerContext*, const proto::FailRequest* request,
                                proto::FailReply* reply) {
  return engine_->Call(&Stub::Fail, *request, reply);
}

grpc::Status TableService::SetForwarding(grpc::ServerContext*, const proto::SetForwardingRequest* request,
                                         proto::SetForwardingReply* reply) {
  const Status status = CheckForwarding(request->table(), engine_->info());
  return status.ok() ? engine_->Call(&Stub::SetForwarding, *request, reply) : ToGrpc(status);
}

grpc::Status TableService::Probe(grpc::ServerContext*, const proto::ProbeRequest* request,
                                 proto::ProbeReply* reply) {
  const Status status = CheckProbe(*request, engine_->info());
  return status.ok() ? engine_->Call(&Stub::Probe, *request, reply) : ToGrpc(status);
}

grpc::Status TableService::Locate(grpc::ServerContext*, const proto::LocateRequest* request,
                                  proto::LocateReply* reply) {
  const Status status = CheckLocate(*request);
  return status.ok() ? engine_->Call(&Stub::Locate, *request, reply) : ToGrpc(status);
}

grpc::Status TableService::Dump(grpc::ServerContext*, const proto::DumpRequest* request,
                                proto::DumpReply* reply) {
  return engine_->Call(&Stub::Dump, *request, reply);
}

}  // namespace epic::agent
