#include "mpi/core/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/manager_address.h"
#include "protocol/abilities.h"
#include "protocol/modes.h"

namespace epic::mpi {
namespace {

using std::chrono::milliseconds;

constexpr double kLongestSeconds = 1e9;

template <typename Number>
bool ReadNumber(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Reads variables; the first that is wrong is kept.
class Reader {
 public:
  Reader(const GetEnv& get_env, Settings* settings) : get_env_(get_env), settings_(settings) {}

  void Text(const char* name, std::string* value) {
    if (const char* text = Get(name)) *value = text;
  }
  // A port is put in that is not said. mpi_says: what the MPI's own means of configuration say.
  void Manager(const char* name, std::string_view mpi_says, std::string* value) {
    const char* text = Get(name);
    *value = text != nullptr ? std::string_view(text) : mpi_says;
    if (value->empty()) return;
    auto address = ManagerAddress(*value);
    if (address.ok()) {
      *value = *std::move(address);
    } else {
      Wrong(text != nullptr ? name : "coll_epic_manager", value->c_str(),
            "- " + std::string(address.status().message()));
    }
  }
  void Choice(const char* name, std::string_view choices, std::string* value) {
    const char* text = Get(name);
    if (text == nullptr) return;
    *value = text;
    const bool one = value->find(',') == std::string::npos;
    if (!one || std::string(" ").append(choices).append(",").find(" " + *value + ",") == std::string::npos) {
      Wrong(name, text, "is none of " + std::string(choices));
    }
  }
  void Mode(const char* name, int* value) {
    const char* text = Get(name);
    if (text == nullptr || std::string_view(text) == "0") return;
    const auto mode = ModeNamed(text);
    if (!mode) return Wrong(name, text, "is none of " + ModeChoice());
    *value = NumberOf(*mode);
  }
  void Seconds(const char* name, milliseconds* value) {
    const char* text = Get(name);
    if (text == nullptr) return;
    ReadSeconds(name, text, value);
  }
  void SecondsOrNone(const char* name, milliseconds* value) {
    const char* text = Get(name);
    if (text == nullptr) return;
    *value = milliseconds(0);
    if (std::string_view(text) != "0") ReadSeconds(name, text, value);
  }
  void Bytes(const char* name, uint64_t* value) {
    const char* text = Get(name);
    if (text != nullptr && !ReadNumber(text, value)) Wrong(name, text, "is not a number of bytes");
  }
  void AtLeastOne(const char* name, uint64_t* value) {
    const char* text = Get(name);
    if (text == nullptr || (ReadNumber(text, value) && *value > 0)) return;
    Wrong(name, text, "is not a number of at least 1");
  }
  void Types(const char* name, std::string* value) {
    const char* text = Get(name);
    if (text == nullptr) return;
    Abilities types;
    *value = text;
    if (const std::string wrong = AddTypes(text, &types); !wrong.empty()) Wrong(name, text, "- " + wrong);
  }
  // Two words, of which the second is true.
  void Switch(const char* name, std::string_view no, std::string_view yes, bool* value) {
    const char* text = Get(name);
    if (text == nullptr) return;
    *value = text == yes;
    if (text != yes && text != no) {
      Wrong(name, text, "is neither " + std::string(no) + " nor " + std::string(yes));
    }
  }

 private:
  void ReadSeconds(const char* name, const char* text, milliseconds* value) {
    char* end = nullptr;
    const double seconds = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds > 0 && seconds <= kLongestSeconds)) {
      return Wrong(name, text, "is not a time in seconds above 0 and up to 1000000000");
    }
    *value = milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
  }
  const char* Get(const char* name) const {
    const char* text = get_env_(name);
    return text != nullptr && *text != '\0' ? text : nullptr;
  }
  void Wrong(const char* name, const char* text, const std::string& what) {
    if (settings_->wrong.empty()) settings_->wrong = std::string(name) + "=" + text + " " + what;
  }

  const GetEnv& get_env_;
  Settings* settings_;
};

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
  Reader reader(get_env, &settings);
  reader.Manager("EPIC_MANAGER", manager, &settings.manager);
  reader.Text("EPIC_IFNAME", &settings.ifname);
  reader.Choice("EPIC_PATH", "auto, network, hosts", &settings.path);
  reader.Choice("EPIC_ALGORITHM", "auto, doubling, ring", &settings.algorithm);
  reader.Types("EPIC_TYPES", &settings.types);
  reader.Mode("EPIC_MODE", &settings.mode);
  reader.Seconds("EPIC_TIMEOUT", &settings.timeout);
  reader.Seconds("EPIC_JOIN_TIMEOUT", &settings.join_timeout);
  reader.Seconds("EPIC_MANAGER_TIMEOUT", &settings.manager_timeout);
  reader.Bytes("EPIC_MPI_MIN_BYTES", &settings.min_bytes);
  reader.Bytes("EPIC_MPI_MAX_BYTES", &settings.max_bytes);
  reader.AtLeastOne("EPIC_MPI_FROM_CALL", &settings.from_call);
  reader.AtLeastOne("EPIC_MPI_FROM_BYTES", &settings.from_bytes);
  // A program that wants its groups at once pays for them, and for no more than it uses.
  if (settings.from_call == 1) settings.keep = milliseconds(0);
  reader.SecondsOrNone("EPIC_MPI_KEEP", &settings.keep);
  reader.Switch("EPIC_MPI", "on", "off", &settings.off);
  reader.Switch("EPIC_MPI_REPORT", "0", "1", &settings.report);
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
