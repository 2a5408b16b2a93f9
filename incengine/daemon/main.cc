// incengine: the switch daemon. The main thread waits for signals, one thread per core runs its shard of the
// data path, gRPC's threads take the agent's calls.
#include <sched.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/descriptors.h"
#include "incengine/daemon/changes.h"
#include "incengine/daemon/options.h"
#include "incengine/daemon/service.h"
#include "incengine/daemon/shard.h"
#include "incengine/daemon/sharded_control.h"
#include "io/autogroup.h"
#include "io/dpdk_ports.h"
#include "io/kernel_ports.h"
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

// Where this program's modules are: beside it, or where an installed tree has them.
std::vector<std::string> ModuleFolders() {
  std::error_code unused;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", unused).parent_path();
  return {folder, folder / EPIC_MODULES_FROM_BIN};
}

void Say(io::DpdkOptions::Level level, const std::string& line) {
  using Level = io::DpdkOptions::Level;
  spdlog::log(level == Level::kError     ? spdlog::level::err
              : level == Level::kWarning ? spdlog::level::warn
              : level == Level::kInfo    ? spdlog::level::info
                                         : spdlog::level::debug,
              "{}", line);
}

// The ports that are none of the kernel's, if some are asked for; else nothing.
StatusOr<std::unique_ptr<io::PortSource>> LoadDevices(const Options& options) {
  if (!options.dpdk) return nullptr;
  io::DpdkOptions dpdk = *options.dpdk;
  dpdk.say = Say;
  return io::LoadDpdkPorts(ModuleFolders(), dpdk);
}

// Says of each port whether super-frames leave there, and what is set wrongly.
int CheckConfig(const Options& options, io::PortSource* devices) {
  int exit_code = 0;
  io::KernelPorts kernel;
  for (const std::string& name : options.ports.interfaces) {
    io::PortSource& source = devices != nullptr && devices->Has(name) ? *devices : kernel;
    if (!source.State(name).exists) {
      exit_code = Fail(MakeStatus(StatusCode::kNotFound, "interface " + name + ": no such interface"));
      continue;
    }
    if (const std::string wrong = source.Wrong(name); !wrong.empty()) {
      exit_code = Fail(MakeStatus(StatusCode::kInvalidArgument, wrong));
      continue;
    }
    spdlog::info("{}: {}", name, source.Describe(name, options.ports.single_frames));
  }
  return exit_code;
}

// Shards that share a processor keep each other waiting, but are right: said, and no more.
void WarnOfProcessors(uint32_t cores) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;  // more than it has room for
  const int processors = CPU_COUNT(&usable);
  if (cores > static_cast<uint32_t>(processors))
    spdlog::warn("--cores {}: this process may use only {}", cores,
                 Counted(static_cast<uint64_t>(processors), "processor"));
}

int Run(Options options) {
  SetUpLog(options.log_level);
  // Before any thread starts, so that all inherit it and only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Outlives the shards.
  const auto devices = LoadDevices(options);
  if (!devices.ok()) return Fail(devices.status());
  options.ports.devices = devices->get();
  if (options.check_config) return CheckConfig(options, devices->get());
  RaiseDescriptorLimit();

  if (const Status status = io::ClaimSocketPath(options.control_path); !status.ok()) return Fail(status);
  WarnOfProcessors(options.cores);
  if (options.autogroup_nice != 0) {
    // Without it slower beside others, and right.
    if (const Status status = io::SetAutogroupNice(options.autogroup_nice); !status.ok())
      spdlog::warn("--autogroup-nice {}: {}", options.autogroup_nice, std::string(status.message()));
  }
  const Identity identity{options.name, EPIC_VERSION, RandomId()};
  Changes changes;  // outlives the shards, whose threads note them
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<ShardedControl::Shard> controls;
  for (uint32_t number = 0; number < options.cores; ++number) {
    auto shard = Shard::Open(options, identity, number);
    if (!shard.ok()) return Fail(shard.status());
    shards.push_back(*std::move(shard));
    controls.push_back(shards.back()->control());
  }
  ShardedControl control(std::move(controls));
  for (const auto& shard : shards) shard->OnChange([&changes] { changes.Note(); });
  for (const auto& shard : shards) shard->Start();
  auto server = ControlServer::Start(options.control_path, control, changes);
  int exit_code = 0;
  if (server.ok()) {
    spdlog::info("{} runs with {} on {}, control on {}", options.name,
                 Counted(options.ports.interfaces.size(), "port"), Counted(options.cores, "core"),
                 options.control_path);
    int signal = 0;
    sigwait(&signals, &signal);
    spdlog::info("ends on signal {}", signal);
    server->reset();
  } else {
    exit_code = Fail(server.status());
  }
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
