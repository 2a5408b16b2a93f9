#include "mpi/core/settings.h"

#include <array>

#include "base/address.h"
#include "protocol/abilities.h"
#include "protocol/modes.h"

namespace epic::mpi {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 3> kPaths = {"auto", "network", "hosts"};
constexpr std::array<std::string_view, 4> kAlgorithms = {"auto", "doubling", "ring", "multicast"};

// A port is put in that is not said. mpi_says: what the MPI's own means of configuration say.
void ReadManager(const char* name, std::string_view mpi_says, Environment* environment, std::string* value) {
  const char* const text = environment->Get(name);
  *value = text != nullptr ? std::string_view(text) : mpi_says;
  if (value->empty()) return;
  auto address = ManagerAddress(*value);
  if (address.ok()) {
    *value = *std::move(address);
  } else {
    environment->Refuse(text != nullptr ? name : "coll_epic_manager", *value,
                        "- " + std::string(address.status().message()));
  }
}

void ReadMode(const char* name, Environment* environment, int* value) {
  const char* const text = environment->Get(name);
  if (text == nullptr || std::string_view(text) == "0") return;
  const auto mode = ModeNamed(text);
  if (!mode) return environment->Refuse(name, text, "is none of " + ModeChoice());
  *value = NumberOf(*mode);
}

void ReadTypes(const char* name, Environment* environment, std::string* value) {
  environment->Text(name, value);
  Abilities types;
  if (value->empty()) return;
  if (const std::string wrong = AddTypes(*value, &types); !wrong.empty())
    environment->Refuse(name, *value, "- " + wrong);
}

void ReadSecondsOrNone(const char* name, Environment* environment, milliseconds* value) {
  const char* const text = environment->Get(name);
  if (text != nullptr && std::string_view(text) == "0")
    *value = milliseconds(0);
  else
    environment->Seconds(name, value);
}

// A field's place in the text that travels; order and number are the same on all ranks, which run one
// version.
std::array<std::string, 17> Fields(const Settings& s) {
  return {s.manager,
          s.ifname,
          s.path,
          s.algorithm,
          s.wrong,
          std::to_string(s.mode),
          std::to_string(s.timeout.count()),
          std::to_string(s.join_timeout.count()),
          std::to_string(s.min_bytes),
          std::to_string(s.max_bytes),
          s.off ? "1" : "0",
          s.report ? "1" : "0",
          s.types,
          std::to_string(s.manager_timeout.count()),
          std::to_string(s.from_call),
          std::to_string(s.from_bytes),
          std::to_string(s.keep.count())};
}

}  // namespace

Settings FromEnvironment(const GetEnv& get_env, std::string_view manager) {
  Settings settings;
  Environment environment(get_env, Environment::Empty::kIsUnset);
  ReadManager("EPIC_MANAGER", manager, &environment, &settings.manager);
  environment.Text("EPIC_IFNAME", &settings.ifname);
  if (const auto path = environment.Choice("EPIC_PATH", kPaths)) settings.path = kPaths[*path];
  if (const auto algorithm = environment.Choice("EPIC_ALGORITHM", kAlgorithms))
    settings.algorithm = kAlgorithms[*algorithm];
  ReadTypes("EPIC_TYPES", &environment, &settings.types);
  ReadMode("EPIC_MODE", &environment, &settings.mode);
  environment.Seconds("EPIC_TIMEOUT", &settings.timeout);
  environment.Seconds("EPIC_JOIN_TIMEOUT", &settings.join_timeout);
  environment.Seconds("EPIC_MANAGER_TIMEOUT", &settings.manager_timeout);
  constexpr std::string_view kNoBytes = "is not a number of bytes";
  environment.Number("EPIC_MPI_MIN_BYTES", 0, kNoBytes, &settings.min_bytes);
  environment.Number("EPIC_MPI_MAX_BYTES", 0, kNoBytes, &settings.max_bytes);
  constexpr std::string_view kNotOne = "is not a number of at least 1";
  environment.Number("EPIC_MPI_FROM_CALL", 1, kNotOne, &settings.from_call);
  environment.Number("EPIC_MPI_FROM_BYTES", 1, kNotOne, &settings.from_bytes);
  // A program that wants its groups at once pays for them, and for no more than it uses.
  if (settings.from_call == 1) settings.keep = milliseconds(0);
  ReadSecondsOrNone("EPIC_MPI_KEEP", &environment, &settings.keep);
  environment.Switch("EPIC_MPI", "on", "off", &settings.off);
  environment.Switch("EPIC_MPI_REPORT", "0", "1", &settings.report);
  settings.wrong = environment.wrong();
  return settings;
}

std::string Encode(const Settings& settings) {
  std::string text;
  for (std::string& field : Fields(settings)) {
    // A line break would be the field's end; none of these can have one and still be of use.
    for (char& c : field) {
      if (c == '\n') c = ' ';
    }
    text += field + "\n";
  }
  return text;
}

Settings Decode(std::string_view text) {
  std::array<std::string_view, 17> lines;
  bool good = true;
  for (std::string_view& line : lines) {
    const size_t end = text.find('\n');
    good = good && end != std::string_view::npos;
    if (!good) break;
    line = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  Settings s;
  int64_t timeout = 0;
  int64_t join_timeout = 0;
  int64_t manager_timeout = 0;
  int64_t keep = 0;
  good = good && text.empty() && ReadNumber(lines[5], &s.mode) && ReadNumber(lines[6], &timeout) &&
         ReadNumber(lines[7], &join_timeout) && ReadNumber(lines[8], &s.min_bytes) &&
         ReadNumber(lines[9], &s.max_bytes) && ReadNumber(lines[13], &manager_timeout) &&
         ReadNumber(lines[14], &s.from_call) && ReadNumber(lines[15], &s.from_bytes) &&
         ReadNumber(lines[16], &keep);
  if (!good) {
    Settings unread;
    unread.wrong = "the settings of rank 0 cannot be read: it has another version of EPIC";
    return unread;
  }
  s.manager = lines[0];
  s.ifname = lines[1];
  s.path = lines[2];
  s.algorithm = lines[3];
  s.wrong = lines[4];
  s.timeout = milliseconds(timeout);
  s.join_timeout = milliseconds(join_timeout);
  s.manager_timeout = milliseconds(manager_timeout);
  s.keep = milliseconds(keep);
  s.off = lines[10] == "1";
  s.report = lines[11] == "1";
  s.types = lines[12];
  return s;
}

}  // namespace epic::mpi
