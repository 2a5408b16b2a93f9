#include "sim/scenario.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/number.h"
#include "protocol/modes.h"

namespace epic::sim {
namespace {

// What the seeds choose from, beside ModesOfScenarios.
constexpr std::array kTopologies = {"star-4", "tree-3-2", "tree-7-2", "uneven", "interleaved"};

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

template <typename T>
std::optional<T> Number(std::string_view text) {
  T value{};
  return ReadNumber(text, &value) ? std::optional(value) : std::nullopt;
}

template <typename Names, typename NameOf>
std::string Choice(const Names& names, const NameOf& name_of) {
  std::string out;
  for (const auto& name : names) out += fmt::format("{}{}", out.empty() ? "" : ", ", name_of(name));
  return out;
}

}  // namespace

const std::vector<FaultPlan>& FaultPlans() {
  static const std::vector<FaultPlan> plans = {
      {.name = "quiet", .meaning = "nothing goes wrong", .rates = {}},
      {.name = "loss",
       .meaning = "1 % of packets lost, and 5 % of super-frames cut short",
       .rates = {.loss_ppm = 10'000, .cut_ppm = 50'000}},
      {.name = "heavy",
       .meaning = "10 % lost, 10 % of super-frames cut",
       .rates = {.loss_ppm = 100'000, .cut_ppm = 100'000}},
      {.name = "repeats", .meaning = "5 % duplicated", .rates = {.duplicate_ppm = 50'000}},
      {.name = "reorder", .meaning = "5 % held back", .rates = {.delay_ppm = 50'000}},
      {.name = "corrupt",
       .meaning = "1 % corrupted: the ICRC catches it, so it counts as loss",
       .rates = {.corrupt_ppm = 10'000}},
      {.name = "bursts",
       .meaning = "links that lose everything for up to half a millisecond",
       .rates = {.burst_ppm = 2'000, .burst_ns = 500 * kMicrosecond}},
      {.name = "stopped", .meaning = "hosts that stand still, NIC and all", .rates = {}, .stops_hosts = true},
      {.name = "late", .meaning = "a rank that comes late to every call", .rates = {}, .late_ranks = true},
      {.name = "all",
       .meaning = "1 % lost, duplicated, held back, corrupted and cut each, bursts, stopped hosts",
       .rates = {.loss_ppm = 10'000,
                 .cut_ppm = 10'000,
                 .duplicate_ppm = 10'000,
                 .delay_ppm = 10'000,
                 .corrupt_ppm = 10'000,
                 .burst_ppm = 500,
                 .burst_ns = 200 * kMicrosecond},
       .stops_hosts = true,
       .late_ranks = true},
      {.name = "crashed",
       .meaning = "engines of switches that lose their groups and start anew; old packets come late",
       .rates = {.linger_ppm = 20'000},
       .crashes_engines = true},
      {.name = "killed",
       .meaning = "hosts that go with all their ranks and come back; old packets come late",
       .rates = {.linger_ppm = 20'000},
       .kills_hosts = true},
      {.name = "worst",
       .meaning = "all, crashed and killed together",
       .rates = {.loss_ppm = 10'000,
                 .cut_ppm = 10'000,
                 .duplicate_ppm = 10'000,
                 .delay_ppm = 10'000,
                 .corrupt_ppm = 10'000,
                 .burst_ppm = 500,
                 .burst_ns = 200 * kMicrosecond,
                 .linger_ppm = 20'000},
       .stops_hosts = true,
       .late_ranks = true,
       .crashes_engines = true,
       .kills_hosts = true},
      {.name = "shared",
       .meaning =
           "groups that come and go on switches with room for few, placed by the manager's tables; by name "
           "only",
       .rates = {},
       .shares = true},
      {.name = "restarts",
       .meaning = "shared, and the manager dies and comes back from what its store has kept; by name only",
       .rates = {},
       .shares = true,
       .restarts = true},
      {.name = "canary-wrong", .meaning = "data changed unseen: must end wrong", .rates = {}, .flips = true},
      {.name = "canary-hung",
       .meaning = "all packets lost from when faults should end: must end hung",
       .rates = {},
       .swallows = true},
      {.name = "canary-crash",
       .meaning = "a check fails when faults should end: must end crashed",
       .rates = {},
       .aborts = true},
      {.name = "canary-reuse",
       .meaning = "crashed, and QPNs and PSNs are used again at once: must not end right for long",
       .rates = {.linger_ppm = 500'000},
       .crashes_engines = true,
       .reuses = true},
  };
  return plans;
}

const FaultPlan& PlanNamed(std::string_view name) {
  const auto plan = std::ranges::find(FaultPlans(), name, &FaultPlan::name);
  EPIC_CHECK(plan != FaultPlans().end());
  return *plan;
}

ModeSpec ModesNamed(const std::string& mode, const TreeSpec& tree, Choices& choices) {
  if (mode != "mixed") return *AnyModeNamed(mode);
  std::vector<engine::Mode> modes;
  for (size_t s = 0; s < tree.switch_parent.size(); ++s)
    modes.push_back(choices.Below(2) == 0 ? engine::Mode::kTerminated : engine::Mode::kAugmented);
  return modes;
}

namespace {

const std::vector<std::string_view>& NamesOfSeeds() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> names;
    for (const FaultPlan& plan : FaultPlans()) {
      if (plan.by_seed()) names.emplace_back(plan.name);
    }
    return names;
  }();
  return all;
}

}  // namespace

std::vector<std::string> ModesOfScenarios() {
  std::vector<std::string> all;
  for (const Mode mode : ModesOfOwnMemory()) all.push_back(std::to_string(NumberOf(mode)));
  all.emplace_back("mixed");
  return all;
}

Scenario ChosenBySeed(Scenario scenario) {
  // Mixed radix, so that the next seed differs in the first and all combinations come up in turn.
  uint64_t digits = scenario.seed;
  const auto next = [&digits](const auto& list) -> std::string_view {
    const size_t digit = digits % list.size();
    digits /= list.size();
    return list[digit];
  };
  const std::vector<std::string> modes = ModesOfScenarios();
  const std::string_view name = next(NamesOfSeeds());
  const std::string_view mode = next(modes);
  const std::string_view topology = next(kTopologies);
  if (scenario.name.empty()) scenario.name = name;
  if (scenario.mode.empty()) scenario.mode = mode;
  if (scenario.topology.empty()) scenario.topology = topology;
  if (scenario.timers.empty())
    scenario.timers = Choices(scenario.seed * 7919 + 6).Below(4) == 0 ? "late" : "exact";
  if (scenario.types.empty())
    scenario.types = Choices(scenario.seed * 7919 + 10).Below(2) == 0 ? "all" : "first";
  if (scenario.path.empty())
    scenario.path = Choices(scenario.seed * 7919 + 12).Below(2) == 0 ? "mixed" : "network";
  if (scenario.slices.empty())
    scenario.slices = Choices(scenario.seed * 7919 + 14).Below(2) == 0 ? "cut" : "whole";
  if (scenario.algorithm.empty()) {
    const bool all = scenario.path != "network" && Choices(scenario.seed * 7919 + 16).Below(2) == 0;
    scenario.algorithm = all ? "all" : "first";
  }
  if (scenario.numbers.empty())
    scenario.numbers = Choices(scenario.seed * 7919 + 17).Below(4) == 0 ? "blocks" : "plain";
  return scenario;
}

StatusOr<Scenario> Complete(Scenario given) {
  Scenario scenario = ChosenBySeed(std::move(given));
  if (const auto tree = TopologyNamed(scenario.topology); !tree.ok()) return tree.status();
  if (const auto named = AnyModeNamed(scenario.mode)) {
    if (IsInPool(*named))
      return Invalid(fmt::format("mode: {} needs a pool, which scenarios have none of", NumeralOf(*named)));
    scenario.mode = std::to_string(NumberOf(*named));  // as replay lines have it
  } else if (scenario.mode != "mixed") {
    return Invalid(fmt::format("'{}' is not a mode: {}, or mixed", scenario.mode, ModeChoice()));
  }
  if (std::ranges::find(FaultPlans(), std::string_view(scenario.name), &FaultPlan::name) ==
      FaultPlans().end()) {
    return Invalid(fmt::format("'{}' is not a scenario: {}", scenario.name,
                               Choice(FaultPlans(), [](const FaultPlan& plan) { return plan.name; })));
  }
  if (scenario.calls < 1 || scenario.calls > kMaxCalls)
    return Invalid(fmt::format("{} calls: it must be 1 to {}", scenario.calls, kMaxCalls));
  if (scenario.inline_bytes.value_or(0) > kMaxInlineBytes)
    return Invalid(fmt::format("inline {}: at most {}", *scenario.inline_bytes, kMaxInlineBytes));
  if (!scenario.send_windows.empty() && scenario.send_windows != "fixed" &&
      scenario.send_windows != "changing")
    return Invalid(fmt::format("send-windows '{}': fixed or changing", scenario.send_windows));
  if (!scenario.acks.empty() && scenario.acks != "each" && scenario.acks != "shared")
    return Invalid(fmt::format("acks '{}': each or shared", scenario.acks));
  if (!scenario.super_frames.empty() && !SuperFrameLinksNamed(scenario.super_frames))
    return Invalid(fmt::format("super-frames '{}': none, all, switches, hosts", scenario.super_frames));
  if (scenario.timers != "exact" && scenario.timers != "late")
    return Invalid(fmt::format("timers '{}': exact or late", scenario.timers));
  if (scenario.types != "first" && scenario.types != "all")
    return Invalid(fmt::format("types '{}': first or all", scenario.types));
  if (scenario.path != "network" && scenario.path != "hosts" && scenario.path != "mixed")
    return Invalid(fmt::format("path '{}': network, hosts or mixed", scenario.path));
  if (scenario.slices != "whole" && scenario.slices != "cut")
    return Invalid(fmt::format("slices '{}': whole or cut", scenario.slices));
  if (scenario.algorithm != "first" && scenario.algorithm != "multicast" && scenario.algorithm != "all")
    return Invalid(fmt::format("algorithm '{}': first, multicast or all", scenario.algorithm));
  if (scenario.numbers != "plain" && scenario.numbers != "blocks")
    return Invalid(fmt::format("numbers '{}': plain or blocks", scenario.numbers));
  return scenario;
}

bool SharesAcks(const Scenario& scenario) {
  return scenario.acks.empty() ? Choices(scenario.seed * 7919 + 5).Below(2) == 0 : scenario.acks == "shared";
}

uint64_t InvocationBytes(const Scenario& scenario, uint64_t max_count) {
  if (scenario.slices != "cut") return kMaxBytes;
  return max_count * static_cast<uint64_t>(Choices(scenario.seed * 7919 + 15).OneOf({1, 3, 10}));
}

std::string ReplayLine(const Scenario& scenario) {
  std::string line = fmt::format("seed={} topology={} mode={} scenario={} calls={}", scenario.seed,
                                 scenario.topology, scenario.mode, scenario.name, scenario.calls);
  if (scenario.inline_bytes) line += fmt::format(" inline={}", *scenario.inline_bytes);
  if (!scenario.send_windows.empty()) line += " send-windows=" + scenario.send_windows;
  if (!scenario.acks.empty()) line += " acks=" + scenario.acks;
  if (!scenario.super_frames.empty()) line += " super-frames=" + scenario.super_frames;
  if (scenario.timers == "late") line += " timers=late";
  if (scenario.types == "all") line += " types=all";
  if (scenario.path != "network") line += " path=" + scenario.path;
  if (scenario.slices == "cut") line += " slices=cut";
  if (scenario.algorithm != "first") line += " algorithm=" + scenario.algorithm;
  if (scenario.numbers == "blocks") line += " numbers=blocks";
  return line;
}

StatusOr<Scenario> ParseReplayLine(const std::string& line) {
  Scenario scenario{.timers = "exact",
                    .types = "first",
                    .path = "network",
                    .slices = "whole",
                    .algorithm = "first",
                    .numbers = "plain"};
  bool seed_given = false;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto& [key, value] = parts;
    if (key == "seed" || key == "calls") {
      const auto number = Number<uint64_t>(value);
      if (!number || (key == "calls" && *number > kMaxCalls)) {
        return Invalid(fmt::format("'{}' is not a number of {} that can be", value, key));
      }
      seed_given = seed_given || key == "seed";
      if (key == "seed") scenario.seed = *number;
      if (key == "calls") scenario.calls = static_cast<int>(*number);
    } else if (key == "inline") {
      scenario.inline_bytes = Number<uint32_t>(value);
      if (!scenario.inline_bytes) return Invalid(fmt::format("'{}' is not a number of bytes", value));
    } else if (key == "send-windows" && !value.empty()) {
      scenario.send_windows = value;
    } else if (key == "acks" && !value.empty()) {
      scenario.acks = value;
    } else if (key == "super-frames" && !value.empty()) {
      scenario.super_frames = value;
    } else if (key == "timers" && !value.empty()) {
      scenario.timers = value;
    } else if (key == "types" && !value.empty()) {
      scenario.types = value;
    } else if (key == "path" && !value.empty()) {
      scenario.path = value;
    } else if (key == "slices" && !value.empty()) {
      scenario.slices = value;
    } else if (key == "algorithm" && !value.empty()) {
      scenario.algorithm = value;
    } else if (key == "numbers" && !value.empty()) {
      scenario.numbers = value;
    } else if (key == "topology") {
      scenario.topology = value;
    } else if (key == "mode") {
      scenario.mode = value;
    } else if (key == "scenario") {
      scenario.name = value;
    } else {
      return Invalid(fmt::format("'{}' is not part of a replay line", word));
    }
  }
  if (!seed_given || scenario.topology.empty() || scenario.mode.empty() || scenario.name.empty()) {
    return Invalid(
        "a replay line has seed=, topology=, mode=, scenario= and calls=, as a failure printed it");
  }
  return Complete(scenario);
}

}  // namespace epic::sim
