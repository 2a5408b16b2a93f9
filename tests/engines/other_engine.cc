// Stands between an agent and its engine, and alters what the engine states of itself, so that the manager
// meets engines of other versions, or with less. All calls go on to the engine, as the agent would send them.
//
//   other_engine ENGINE_SOCKET OWN_SOCKET FILE
//
// FILE is JSON, read each time that the engine is asked: {"version": "0.0.9", "max_path_mtu": 1024,
// "max_children": 1, "modes": [1, 2], "types": ["float32"], "operations": []}. What is there replaces what
// the engine states; where there is no file nothing is altered.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "incagent/engine_client.h"
#include "incagent/table_service.h"

namespace epic {
namespace {

using Json = nlohmann::json;

void Alter(const Json& changes, proto::EngineInfo* info) {
  proto::Capability& capability = *info->mutable_capability();
  if (changes.contains("version")) info->set_version(changes["version"].get<std::string>());
  if (changes.contains("max_path_mtu")) capability.set_max_path_mtu(changes["max_path_mtu"].get<uint32_t>());
  if (changes.contains("max_children")) capability.set_max_children(changes["max_children"].get<uint32_t>());
  if (changes.contains("modes")) {
    capability.clear_modes();
    for (const int mode : changes["modes"]) capability.add_modes(static_cast<proto::Mode>(mode));
  }
  if (changes.contains("types")) {
    capability.clear_types();
    for (const std::string type : changes["types"]) capability.add_types(type);
  }
  if (changes.contains("operations")) {
    capability.clear_operations();
    for (const std::string op : changes["operations"]) capability.add_operations(op);
  }
}

class OtherEngine : public agent::TableService {
 public:
  OtherEngine(agent::EngineClient* engine, std::string changes)
      : TableService(engine), changes_(std::move(changes)) {}

  grpc::Status Describe(grpc::ServerContext* context, const proto::DescribeRequest* request,
                        proto::EngineInfo* reply) override {
    const grpc::Status status = TableService::Describe(context, request, reply);
    if (!status.ok()) return status;
    std::ifstream file(changes_);
    if (!file) return status;
    const Json changes = Json::parse(file, nullptr, false);
    if (!changes.is_object()) return {grpc::INTERNAL, fmt::format("{} is no JSON object", changes_)};
    Alter(changes, reply);
    return status;
  }

 private:
  const std::string changes_;
};

int Main(char** argv) {
  // Before any thread starts, so that only sigwait sees them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  agent::EngineClient engine(argv[1]);
  OtherEngine service(&engine, argv[3]);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(fmt::format("unix:{}", argv[2]), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (!server) {
    fmt::print(stderr, "other_engine: cannot serve on {}\n", argv[2]);
    return 1;
  }
  int signal = 0;
  sigwait(&ends, &signal);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

}  // namespace
}  // namespace epic

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: other_engine ENGINE_SOCKET OWN_SOCKET FILE\n");
    return 2;
  }
  return epic::Main(argv);
}
