#include "check/setup.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include "check/action.h"
#include "check/setup_groups.h"
#include "check/setup_hosts.h"
#include "protocol/modes.h"
#include "sim/topologies.h"

namespace epic::check {
namespace {

constexpr uint32_t kMostMessages = 64;
constexpr size_t kMostHosts = 8;
constexpr size_t kMostCalls = 40;
constexpr uint32_t kMostFaults = 200;

struct CollectiveName {
  const char* name;
  Collective collective;
};
constexpr std::array kCollectives = {CollectiveName{"allreduce", Collective::kAllReduce},
                                     CollectiveName{"reduce", Collective::kReduce},
                                     CollectiveName{"broadcast", Collective::kBroadcast},
                                     CollectiveName{"barrier", Collective::kBarrier},
                                     CollectiveName{"reducescatter", Collective::kReduceScatter},
                                     CollectiveName{"allgather", Collective::kAllGather}};

Status Invalid(const std::string& message) { return MakeStatus(StatusCode::kInvalidArgument, message); }

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t value{};
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

StatusOr<ControlHeader> CallNamed(const std::string& text, uint32_t hosts, const Setup& setup) {
  const uint32_t message_packets = setup.message_packets, packets = setup.messages * message_packets;
  const std::string before_root = text.substr(0, text.find('@'));
  const bool inlined = before_root.ends_with('+');
  const std::string name = before_root.substr(0, before_root.size() - (inlined ? 1 : 0));
  const auto known = std::ranges::find_if(kCollectives, [&](const auto& c) { return name == c.name; });
  if (known == kCollectives.end()) {
    return Invalid(fmt::format(
        "collective: '{}' is none of allreduce, reduce, broadcast, barrier, reducescatter, allgather", name));
  }
  ControlHeader header{.collective = known->collective};
  const bool has_root =
      header.collective == Collective::kReduce || header.collective == Collective::kBroadcast;
  if (before_root.size() < text.size()) {
    const auto root = Number(text.substr(before_root.size() + 1));
    if (!has_root || !root || *root >= hosts)
      return Invalid(fmt::format("collective: '{}' has no such root among {} ranks", text, hosts));
    header.root = *root;
  }
  if (header.collective == Collective::kBarrier) {
    if (inlined) return Invalid("collective: a barrier has no data to inline");
    return header;
  }
  header.type = *TypeNamed(setup.type);
  if (Reduces(header.collective)) header.op = *OpNamed(setup.op);
  if (HasPartPerRank(header.collective)) header.parts = hosts;
  header.count = uint64_t{packets} * kPathMtu / ElementBytes(header.type);
  if (!inlined) {
    header.turn = TurnOf(header, kPathMtu, message_packets, setup.window);
    return header;
  }
  // As much as a message takes.
  header.flags = kInlinedFlag;
  header.count =
      (uint64_t{message_packets} * kPathMtu - kControlBytes) / ElementBytes(header.type) / header.parts;
  return header;
}

StatusOr<sim::ModeSpec> ModesOf(const std::string& text, size_t switches) {
  if (const auto all = AnyModeNamed(text)) return sim::ModeSpec(*all);
  std::vector<Mode> modes;
  for (const char digit : text) {
    const bool is_digit = digit >= '0' && digit <= '9';
    const auto mode = is_digit ? AnyModeNamed(std::string_view(&digit, 1)) : std::nullopt;
    if (mode) modes.push_back(*mode);
  }
  if (modes.size() != text.size() || modes.size() != switches) {
    return Invalid(fmt::format("mode: '{}' is not a mode, nor a digit for each of {} switches: {}", text,
                               switches, ModeChoice()));
  }
  for (const Mode mode : modes) {
    if (!MayMix(mode, modes.front())) {
      return Invalid(fmt::format("mode: modes {} and {} cannot share a tree", NumeralOf(modes.front()),
                                 NumeralOf(mode)));
    }
  }
  return sim::ModeSpec(std::move(modes));
}

constexpr std::array<std::string_view, 3> kOps = {"sum", "product", "bxor"};
constexpr std::array<std::string_view, 3> kCallsMade = {"together", "apart", "after-results"};

std::optional<uint32_t> LateCalls(const Setup& setup) {
  return setup.late_calls == "any" ? std::optional(kNoBound) : Number(setup.late_calls);
}

// A name of the list of calls: "barrier*3" is three calls.
Status AddCalls(const std::string& text, uint32_t hosts, const Setup& setup,
                std::vector<ControlHeader>* calls) {
  const size_t star = std::min(text.find('*'), text.size());
  const auto times = star == text.size() ? std::optional<uint32_t>(1) : Number(text.substr(star + 1));
  if (!times || *times < 1 || *times > kMostCalls)
    return Invalid(fmt::format("collective: '{}' is not 1 to {} calls", text, kMostCalls));
  const auto call = CallNamed(text.substr(0, star), hosts, setup);
  if (!call.ok()) return call.status();
  calls->insert(calls->end(), *times, *call);
  return absl::OkStatus();
}

Status CheckRanges(const Setup& setup) {
  const auto within = [](uint32_t value, uint32_t least, uint32_t most) {
    return value >= least && value <= most;
  };
  if (!within(setup.messages, 1, kMostMessages)) return Invalid("messages: 1 to 64");
  if (!within(setup.message_packets, 1, 16)) return Invalid("packets: 1 to 16");
  if (!within(setup.window, 1, 16)) return Invalid("window: 1 to 16");
  if (setup.psn > Psn::kMask) return Invalid("psn: 24 bits");
  for (const uint32_t bound : {setup.faults.losses, setup.faults.duplicates, setup.faults.reorderings,
                               setup.faults.timeouts, setup.faults.late_timers, setup.faults.evictions}) {
    if (bound > kMostFaults) return Invalid("faults: at most 200 of a kind");
  }
  if (std::ranges::find(kCallsMade, setup.calls) == kCallsMade.end())
    return Invalid(fmt::format("calls: '{}' is none of together, apart, after-results", setup.calls));
  if (const auto late = LateCalls(setup); !late || (*late > kMostFaults && *late != kNoBound))
    return Invalid(fmt::format("late-calls: '{}' is not 0 to {} or any", setup.late_calls, kMostFaults));
  if (setup.reorder != "neighbours" && setup.reorder != "any")
    return Invalid(fmt::format("reorder: '{}' is neither neighbours nor any", setup.reorder));
  if (setup.reorder == "any" && setup.faults.reorderings > 0)
    return Invalid("reorder: with any there are no neighbours to reorder");
  if (setup.send_windows != "fixed" && setup.send_windows != "changing")
    return Invalid(fmt::format("send-windows: '{}' is neither fixed nor changing", setup.send_windows));
  if (setup.buffers != "separate" && setup.buffers != "bounce")
    return Invalid(fmt::format("buffers: '{}' is neither separate nor bounce", setup.buffers));
  const auto type = TypeNamed(setup.type);
  const bool rounds = type && AccumulatorFactor(*type) == 2;
  if (!type || !(rounds || CanReduce(ReduceOp::kBitXor, *type))) {
    return Invalid(
        fmt::format("type: '{}' is no integer, as int32, uint8 or int64, nor of 16 bits", setup.type));
  }
  if (rounds && setup.op != "sum") return Invalid(fmt::format("op: of {} sum alone", setup.type));
  if (std::ranges::find(kOps, setup.op) == kOps.end())
    return Invalid(fmt::format("op: '{}' is none of {}", setup.op, fmt::join(kOps, ", ")));
  if (setup.path != "network" && setup.path != "hosts")
    return Invalid(fmt::format("path: '{}' is neither network nor hosts", setup.path));
  if (setup.faults.crashes > 8 || setup.faults.regroups > 8) return Invalid("crashes, regroups: at most 8");
  return absl::OkStatus();
}

// The smallest trees in which two switches have a block: of a root and a leaf with a host each, and of a root
// and two leaves with a host each.
StatusOr<sim::TreeSpec> TreeNamed(const std::string& name) {
  if (name == "chain") return sim::TreeSpec{.switch_parent = {-1, 0}, .rank_switch = {0, 1}};
  if (name == "fork") return sim::TreeSpec{.switch_parent = {-1, 0, 0}, .rank_switch = {1, 2}};
  return sim::TopologyNamed(name);
}

Status PlaceTree(const Setup& setup, SystemConfig* config) {
  auto tree = TreeNamed(setup.topology);
  if (!tree.ok()) return tree.status();
  config->tree = *tree;
  if (config->tree.rank_switch.size() > kMostHosts)
    return Invalid(fmt::format("topology: at most {} hosts", kMostHosts));
  auto mode = ModesOf(setup.mode, config->tree.switch_parent.size());
  if (!mode.ok()) return mode.status();
  config->mode = *mode;
  config->groups = setup.groups;
  if (Status status = PlacePool(setup, config); !status.ok()) return status;
  if (Status status = CheckGroups(setup, *config); !status.ok()) return status;
  const Setup plain;
  const auto by_hosts_only = [](const char* option) {
    return Invalid(fmt::format("{}: with path hosts only", option));
  };
  if (setup.ranks != plain.ranks) return by_hosts_only("ranks");
  if (setup.algorithm != plain.algorithm) return by_hosts_only("algorithm");
  if (setup.tokens != plain.tokens) return by_hosts_only("tokens");
  if (!setup.different.empty()) return by_hosts_only("different");
  return absl::OkStatus();
}

Status PlaceHosts(const Setup& setup, SystemConfig* config) {
  if (Status status = CheckByHosts(setup); !status.ok()) return status;
  config->tree = {.switch_parent = {}, .rank_switch = std::vector<int>(setup.ranks)};
  return absl::OkStatus();
}

StatusOr<InvariantSet> InvariantsNamed(const std::string& names) {
  InvariantSet set;
  for (const std::string& name : Split(names, ',')) {
    const auto known = std::ranges::find(kInvariants, name, &InvariantInfo::name);
    if (known == kInvariants.end()) {
      std::vector<std::string_view> all;
      for (const InvariantInfo& info : kInvariants) all.push_back(info.name);
      return Invalid(fmt::format("without: '{}' is none of {}", name, fmt::join(all, ", ")));
    }
    set.set(static_cast<size_t>(known->invariant));
  }
  return set;
}

}  // namespace

StatusOr<SystemConfig> Build(const Setup& setup) {
  if (Status status = CheckRanges(setup); !status.ok()) return status;
  const bool by_hosts = setup.path == "hosts";
  SystemConfig config;
  if (Status status = by_hosts ? PlaceHosts(setup, &config) : PlaceTree(setup, &config); !status.ok())
    return status;
  for (const std::string& name : Split(setup.collective, ',')) {
    const auto hosts = static_cast<uint32_t>(config.tree.rank_switch.size());
    const Status added = AddCalls(name, hosts, setup, &config.calls);
    if (!added.ok()) return added;
  }
  if (config.calls.empty() || config.calls.size() > kMostCalls)
    return Invalid(fmt::format("collective: 1 to {} calls", kMostCalls));
  if (by_hosts) {
    if (Status status = MakeByHosts(setup, &config); !status.ok()) return status;
  }
  config.calls_made = static_cast<CallsMade>(std::ranges::find(kCallsMade, setup.calls) - kCallsMade.begin());
  config.message_packets = setup.message_packets;
  config.window_messages = setup.window;
  config.changes_windows = setup.send_windows == "changing";
  config.first_psn = setup.psn;
  config.bounces = setup.buffers == "bounce";
  if (Status status = CutCalls(setup, &config); !status.ok()) return status;
  const auto without = InvariantsNamed(setup.without);
  if (!without.ok()) return without.status();
  config.without = *without;
  return config;
}

FaultBounds BoundsOf(const Setup& setup) {
  FaultBounds bounds = setup.faults;
  bounds.late_calls = LateCalls(setup).value_or(0);
  bounds.reorder_any = setup.reorder == "any";
  return bounds;
}

std::string Line(const Setup& s) {
  std::string line =
      s.path == "hosts"
          ? LineByHosts(s)
          : fmt::format("mode={} collective={} topology={} messages={} packets={} window={} psn={:#x}",
                        s.mode, s.collective, s.topology, s.messages, s.message_packets, s.window, s.psn);
  const auto add = [&line](const char* key, uint32_t value) {
    if (value != 0) line += fmt::format(" {}={}", key, value);
  };
  if (s.groups != 1) line += fmt::format(" groups={}", s.groups);
  if (s.pool != 0) line += fmt::format(" pool={} pool-policy={}", s.pool, s.pool_policy);
  if (s.slices != 1) line += fmt::format(" slices={}", s.slices);
  if (s.calls != "together") line += " calls=" + s.calls;
  if (s.late_calls != "0") line += " late-calls=" + s.late_calls;
  if (s.reorder != "neighbours") line += " reorder=" + s.reorder;
  if (s.send_windows != "fixed") line += " send-windows=" + s.send_windows;
  if (s.buffers != "separate") line += " buffers=" + s.buffers;
  if (s.type != "int32") line += " type=" + s.type;
  if (s.op != "sum") line += " op=" + s.op;
  if (!s.without.empty()) line += " without=" + s.without;
  add("losses", s.faults.losses);
  add("duplicates", s.faults.duplicates);
  add("reorderings", s.faults.reorderings);
  add("timeouts", s.faults.timeouts);
  add("evictions", s.faults.evictions);
  add("late-timers", s.faults.late_timers);
  add("crashes", s.faults.crashes);
  add("regroups", s.faults.regroups);
  add("reuse", s.faults.reuse_qpns ? 1 : 0);
  return line;
}

std::string StepNames(const std::vector<Action>& steps) {
  std::string out;
  for (const Action& step : steps) {
    if (!out.empty()) out += ',';
    out += Info(step.kind).letter;
    if (Info(step.kind).happens_to != HappensTo::kAll) out += std::to_string(step.object);
    if (step.place != 0) out += fmt::format(":{}", step.place);
  }
  return out;
}

namespace {

std::optional<Action> StepNamed(const std::string& text) {
  const auto info = std::ranges::find(kActions, text.empty() ? '\0' : text[0], &ActionInfo::letter);
  if (info == kActions.end()) return std::nullopt;
  if (info->happens_to == HappensTo::kAll)
    return text.size() == 1 ? std::optional(Action{info->kind}) : std::nullopt;
  const size_t colon = std::min(text.find(':'), text.size());
  const auto object = Number(text.substr(1, colon - 1));
  const auto place = colon == text.size() ? std::optional<uint32_t>(0) : Number(text.substr(colon + 1));
  if (!object || *object > UINT8_MAX || !place || *place > UINT8_MAX) return std::nullopt;
  if (*place > 0 && info->happens_to != HappensTo::kChannel && info->kind != ActionKind::kEvict)
    return std::nullopt;
  return Action{info->kind, static_cast<uint8_t>(*object), static_cast<uint8_t>(*place)};
}

}  // namespace

StatusOr<Replay> ParseReplay(const std::string& line) {
  Replay replay;
  Setup& setup = replay.setup;
  const std::array<std::pair<std::string_view, uint32_t*>, 17> numbers = {
      {{"messages", &setup.messages},
       {"tokens", &setup.tokens},
       {"groups", &setup.groups},
       {"slices", &setup.slices},
       {"pool", &setup.pool},
       {"ranks", &setup.ranks},
       {"packets", &setup.message_packets},
       {"window", &setup.window},
       {"psn", &setup.psn},
       {"losses", &setup.faults.losses},
       {"duplicates", &setup.faults.duplicates},
       {"reorderings", &setup.faults.reorderings},
       {"timeouts", &setup.faults.timeouts},
       {"evictions", &setup.faults.evictions},
       {"late-timers", &setup.faults.late_timers},
       {"crashes", &setup.faults.crashes},
       {"regroups", &setup.faults.regroups}}};
  const std::array<std::pair<std::string_view, std::string*>, 15> texts = {
      {{"mode", &setup.mode},
       {"path", &setup.path},
       {"algorithm", &setup.algorithm},
       {"different", &setup.different},
       {"collective", &setup.collective},
       {"calls", &setup.calls},
       {"send-windows", &setup.send_windows},
       {"buffers", &setup.buffers},
       {"type", &setup.type},
       {"op", &setup.op},
       {"topology", &setup.topology},
       {"pool-policy", &setup.pool_policy},
       {"late-calls", &setup.late_calls},
       {"reorder", &setup.reorder},
       {"without", &setup.without}}};
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto& [key, value] = parts;
    const auto known = std::ranges::find(numbers, key, &std::pair<std::string_view, uint32_t*>::first);
    if (const auto text = std::ranges::find(texts, key, &std::pair<std::string_view, std::string*>::first);
        text != texts.end()) {
      *text->second = value;
    } else if (key == "steps") {
      for (const std::string& step : Split(value, ',')) {
        const auto action = StepNamed(step);
        if (!action) return Invalid(fmt::format("'{}' is not a step", step));
        replay.steps.push_back(*action);
      }
    } else if (key == "reuse" && (value == "0" || value == "1")) {
      setup.faults.reuse_qpns = value == "1";
    } else if (known != numbers.end() && Number(value)) {
      *known->second = *Number(value);
    } else {
      return Invalid(fmt::format("'{}' is not part of a replay line", word));
    }
  }
  return replay;
}

}  // namespace epic::check
