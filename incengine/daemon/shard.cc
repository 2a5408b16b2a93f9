#include "incengine/daemon/shard.h"

#include <fmt/format.h>
#include <pthread.h>

#include <filesystem>
#include <utility>

namespace epic::daemon {
namespace {

// Shard 0's is the file that was asked for; the others have their number before its extension.
std::string TracePath(const std::string& path, uint32_t number) {
  if (path.empty() || number == 0) return path;
  const std::filesystem::path file(path);
  return file.parent_path() / fmt::format("{}.{}{}", file.stem().string(), number, file.extension().string());
}

}  // namespace

Options OptionsOfShard(const Options& options, uint32_t number) {
  Options of = options;
  of.config.arena_bytes = options.config.arena_bytes / options.cores;
  if (of.config.pool) of.config.pool->bytes /= options.cores;
  if (number > 0) of.config.forwarding = engine::ForwardingMode::kStatic;
  if (number == 0) of.config.hello = {options.name, EPIC_VERSION, options.ports.interfaces};
  of.ports.shard = number;
  of.ports.shards = options.cores;
  of.trace_path = TracePath(options.trace_path, number);
  return of;
}

StatusOr<std::unique_ptr<Shard>> Shard::Open(const Options& options, const Identity& identity,
                                             uint32_t number) {
  std::unique_ptr<Shard> shard(new Shard(OptionsOfShard(options, number), number));
  if (const Status status = shard->OpenPorts(identity); !status.ok()) return status;
  return StatusOr<std::unique_ptr<Shard>>(std::move(shard));
}

Shard::Shard(const Options& options, uint32_t number)
    : options_(options), number_(number), loop_(options.spin_ns), switch_(options.config) {}

Shard::~Shard() {
  if (!thread_.joinable()) return;
  loop_.Post([this] { loop_.Stop(); });
  thread_.join();
}

Status Shard::OpenPorts(const Identity& identity) {
  if (!options_.trace_path.empty()) {
    auto trace = Trace::Open(options_.trace_path, options_.trace_limit, options_.name, options_.config);
    if (!trace.ok()) return trace.status();
    trace_ = *std::move(trace);
  }
  auto ports = Ports::Open(options_.ports, loop_, switch_, trace_.get());
  if (!ports.ok()) return ports.status();
  ports_ = *std::move(ports);
  control_ = std::make_unique<SwitchControl>(
      identity, options_.ports.interfaces, switch_, [this] { return ports_->States(); }, trace_.get(),
      [this](const engine::ProbeTarget& target) { return ports_->Probe(target); },
      [this](Ipv4 ip) { return ports_->Locate(ip); });
  return {};
}

void Shard::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), fmt::format("shard {}", number_).c_str());
    loop_.Run();
  });
}

}  // namespace epic::daemon
