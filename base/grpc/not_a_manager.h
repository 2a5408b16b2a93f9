// What the servers of agents and engines say to who takes them for the manager. Header only, as
// server_stream.h.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/method_handler.h>

#include <string>
#include <vector>

namespace epic {

// Answers every call of a service with UNIMPLEMENTED and a text, in place of gRPC's empty one. It has no
// thread of its own, as a generic service would have.
class NotAManager : public grpc::Service {
 public:
  // manager: of the service that is not served here. what: "the engine of a switch".
  NotAManager(const google::protobuf::ServiceDescriptor* manager, const std::string& what) {
    const std::string text = "this is " + what + ", not the manager";
    names_.reserve(manager->method_count());  // gRPC keeps pointers into them
    for (int i = 0; i < manager->method_count(); ++i) {
      names_.push_back("/" + manager->full_name() + "/" + manager->method(i)->name());
      // Else the answer would wait for the caller's first message.
      const bool streams = manager->method(i)->client_streaming();
      AddMethod(new grpc::internal::RpcServiceMethod(
          names_.back().c_str(),
          streams ? grpc::internal::RpcMethod::BIDI_STREAMING : grpc::internal::RpcMethod::NORMAL_RPC,
          new grpc::internal::ErrorMethodHandler<grpc::StatusCode::UNIMPLEMENTED>(text)));
    }
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace epic
