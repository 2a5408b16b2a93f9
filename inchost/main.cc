// inchost: the daemon of one host. Command line, signals, log.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/command_line.h"
#include "base/descriptors.h"
#include "base/end_signals.h"
#include "inchost/daemon.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  // gRPC's own messages would bury ours, which say the same; the user's setting wins.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  epic::host::HostOptions options{.name = "",
                                  .manager = "",
                                  .socket = "/run/epic/host.sock",
                                  .version = EPIC_VERSION,
                                  .fallback_bytes = 0,
                                  .fallback_ifname = "",
                                  .manager_wait = 0};
  double manager_timeout_s = 10;
  std::string log_level = "info";
  epic::CommandLine line(
      "Registers this host's RoCE ports at the manager, and carries the sessions of all its ranks in one "
      "stream.\nPrograms reach it by its socket, by themselves where nobody says another manager.\n"
      "Exit codes: 0 ended by SIGTERM or SIGINT, 1 cannot serve, 2 usage.");
  line.Version(EPIC_VERSION);
  line.Add("--manager", &options.manager,
           "address of the manager, HOST:PORT (without a port: 7400); of several, of which one leads, a list "
           "with commas between")
      .Required()
      .Env("EPIC_MANAGER");
  line.Add("--name", &options.name, "name of this host (default: as the kernel says)");
  line.Add("--socket", &options.socket, "Unix socket to serve programs on").ShowDefault();
  line.Add("--manager-timeout", &manager_timeout_s, "how long ranks wait for the manager, in seconds")
      .From(0.1, 1e6)
      .ShowDefault();
  line.Add("--fallback", &options.fallback_bytes,
           "memory that this host lends to groups of mode pooled, for sums that find no room in their switch")
      .Bytes();
  line.Add("--fallback-interface", &options.fallback_ifname,
           "network device by whose RoCE port it serves them (default: the first that is active)");
  line.Add("--log-level", &log_level, "trace, debug, info, warn or error")
      .OneOf({"trace", "debug", "info", "warn", "error"});
  if (const auto exit_code = line.Parse(argc, argv, kExitUsage)) return *exit_code;
  options.manager_wait = static_cast<epic::Nanos>(manager_timeout_s * epic::kSecond);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("inchost"));
  spdlog::set_level(spdlog::level::from_str(log_level));

  const epic::EndSignals ends;
  epic::RaiseDescriptorLimit();

  const auto daemon = epic::host::Daemon::Start(options);
  if (!daemon.ok()) {
    fmt::print(stderr, "inchost: {}\n", std::string(daemon.status().message()));
    return daemon.status().code() == epic::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
  }
  spdlog::info("serving programs on {}", options.socket);
  const int signal = ends.Wait();
  spdlog::info("ends on signal {}", signal);
  return 0;
}
