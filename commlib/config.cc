#include "commlib/config.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <span>
#include <string_view>

#include "base/address.h"
#include "commlib/core/host_path.h"
#include "protocol/abilities.h"
#include "protocol/modes.h"
#include "protocol/priority.h"
#include "protocol/quantise_word.h"

namespace epic::internal {
namespace {

// The last ones are of programs that use MPI (docs/MPI.md).
constexpr std::array<std::string_view, 27> kKnown = {
    "EPIC_GROUP",           "EPIC_RANK",          "EPIC_SIZE",           "EPIC_MANAGER",
    "EPIC_IFNAME",          "EPIC_MODE",          "EPIC_PATH",           "EPIC_ALGORITHM",
    "EPIC_TIMEOUT",         "EPIC_JOIN_TIMEOUT",  "EPIC_SPIN_US",        "EPIC_DEBUG",
    "EPIC_DEBUG_FILE",      "EPIC_MPI",           "EPIC_MPI_REPORT",     "EPIC_MPI_MIN_BYTES",
    "EPIC_MPI_MAX_BYTES",   "EPIC_MAX_BYTES",     "EPIC_TYPES",          "EPIC_QUANTISE",
    "EPIC_MANAGER_TIMEOUT", "EPIC_MPI_FROM_CALL", "EPIC_MPI_FROM_BYTES", "EPIC_MPI_KEEP",
    "EPIC_MANAGER_AWAY",    "EPIC_RECEIVES",      "EPIC_PRIORITY"};

// Of what starts programs, and of what tests run: in the environment of a program, and none of its business.
constexpr std::array<std::string_view, 18> kOthers = {
    "EPIC_BUILD",      "EPIC_CACHE",      "EPIC_SSH",          "EPIC_SEED",       "EPIC_SEEDS",
    "EPIC_COVER_SEED", "EPIC_PLACE_SEED", "EPIC_TREE_SEED",    "EPIC_LEDGER",     "EPIC_PART",
    "EPIC_STAGE",      "EPIC_STAGE_NAME", "EPIC_STAGE_GROUPS", "EPIC_TEST_BUILD", "EPIC_TEST_HOSTS",
    "EPIC_RXE_RUNS",   "EPIC_FAULT_RUNS", "EPIC_BENCH_PACKETS"};

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

constexpr std::chrono::seconds kManagerTimeout(10);
constexpr double kManagerAwaySeconds = 60;
constexpr uint32_t kLeastReceives = 64, kMostReceives = 8192;

Error InvalidOption(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// What is wrong with a variable that has been read so far, if one is.
Error WrongOf(const Environment& environment) {
  return environment.wrong().empty() ? Error{} : InvalidOption(environment.wrong());
}

Error NoMode(const std::string& what) {
  return InvalidOption(fmt::format("{} is none of {} (0: the manager chooses)", what, ModeChoice()));
}

// Any name of a mode, or 0.
Error ReadMode(const char* name, const char* text, int* value) {
  const auto mode = ModeNamed(text);
  if (!mode && std::string_view(text) != "0") return NoMode(fmt::format("{}={}", name, text));
  *value = mode ? NumberOf(*mode) : 0;
  return {};
}

// In the order of PathChoice and HostAlgorithm, behind their kDefault.
constexpr std::array<std::string_view, 3> kPaths = {"auto", "network", "hosts"};
constexpr std::array<std::string_view, 4> kAlgorithms = {"auto", "doubling", "ring", "multicast"};
static_assert(static_cast<size_t>(PathChoice::kHosts) == kPaths.size());
static_assert(static_cast<size_t>(HostAlgorithm::kMulticast) == kAlgorithms.size());

// One of the names, unless the value is set already.
template <typename Value>
void ReadName(const char* name, std::span<const std::string_view> names, Environment* environment,
              Value* value) {
  if (*value != Value::kDefault) return;
  if (const auto at = environment->Choice(name, names)) *value = static_cast<Value>(*at + 1);
}

void ReadSeconds(const char* name, Environment* environment, std::chrono::milliseconds* value) {
  if (value->count() == 0) environment->Seconds(name, value);
}

// 0 is a time, too.
void ReadAway(Environment* environment, std::chrono::milliseconds* value) {
  if (value->count() >= 0) return;
  double seconds = kManagerAwaySeconds;
  environment->Number("EPIC_MANAGER_AWAY", 0.0, "is not a number of seconds, or 0", &seconds);
  const double ms = seconds * 1000;
  const std::chrono::milliseconds most = Environment::kLongestTime;
  // Also what is no number.
  const bool fits = ms < static_cast<double>(most.count());
  *value = fits ? std::chrono::milliseconds(static_cast<int64_t>(ms)) : most;
}

// "0", "0.0", "0e0".
bool IsZero(const char* text) {
  char* end = nullptr;
  return std::strtod(text, &end) == 0 && end != text && *end == '\0';
}

Error ReadQuantiseOf(const char* name, const Environment& environment, Options* options) {
  const char* const text = environment.Get(name);
  if (options->quantise == 0 && !options->quantise_int8 && text != nullptr && !IsZero(text)) {
    const std::string wrong = ReadQuantise(text, &options->quantise, &options->quantise_int8);
    if (!wrong.empty()) return InvalidOption(fmt::format("quantise ({}): {}", name, wrong));
  }
  if (options->quantise == 0) return {};
  if (options->quantise_int8)
    return InvalidOption("quantise: a scale and int8 are two ways, and a group has one");
  if (IsScale(options->quantise)) return {};
  return InvalidOption(fmt::format("quantise ({}): {} is not a number from {} to {}", name, options->quantise,
                                   kLeastScale, kLargestScale));
}

// Of what no priority can be the option stays as it is: afterwards it is one.
Error ReadPriority(Environment* environment, double* priority) {
  constexpr char kName[] = "EPIC_PRIORITY";
  const char* const text = environment->Get(kName);
  double value = *priority == 0 ? ValueOf(kDefaultPriority) : *priority;
  if (*priority == 0 && text != nullptr && !ReadNumber(text, &value)) value = -1;
  if (IsPriority(value)) {
    *priority = ValueOf(PriorityOf(value));
    return {};
  }
  return InvalidOption(fmt::format("priority ({}): {} is not a number from 0 on", kName,
                                   *priority == 0 ? text : fmt::to_string(value)));
}

void ReadText(const char* name, const Environment& environment, std::string* value) {
  if (value->empty()) environment.Text(name, value);
}

void ReadRankAndSize(Environment* environment, Options* options) {
  constexpr std::string_view kNone = "is not a number from 0 on";
  for (const Launcher& launcher : kLaunchers) {
    // EPIC_ variables count alone too, so that one of the two can be overridden.
    const bool own = std::string_view(launcher.rank).starts_with("EPIC_");
    if (!own && (environment->Get(launcher.rank) == nullptr || environment->Get(launcher.size) == nullptr))
      continue;
    if (options->rank == -1) environment->Number(launcher.rank, 0, kNone, &options->rank);
    if (options->size == -1) environment->Number(launcher.size, 0, kNone, &options->size);
  }
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
  return served ? fmt::format("unix:{}", kHostSocket) : "";
}

Error ResolveOptions(const GetEnv& get_env, Options* options, const std::string& host_daemon) {
  const GetEnv nothing = [](const char*) -> const char* { return nullptr; };
  Environment environment(options->environment ? get_env : nothing, Environment::Empty::kIsAValue);
  ReadText("EPIC_GROUP", environment, &options->group);
  ReadText("EPIC_MANAGER", environment, &options->manager);
  if (options->manager.empty()) options->manager = host_daemon;
  if (!options->manager.empty()) {
    auto manager = ManagerAddress(options->manager);
    if (!manager.ok())
      return InvalidOption("manager (Options::manager, EPIC_MANAGER): " +
                           std::string(manager.status().message()));
    options->manager = *std::move(manager);
  }
  ReadText("EPIC_IFNAME", environment, &options->ifname);
  if (options->group.empty()) options->group = "default";
  ReadSeconds("EPIC_TIMEOUT", &environment, &options->timeout);
  ReadSeconds("EPIC_JOIN_TIMEOUT", &environment, &options->join_timeout);
  ReadSeconds("EPIC_MANAGER_TIMEOUT", &environment, &options->manager_timeout);
  if (Error e = WrongOf(environment); !e.ok()) return e;
  if (const char* mode = environment.Get("EPIC_MODE"); mode != nullptr && options->mode == 0) {
    if (Error e = ReadMode("EPIC_MODE", mode, &options->mode); !e.ok()) return e;
  }
  if (options->mode != 0 && !ModeOfNumber(options->mode))
    return NoMode(fmt::format("mode {}", options->mode));
  ReadName("EPIC_PATH", kPaths, &environment, &options->path);
  ReadName("EPIC_ALGORITHM", kAlgorithms, &environment, &options->algorithm);
  if (Error e = WrongOf(environment); !e.ok()) return e;
  if (options->algorithm == HostAlgorithm::kDefault) options->algorithm = HostAlgorithm::kAuto;
  if (static_cast<size_t>(options->path) > kPaths.size())
    return InvalidOption(fmt::format("path {} is none", static_cast<int>(options->path)));
  if (static_cast<size_t>(options->algorithm) > kAlgorithms.size())
    return InvalidOption(fmt::format("algorithm {} is none", static_cast<int>(options->algorithm)));
  ReadText("EPIC_TYPES", environment, &options->types);
  Abilities types;
  if (const std::string wrong = AddTypes(options->types, &types); !options->types.empty() && !wrong.empty())
    return InvalidOption("types (EPIC_TYPES): " + wrong);
  if (options->max_bytes == 0)
    environment.Number("EPIC_MAX_BYTES", 0, "is not a number from 0 on", &options->max_bytes);
  if (options->receives == 0)
    environment.Number("EPIC_RECEIVES", 1, "is not a number from 1 on", &options->receives);
  if (options->receives == 0) options->receives = HostPathConfig{}.staging_chunks;
  if (options->receives < kLeastReceives || options->receives > kMostReceives) {
    return InvalidOption(
        fmt::format("receives (Options::receives, EPIC_RECEIVES): {} is not a number from {} to {}",
                    options->receives, kLeastReceives, kMostReceives));
  }
  if (Error e = ReadPriority(&environment, &options->priority); !e.ok()) return e;
  if (Error e = ReadQuantiseOf("EPIC_QUANTISE", environment, options); !e.ok()) return e;
  if (options->timeout.count() == 0) options->timeout = std::chrono::minutes(30);
  if (options->manager_timeout.count() == 0) options->manager_timeout = kManagerTimeout;
  ReadAway(&environment, &options->manager_away);
  ReadRankAndSize(&environment, options);
  if (Error e = WrongOf(environment); !e.ok()) return e;
  for (std::chrono::milliseconds* timeout :
       {&options->timeout, &options->join_timeout, &options->manager_timeout, &options->manager_away}) {
    if (timeout->count() < 0) return InvalidOption("a timeout is negative");
    *timeout = std::min<std::chrono::milliseconds>(*timeout, Environment::kLongestTime);
  }
  if (options->rank == -1 || options->size == -1) {
    return InvalidOption(
        fmt::format("nobody says this process's {}: set it in Options, or set EPIC_RANK and EPIC_SIZE, or "
                    "start with torchrun, srun or mpirun",
                    options->rank == -1 ? "rank" : "group size"));
  }
  if (options->rank < 0 || options->rank >= options->size) {
    return InvalidOption(
        fmt::format("rank {} is not in a group of {} (ranks count from 0)", options->rank, options->size));
  }
  if (options->manager.empty() && options->size != 1) {
    return InvalidOption(
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
    if (!name.starts_with("EPIC_") || name.starts_with("EPIC_SOFTNIC_")) continue;
    const auto is_name = [name](std::string_view known) { return known == name; };
    if (std::ranges::none_of(kKnown, is_name) && std::ranges::none_of(kOthers, is_name))
      unknown.emplace_back(name);
  }
  return unknown;
}

}  // namespace epic::internal
