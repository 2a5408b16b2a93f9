#include "sim/dsa/config.h"

#include <fmt/format.h>

#include <string>

namespace epic::sim::dsa {

std::string_view NameOf(System system) {
  switch (system) {
    case System::kSwitchMl:
      return "switchml";
    case System::kAtp:
      return "atp";
    case System::kDsa:
      return "dsa";
    case System::kAlways:
      return "always";
    case System::kCoin:
      return "coin";
  }
  return "";
}

std::optional<System> SystemNamed(std::string_view name) {
  for (const System system : kSystems) {
    if (NameOf(system) == name) return system;
  }
  return std::nullopt;
}

Status Validate(const JobsConfig& config) {
  const auto wrong = [](const std::string& what) { return absl::InvalidArgumentError(what); };
  if (config.jobs.empty() || config.jobs.size() > 64)
    return wrong(fmt::format("{} jobs: not from 1 to 64", config.jobs.size()));
  if (config.workers < 1 || config.workers > 16)
    return wrong(fmt::format("{} workers of a job: not from 1 to 16", config.workers));
  if (config.payload_bytes < 1 || config.header_bytes < 0 || PacketBytes(config) > 65536)
    return wrong(fmt::format("packets of {} and {} bytes: not from 1 to 65536 together", config.header_bytes,
                             config.payload_bytes));
  const uint32_t least =
      config.system == System::kSwitchMl ? 2 * static_cast<uint32_t>(config.jobs.size()) : 1;
  if (config.pool_bytes < least * config.payload_bytes)
    return wrong(fmt::format("a pool of {} bytes: {} needs {} of {} bytes at least", config.pool_bytes,
                             NameOf(config.system), least, config.payload_bytes));
  if (config.window_bytes < PacketBytes(config))
    return wrong(
        fmt::format("a window of {} bytes: a packet has {}", config.window_bytes, PacketBytes(config)));
  if (config.aimd && config.most_window < config.window_bytes)
    return wrong(
        fmt::format("a window of {} bytes: more than the most, {}", config.window_bytes, config.most_window));
  if (config.system == System::kSwitchMl && config.server_loss > 0)
    return wrong("switchml has no server that could lose packets");
  if (config.forward_percent < 0 || config.forward_percent > 100)
    return wrong(fmt::format("{} % of computation: not from 0 to 100", config.forward_percent));
  return absl::OkStatus();
}

}  // namespace epic::sim::dsa
