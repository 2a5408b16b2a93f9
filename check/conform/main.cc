// epic-conform: whether a switch has sent only what the protocol allows, by its daemon's own trace.
#include <fmt/format.h>

#include <fstream>

#include "base/command_line.h"
#include "check/conform/trace_file.h"

namespace epic::conform {
namespace {

constexpr int kRefused = 1;
constexpr int kExitUsage = 2;

void Print(const std::string& path, const TraceResult& result) {
  const Verdict& verdict = result.verdict;
  fmt::print("{}: switch {}: {} lines, {} groups, {} steps, {} packets in, {} packets out{}\n", path,
             result.switch_name, result.lines, result.groups, result.steps, verdict.packets_in,
             verdict.packets_out, result.cut ? "; cut when it was full" : "");
  std::string judged;
  for (size_t r = 0; r < kRules; ++r) {
    if (verdict.judged[r] == 0) continue;
    judged +=
        fmt::format("{}{} {}", judged.empty() ? "" : ", ", Name(static_cast<Rule>(r)), verdict.judged[r]);
  }
  fmt::print("  judged: {}\n", judged.empty() ? "nothing" : judged);
  for (const auto& [what, count] : verdict.not_judged) fmt::print("  not judged: {}: {}\n", what, count);
  for (const Violation& violation : verdict.first) fmt::print("  {}\n", Describe(violation));
  if (verdict.violations > verdict.first.size()) {
    fmt::print("  ... and {} more\n", verdict.violations - verdict.first.size());
  }
  fmt::print("  {}\n",
             verdict.accepted() ? "accepted" : fmt::format("REFUSED: {} violations", verdict.violations));
}

int Run(const std::vector<std::string>& paths) {
  int exit_code = 0;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    if (!file) {
      fmt::print(stderr, "epic-conform: {}: cannot be read\n", path);
      return kExitUsage;
    }
    const auto result = JudgeTrace(file);
    if (!result.ok()) {
      fmt::print(stderr, "epic-conform: {}: {}\n", path, std::string(result.status().message()));
      return kExitUsage;
    }
    Print(path, *result);
    if (!result->verdict.accepted()) exit_code = kRefused;
  }
  return exit_code;
}

}  // namespace
}  // namespace epic::conform

int main(int argc, char** argv) {
  epic::CommandLine line(
      "epic-conform: judges traces of incengine (--trace) by the protocol: whether each packet that the "
      "switch\n"
      "sent was allowed by what it had been sent before. docs/TRACE.md has the rules.\n"
      "Exit status: 0 all accepted, 1 one refused, 2 a file that is no trace.\n");
  std::vector<std::string> paths;
  line.Add("trace", &paths, "trace files").Required().TypeName("TRACE");
  if (const auto exit_code = line.Parse(argc, argv, epic::conform::kExitUsage)) return *exit_code;
  return epic::conform::Run(paths);
}
