// switch_call SOCKET METHOD [REQUEST]: one call of proto/switch.proto in JSON, for tests that are written in
// Python. Prints the reply; on an error prints "CODE: message" to stderr and exits 1.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <string>

#include "proto/switch.grpc.pb.h"

namespace {

using epic::proto::SwitchTable;

template <typename Request, typename Reply>
int Call(SwitchTable::Stub& stub,
         grpc::Status (SwitchTable::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
         const std::string& json) {
  Request request;
  if (const auto status = google::protobuf::util::JsonStringToMessage(json, &request); !status.ok()) {
    std::cerr << "request: " << status.ToString() << "\n";
    return 2;
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  Reply reply;
  if (const grpc::Status status = (stub.*method)(&context, request, &reply); !status.ok()) {
    std::cerr << status.error_code() << ": " << status.error_message() << "\n";
    return 1;
  }
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string out;
  if (!google::protobuf::util::MessageToJsonString(reply, &out, options).ok()) return 2;
  std::cout << out << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: switch_call SOCKET describe|dump|install|remove|fail|locate|set-forwarding [JSON]\n";
    return 2;
  }
  const std::string method = argv[2];
  const std::string json = argc > 3 ? argv[3] : "{}";
  const auto stub = SwitchTable::NewStub(
      grpc::CreateChannel(std::string("unix:") + argv[1], grpc::InsecureChannelCredentials()));
  using Stub = SwitchTable::Stub;
  if (method == "describe") return Call(*stub, &Stub::Describe, json);
  if (method == "dump") return Call(*stub, &Stub::Dump, json);
  if (method == "install") return Call(*stub, &Stub::Install, json);
  if (method == "remove") return Call(*stub, &Stub::Remove, json);
  if (method == "fail") return Call(*stub, &Stub::Fail, json);
  if (method == "locate") return Call(*stub, &Stub::Locate, json);
  if (method == "set-forwarding") return Call(*stub, &Stub::SetForwarding, json);
  std::cerr << "switch_call: no method " << method << "\n";
  return 2;
}
