// incagent: the agent of one switch. Command line, signals, log.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/command_line.h"
#include "base/descriptors.h"
#include "base/end_signals.h"
#include "incagent/agent.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  // gRPC's own messages would bury ours, which say the same; the user's setting wins.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  epic::agent::AgentOptions options;
  std::string log_level = "info";
  epic::CommandLine line(
      "Registers a switch at the manager and passes the manager's calls on to the switch's engine.\n"
      "Exit codes: 0 ended by SIGTERM or SIGINT, 1 cannot serve, 2 usage.");
  line.Version(EPIC_VERSION);
  line.Add("--name", &options.name, "name of the switch in the topology").Required();
  line.Add("--engine", &options.engine, "control socket of the engine (a path)").Required();
  line.Add("--manager", &options.manager,
           "address of the manager, HOST:PORT (without a port: 7400); of several, of which one leads, a list "
           "with commas between")
      .Required()
      .Env("EPIC_MANAGER");
  line.Add("--listen", &options.listen, "address to serve the manager on, HOST:PORT (port 0: any)").Required();
  line.Add("--advertise", &options.advertise, "HOST:PORT under which the manager reaches --listen, if another");
  line.Add("--log-level", &log_level, "trace, debug, info, warn or error")
      .OneOf({"trace", "debug", "info", "warn", "error"});
  if (const auto exit_code = line.Parse(argc, argv, kExitUsage)) return *exit_code;
  spdlog::set_default_logger(spdlog::stderr_logger_mt("incagent"));
  spdlog::set_level(spdlog::level::from_str(log_level));

  const epic::EndSignals ends;
  epic::RaiseDescriptorLimit();

  const auto agent = epic::agent::Agent::Start(options);
  if (!agent.ok()) {
    const std::string message(agent.status().message().data(), agent.status().message().size());
    fmt::print(stderr, "incagent: {}\n", message);
    return agent.status().code() == epic::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
  }
  spdlog::info("{}: serving on {}", options.name, (*agent)->address());
  const int signal = ends.Wait();
  spdlog::info("{}: ends on signal {}", options.name, signal);
  return 0;
}
