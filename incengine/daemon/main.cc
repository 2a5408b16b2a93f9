// incengine: the switch daemon. The main thread waits for signals, one thread runs the data path, gRPC's
// threads take the agent's calls.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <random>
#include <thread>

#include "incengine/daemon/control.h"
#include "incengine/daemon/options.h"
#include "incengine/daemon/ports.h"
#include "incengine/daemon/service.h"
#include "io/interface.h"
#include "io/offloads.h"
#include "io/unix_socket.h"

namespace epic::daemon {
namespace {

// 2 is for what the operator can mend: options, interfaces, rights, the control socket.
constexpr int kExitUsage = 2;

int Fail(const Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return kExitUsage;
}

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

void SetUpLog(const std::string& level) {
  const auto logger = spdlog::stderr_logger_mt("incengine");
  spdlog::set_default_logger(logger);
  spdlog::set_level(spdlog::level::from_str(level == "error" ? "err" : level));
  spdlog::flush_on(spdlog::level::trace);
}

// Says of each port whether super-frames leave there, and what is set wrongly.
int CheckConfig(const Options& options) {
  int exit_code = 0;
  for (const std::string& name : options.ports.interfaces) {
    if (!io::ReadInterface(name).exists) {
      exit_code = Fail(MakeStatus(StatusCode::kNotFound, "interface " + name + ": no such interface"));
      continue;
    }
    const io::Offloads offloads = io::ReadOffloads(name);
    if (const std::string wrong = io::WrongOffloads(name, offloads); !wrong.empty()) {
      exit_code = Fail(MakeStatus(StatusCode::kInvalidArgument, wrong));
      continue;
    }
    const bool carries = !options.ports.single_frames && io::CarriesSuperFrames(offloads);
    spdlog::info("{}: {}", name, carries ? "super-frames, with who takes them" : "single frames");
  }
  return exit_code;
}

int Run(const Options& options) {
  SetUpLog(options.log_level);
  if (options.check_config) return CheckConfig(options);
  // Before any thread starts, so that all inherit it and only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  if (const Status status = io::ClaimSocketPath(options.control_path); !status.ok()) return Fail(status);
  io::EventLoop loop(options.spin_ns);
  engine::Switch sw(options.config);
  std::unique_ptr<Trace> trace;
  if (!options.trace_path.empty()) {
    auto opened = Trace::Open(options.trace_path, options.trace_limit, options.name, options.config);
    if (!opened.ok()) return Fail(opened.status());
    trace = *std::move(opened);
  }
  auto ports = Ports::Open(options.ports, loop, sw, trace.get());
  if (!ports.ok()) return Fail(ports.status());
  SwitchControl control(
      {options.name, EPIC_VERSION, RandomId()}, options.ports.interfaces, sw,
      [&ports] { return (*ports)->States(); }, trace.get(),
      [&ports](const engine::ProbeTarget& target) { return (*ports)->Probe(target); });

  std::thread data_path([&loop] { loop.Run(); });
  auto server = ControlServer::Start(options.control_path, loop, control);
  int exit_code = 0;
  if (server.ok()) {
    spdlog::info("{} runs with {} ports, control on {}", options.name, options.ports.interfaces.size(),
                 options.control_path);
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("ends on signal {}", signal);
    server->reset();
  } else {
    exit_code = Fail(server.status());
  }
  loop.Post([&loop] { loop.Stop(); });
  data_path.join();
  return exit_code;
}

}  // namespace
}  // namespace epic::daemon

int main(int argc, char** argv) {
  epic::daemon::Options options;
  switch (epic::daemon::ParseOptions(argc, argv, &options)) {
    case epic::daemon::ParseOutcome::kExitOk:
      return 0;
    case epic::daemon::ParseOutcome::kUsageError:
      return epic::daemon::kExitUsage;
    case epic::daemon::ParseOutcome::kRun:
      break;
  }
  return epic::daemon::Run(options);
}
