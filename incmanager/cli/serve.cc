#include "incmanager/cli/serve.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include "base/descriptors.h"
#include "base/end_signals.h"
#include "base/path_mtu.h"
#include "incmanager/cli/client.h"
#include "incmanager/rpc/server.h"
#include "incmanager/text.h"
#include "incmanager/topology.h"

namespace epic::manager {
namespace {

int Complain(const Status& status, int code) {
  fmt::print(stderr, "incmanager: {}\n", std::string(status.message().data(), status.message().size()));
  return code;
}

// Orderly ends need threads that may be the ones that do not answer.
void EndSelf(const std::string& why) {
  spdlog::critical("manager ends: {}", why);
  spdlog::default_logger()->flush();
  std::_Exit(kExitRefused);
}

}  // namespace

int Serve(const ServeOptions& options) {
  StatusOr<Topology> topology = Topology{.name = "discovered", .path_mtu = kMaxPathMtu, .discovery = true};
  if (!options.topology.empty()) topology = LoadTopology(options.topology);
  if (!topology.ok()) return Complain(topology.status(), kExitUsage);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("incmanager"));
  spdlog::set_level(spdlog::level::from_str(options.log_level));

  const EndSignals ends;
  RaiseDescriptorLimit();

  const auto server =
      ManagerServer::Start(*topology, options.groups, options.listen, options.links, &EndSelf);
  if (!server.ok()) {
    const bool usage = server.status().code() == StatusCode::kInvalidArgument;
    fmt::print(stderr, "incmanager: --listen: {}\n", std::string(server.status().message()));
    return usage ? kExitUsage : kExitRefused;
  }
  spdlog::info("manager of {} ({}, {}{}) on {}, port {}", topology->name,
               Counted(topology->switches.size(), "switch", "switches"),
               Counted(topology->nodes.size() - topology->switches.size(), "host", "hosts"),
               topology->discovery ? ", and what is found" : "", options.listen, (*server)->port());
  const int signal = ends.Wait();
  spdlog::info("manager ends on signal {}", signal);
  return kExitOk;
}

}  // namespace epic::manager
