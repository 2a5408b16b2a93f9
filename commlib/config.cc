#include "commlib/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "protocol/modes.h"

namespace epic::internal {
namespace {

constexpr std::array<std::string_view, 11> kKnown = {
    "EPIC_GROUP",   "EPIC_RANK",         "EPIC_SIZE",    "EPIC_MANAGER", "EPIC_IFNAME",    "EPIC_MODE",
    "EPIC_TIMEOUT", "EPIC_JOIN_TIMEOUT", "EPIC_SPIN_US", "EPIC_DEBUG",   "EPIC_DEBUG_FILE"};

struct Launcher {
  const char* rank;
  const char* size;
};
// In this order; a launcher counts if both of its variables are set.
constexpr std::array<Launcher, 4> kLaunchers = {{{"EPIC_RANK", "EPIC_SIZE"},
                                                 {"RANK", "WORLD_SIZE"},
                                                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                 {"SLURM_PROCID", "SLURM_NTASKS"}}};

// A time that a clock can still be moved by: longer ones, such as milliseconds::max(), are as good as this.
constexpr std::chrono::seconds kLongestTimeout(1'000'000'000);  // 31 years

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Error ReadInt(const char* name, const char* text, int* value) {
  const std::string_view view = text;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), *value);
  if (error == std::errc() && end == view.data() + view.size() && *value >= 0) return {};
  return Invalid(fmt::format("{}={} is not a number from 0 on", name, text));
}

Error NoMode(const std::string& what) {
  return Invalid(fmt::format("{} is none of {} (0: the manager chooses)", what, ModeChoice()));
}

// Any name of a mode, or 0.
Error ReadMode(const char* name, const char* text, int* value) {
  const auto mode = ModeNamed(text);
  if (!mode && std::string_view(text) != "0") return NoMode(fmt::format("{}={}", name, text));
  *value = mode ? NumberOf(*mode) : 0;
  return {};
}

Error ReadSeconds(const GetEnv& get_env, const char* name, std::chrono::milliseconds* value) {
  const char* text = get_env(name);
  if (text == nullptr || value->count() != 0) return {};
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  const auto longest = static_cast<double>(kLongestTimeout.count());
  if (end == text || *end != '\0' || !(seconds > 0 && seconds <= longest)) {
    return Invalid(
        fmt::format("{}={} is not a time in seconds above 0 and up to {:.0f}", name, text, longest));
  }
  *value = std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
  return {};
}

void ReadString(const GetEnv& get_env, const char* name, std::string* value) {
  const char* text = get_env(name);
  if (value->empty() && text != nullptr) *value = text;
}

Error ReadRankAndSize(const GetEnv& get_env, Options* options) {
  for (const Launcher& launcher : kLaunchers) {
    const char* rank = get_env(launcher.rank);
    const char* size = get_env(launcher.size);
    // EPIC_ variables count alone too, so that one of the two can be overridden.
    const bool own = std::string_view(launcher.rank).starts_with("EPIC_");
    if (!own && (rank == nullptr || size == nullptr)) continue;
    if (rank != nullptr && options->rank == -1) {
      if (Error e = ReadInt(launcher.rank, rank, &options->rank); !e.ok()) return e;
    }
    if (size != nullptr && options->size == -1) {
      if (Error e = ReadInt(launcher.size, size, &options->size); !e.ok()) return e;
    }
  }
  return {};
}

}  // namespace

Error ResolveOptions(const GetEnv& get_env, Options* options) {
  ReadString(get_env, "EPIC_GROUP", &options->group);
  ReadString(get_env, "EPIC_MANAGER", &options->manager);
  ReadString(get_env, "EPIC_IFNAME", &options->ifname);
  if (options->group.empty()) options->group = "default";
  if (Error e = ReadSeconds(get_env, "EPIC_TIMEOUT", &options->timeout); !e.ok()) return e;
  if (Error e = ReadSeconds(get_env, "EPIC_JOIN_TIMEOUT", &options->join_timeout); !e.ok()) return e;
  if (const char* mode = get_env("EPIC_MODE"); mode != nullptr && options->mode == 0) {
    if (Error e = ReadMode("EPIC_MODE", mode, &options->mode); !e.ok()) return e;
  }
  if (options->mode != 0 && !ModeOfNumber(options->mode))
    return NoMode(fmt::format("mode {}", options->mode));
  if (options->timeout.count() == 0) options->timeout = std::chrono::minutes(30);
  if (Error e = ReadRankAndSize(get_env, options); !e.ok()) return e;
  if (options->timeout.count() < 0 || options->join_timeout.count() < 0)
    return Invalid("a timeout is negative");
  for (std::chrono::milliseconds* timeout : {&options->timeout, &options->join_timeout})
    *timeout = std::min<std::chrono::milliseconds>(*timeout, kLongestTimeout);
  if (options->manager.empty()) {
    return Invalid("nobody says where the manager is: set Options::manager or EPIC_MANAGER to HOST:PORT");
  }
  if (options->rank == -1 || options->size == -1) {
    return Invalid(
        fmt::format("nobody says this process's {}: set it in Options, or set EPIC_RANK and EPIC_SIZE, or "
                    "start with torchrun, srun or mpirun",
                    options->rank == -1 ? "rank" : "group size"));
  }
  if (options->rank < 0 || options->rank >= options->size) {
    return Invalid(
        fmt::format("rank {} is not in a group of {} (ranks count from 0)", options->rank, options->size));
  }
  return {};
}

std::vector<std::string> UnknownVariables(const char* const* environment) {
  std::vector<std::string> unknown;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    // Those of softnic, the userspace NIC, concern what is below verbs.
    if (name.starts_with("EPIC_") && !name.starts_with("EPIC_SOFTNIC_") &&
        std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
      unknown.emplace_back(name);
    }
  }
  return unknown;
}

}  // namespace epic::internal
