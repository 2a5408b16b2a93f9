#include "commlib/config.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/manager_address.h"
#include "protocol/abilities.h"
#include "protocol/modes.h"

namespace epic::internal {
namespace {

// The last ones are of programs that use MPI (docs/MPI.md).
constexpr std::array<std::string_view, 24> kKnown = {
    "EPIC_GROUP",           "EPIC_RANK",          "EPIC_SIZE",           "EPIC_MANAGER",
    "EPIC_IFNAME",          "EPIC_MODE",          "EPIC_PATH",           "EPIC_ALGORITHM",
    "EPIC_TIMEOUT",         "EPIC_JOIN_TIMEOUT",  "EPIC_SPIN_US",        "EPIC_DEBUG",
    "EPIC_DEBUG_FILE",      "EPIC_MPI",           "EPIC_MPI_REPORT",     "EPIC_MPI_MIN_BYTES",
    "EPIC_MPI_MAX_BYTES",   "EPIC_MAX_BYTES",     "EPIC_TYPES",          "EPIC_QUANTISE",
    "EPIC_MANAGER_TIMEOUT", "EPIC_MPI_FROM_CALL", "EPIC_MPI_FROM_BYTES", "EPIC_MPI_KEEP"};

struct Launcher {
  const char* rank;
  const char* size;
};
// In this order; a launcher counts if both of its variables are set. The last one is MPICH's.
constexpr std::array<Launcher, 5> kLaunchers = {{{"EPIC_RANK", "EPIC_SIZE"},
                                                 {"RANK", "WORLD_SIZE"},
                                                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                 {"SLURM_PROCID", "SLURM_NTASKS"},
                                                 {"PMI_RANK", "PMI_SIZE"}}};

// Of inchost, as it is by default.
constexpr const char* kHostSocket = "/run/epic/host.sock";

// A time that a clock can still be moved by: longer ones, such as milliseconds::max(), are as good as this.
constexpr std::chrono::seconds kLongestTimeout(1'000'000'000);  // 31 years
constexpr std::chrono::seconds kManagerTimeout(10);

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

template <typename Number>
Error ReadNumber(const char* name, const char* text, Number* value) {
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

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};
constexpr std::array<Named<PathChoice>, 3> kPaths = {
    {{"auto", PathChoice::kAuto}, {"network", PathChoice::kNetwork}, {"hosts", PathChoice::kHosts}}};
constexpr std::array<Named<HostAlgorithm>, 3> kAlgorithms = {
    {{"auto", HostAlgorithm::kAuto}, {"doubling", HostAlgorithm::kDoubling}, {"ring", HostAlgorithm::kRing}}};

// One of the names, unless the value is set already, or the fallback.
template <typename Value, size_t n>
Error ReadName(const GetEnv& get_env, const char* name, const std::array<Named<Value>, n>& names,
               Value fallback, Value* value) {
  const char* const text = get_env(name);
  if (*value == Value::kDefault && text != nullptr) {
    const auto at = std::ranges::find(names, std::string_view(text), &Named<Value>::name);
    if (at == names.end()) {
      std::string known;
      for (const auto& row : names) known.append(known.empty() ? "" : ", ").append(row.name);
      return Invalid(fmt::format("{}={} is none of {}", name, text, known));
    }
    *value = at->value;
  }
  if (*value == Value::kDefault) *value = fallback;
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

Error ReadScale(const GetEnv& get_env, const char* name, float* value) {
  const char* text = get_env(name);
  const std::string_view view = text == nullptr ? "" : text;
  if (text != nullptr && *value == 0) {
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), *value);
    if (error != std::errc() || end != view.data() + view.size())
      return Invalid(fmt::format("{}={} is not a number", name, view));
  }
  if (*value == 0 || IsScale(*value)) return {};
  return Invalid(fmt::format("quantise ({}): {} is not a number from {} to {}", name, *value, kLeastScale,
                             kLargestScale));
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
      if (Error e = ReadNumber(launcher.rank, rank, &options->rank); !e.ok()) return e;
    }
    if (size != nullptr && options->size == -1) {
      if (Error e = ReadNumber(launcher.size, size, &options->size); !e.ok()) return e;
    }
  }
  return {};
}

}  // namespace

std::string HostDaemon() {
  // One that was killed leaves its socket there.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string_view(kHostSocket).copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  const bool served = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return served ? std::string("unix:") + kHostSocket : "";
}

Error ResolveOptions(const GetEnv& environment, Options* options, const std::string& host_daemon) {
  const GetEnv get_env =
      options->environment ? environment : [](const char*) -> const char* { return nullptr; };
  ReadString(get_env, "EPIC_GROUP", &options->group);
  ReadString(get_env, "EPIC_MANAGER", &options->manager);
  if (options->manager.empty()) options->manager = host_daemon;
  if (!options->manager.empty()) {
    auto manager = ManagerAddress(options->manager);
    if (!manager.ok())
      return Invalid("manager (Options::manager, EPIC_MANAGER): " + std::string(manager.status().message()));
    options->manager = *std::move(manager);
  }
  ReadString(get_env, "EPIC_IFNAME", &options->ifname);
  if (options->group.empty()) options->group = "default";
  if (Error e = ReadSeconds(get_env, "EPIC_TIMEOUT", &options->timeout); !e.ok()) return e;
  if (Error e = ReadSeconds(get_env, "EPIC_JOIN_TIMEOUT", &options->join_timeout); !e.ok()) return e;
  if (Error e = ReadSeconds(get_env, "EPIC_MANAGER_TIMEOUT", &options->manager_timeout); !e.ok()) return e;
  if (const char* mode = get_env("EPIC_MODE"); mode != nullptr && options->mode == 0) {
    if (Error e = ReadMode("EPIC_MODE", mode, &options->mode); !e.ok()) return e;
  }
  if (options->mode != 0 && !ModeOfNumber(options->mode))
    return NoMode(fmt::format("mode {}", options->mode));
  if (Error e = ReadName(get_env, "EPIC_PATH", kPaths, PathChoice::kDefault, &options->path); !e.ok())
    return e;
  if (Error e = ReadName(get_env, "EPIC_ALGORITHM", kAlgorithms, HostAlgorithm::kAuto, &options->algorithm);
      !e.ok())
    return e;
  const auto none_of = [](auto value, const auto& names) {
    return static_cast<int>(value) != 0 &&
           std::ranges::find(names, value, [](const auto& row) { return row.value; }) == names.end();
  };
  if (none_of(options->path, kPaths))
    return Invalid(fmt::format("path {} is none", static_cast<int>(options->path)));
  if (none_of(options->algorithm, kAlgorithms))
    return Invalid(fmt::format("algorithm {} is none", static_cast<int>(options->algorithm)));
  ReadString(get_env, "EPIC_TYPES", &options->types);
  Abilities types;
  if (const std::string wrong = AddTypes(options->types, &types); !options->types.empty() && !wrong.empty())
    return Invalid("types (EPIC_TYPES): " + wrong);
  if (const char* bytes = get_env("EPIC_MAX_BYTES"); bytes != nullptr && options->max_bytes == 0) {
    if (Error e = ReadNumber("EPIC_MAX_BYTES", bytes, &options->max_bytes); !e.ok()) return e;
  }
  if (Error e = ReadScale(get_env, "EPIC_QUANTISE", &options->quantise); !e.ok()) return e;
  if (options->timeout.count() == 0) options->timeout = std::chrono::minutes(30);
  if (options->manager_timeout.count() == 0) options->manager_timeout = kManagerTimeout;
  if (Error e = ReadRankAndSize(get_env, options); !e.ok()) return e;
  for (std::chrono::milliseconds* timeout :
       {&options->timeout, &options->join_timeout, &options->manager_timeout}) {
    if (timeout->count() < 0) return Invalid("a timeout is negative");
    *timeout = std::min<std::chrono::milliseconds>(*timeout, kLongestTimeout);
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
  if (options->manager.empty() && options->size != 1) {
    return Invalid(
        "nobody says where the manager is: set Options::manager or EPIC_MANAGER to HOST:PORT (this host has "
        "no inchost)");
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
