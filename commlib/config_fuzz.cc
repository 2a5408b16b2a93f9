// Any text in the environment: lines of NAME=value. What is refused is kInvalidArgument and says why; what is
// accepted is what ResolveOptions promises.
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "commlib/config.h"
#include "protocol/modes.h"

namespace epic::internal {
namespace {

std::vector<std::string> Lines(const uint8_t* data, size_t size) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      lines.emplace_back();
    } else if (data[i] != 0) {
      lines.back() += static_cast<char>(data[i]);
    }
  }
  return lines;
}

void Run(const uint8_t* data, size_t size) {
  const std::vector<std::string> lines = Lines(data, size);
  std::map<std::string, std::string> values;
  std::vector<const char*> environment;
  for (const std::string& line : lines) {
    environment.push_back(line.c_str());
    const size_t equals = line.find('=');
    if (equals != std::string::npos) values.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  environment.push_back(nullptr);
  for (const std::string& name : UnknownVariables(environment.data()))
    EPIC_CHECK(name.starts_with("EPIC_") && name != "EPIC_RANK" && name.find('=') == std::string::npos);

  const auto get_env = [&values](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
  Options options;
  const Error error = ResolveOptions(get_env, &options);
  if (!error.ok()) {
    EPIC_CHECK(error.code() == ErrorCode::kInvalidArgument && !error.message().empty());
    return;
  }
  EPIC_CHECK(0 <= options.rank && options.rank < options.size &&
             (options.mode == 0 || ModeOfNumber(options.mode)));
  EPIC_CHECK(!options.group.empty() && !options.manager.empty());
  EPIC_CHECK(options.timeout.count() > 0 && options.join_timeout.count() >= 0 &&
             options.manager_timeout.count() > 0);
}

}  // namespace
}  // namespace epic::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  epic::internal::Run(data, size);
  return 0;
}
