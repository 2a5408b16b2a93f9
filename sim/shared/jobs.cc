#include "sim/shared/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "protocol/context_memory.h"
#include "protocol/types.h"

namespace epic::sim {
namespace {

// M and W of those that share blocks of one size.
constexpr uint32_t kCrowdedMessage = 2;
constexpr uint32_t kCrowdedWindow = 4;

// Whose rates a run has until its faults end.
constexpr std::array kFaults = {"quiet",   "loss",   "heavy", "repeats", "reorder",
                                "corrupt", "bursts", "all",   "worst"};

}  // namespace

SharedShape::SharedShape(const Scenario& scenario) : choices(scenario.seed * 7919 + 21) {
  crowded = OneIn(2);
  ChooseNetwork(scenario);
  if (!crowded) ChooseTenants();
  const auto policies = {manager::Policy::kShortest, manager::Policy::kEdt, manager::Policy::kSpatial,
                         manager::Policy::kTemporal};
  default_policy = *(policies.begin() + choices.Below(policies.size()));
  faults = PlanNamed(kFaults[choices.Below(kFaults.size())]).rates;
  faults_end = kMillisecond << choices.Below(6);
  config.packet_life_ns = faults_end / choices.OneOf({2, 16});
  max_count = 200u << choices.Below(5);
  config.invocation_bytes = InvocationBytes(scenario, max_count);
  calls = std::max(1, scenario.calls / 4);
  spread = faults_end / choices.OneOf({8, 32, 128, 512});
  changes_windows = scenario.send_windows.empty() ? OneIn(2) : scenario.send_windows == "changing";
  for (auto number = static_cast<int>(6 + choices.Below(7)); number > 0; --number)
    jobs.push_back(ChooseJob(scenario, number));
  ChooseCrashes();
  if (PlanNamed(scenario.name).restarts) ChooseRestarts();
}

// Ranks may wait for a manager, or for each other, for a minute: what is sent again meanwhile is so seldom.
void SharedShape::ChooseRestarts() {
  config.prompt_ns = choices.OneOf({2, 5, 20}) * kMillisecond;
  control.groups.prompt_ns = static_cast<uint64_t>(config.prompt_ns);
  if (config.host_ack_delay_ns > 0) config.host_ack_delay_ns = config.prompt_ns / 4;
  if (config.late_timers_ns > 0) config.late_timers_ns = config.prompt_ns / 4;
  config.host_timeout = static_cast<uint8_t>(choices.OneOf({14, 16, 18}));
  jobs.resize(std::min<size_t>(jobs.size(), 2 + choices.Below(5)));
  calls = 1 + static_cast<int>(choices.Below(static_cast<uint64_t>(calls)));
  control.groups.join_timeout = faults_end + 15 * kSecond;
  spread = choices.OneOf({faults_end / 8, 20 * kMillisecond, kSecond});
  look_after = kMillisecond;
  bound = 120 * kSecond;  // a rank may not come back, and a group fails for that a minute later
  commit = choices.OneOf({10, 1000, 20'000}) * kMicrosecond;
  again = choices.OneOf({1, 10, 100}) * kMillisecond;
  beat = choices.OneOf({100, 300, 1000}) * kMillisecond;
  for (uint64_t n = 1 + choices.Below(5); n > 0; --n) {
    const auto longest =
        static_cast<uint64_t>(choices.OneOf({2 * faults_end, 300 * kMillisecond, 3 * kSecond}));
    restarts.push_back(
        {.pause = static_cast<Nanos>(choices.Below(longest)),
         .commit = static_cast<int>(choices.Below(5)),
         .kept = OneIn(2),
         .away = OneIn(64) ? 70 * kSecond : choices.OneOf({1, 1000, 50'000, 1'000'000}) * kMicrosecond});
    bound += restarts.back().pause + restarts.back().away;
  }
}

// In a third of the runs.
void SharedShape::ChooseCrashes() {
  control.lease = faults_end / choices.OneOf({4, 16, 64});
  control.groups.join_timeout = faults_end + kSecond;
  if (!OneIn(3)) return;
  for (uint64_t n = 1 + choices.Below(3); n > 0; --n) {
    const bool is_host = OneIn(2);
    const size_t nodes = is_host ? config.tree.rank_switch.size() : config.tree.switch_parent.size();
    crashes.push_back(RandomCrash(faults_end, is_host, nodes, choices));
  }
}

// Switches have room for one to four groups of the usual size.
void SharedShape::ChooseNetwork(const Scenario& scenario) {
  config = {.tree = *TopologyNamed(scenario.topology),
            .first_group = false,
            .path_mtu = 256u << choices.Below(3),
            .link_delay_ns = choices.OneOf({500, 1000, 5000}),
            .bits_per_second = choices.OneOf({10, 100}) * 1'000'000'000,
            .prompt_ns = choices.OneOf({50, 200, 2000}) * kMicrosecond,
            .host_timeout = static_cast<uint8_t>(choices.OneOf({8, 14, 18}))};
  if (SharesAcks(scenario)) config.host_ack_delay_ns = config.prompt_ns / 4;
  if (scenario.timers == "late") config.late_timers_ns = config.prompt_ns * choices.OneOf({1, 8, 64}) / 4;
  const std::array links = {SuperFrameLinks::kNone, SuperFrameLinks::kAll, SuperFrameLinks::kSwitches,
                            SuperFrameLinks::kHosts};
  config.super_frames =
      SuperFrameLinksNamed(scenario.super_frames).value_or(links[choices.Below(links.size())]);
  control.groups.max_path_mtu = config.path_mtu;
  control.groups.window_packets = 8u << choices.Below(4);
  control.groups.prompt_ns = static_cast<uint64_t>(config.prompt_ns);
  control.groups.inline_bytes =
      scenario.inline_bytes.value_or(static_cast<uint32_t>(choices.OneOf({0, 200, 8128})));
  if (OneIn(4)) control.groups.start_psn = 0xffffff - static_cast<uint32_t>(choices.Below(100));
  control.message = choices.OneOf({1, 20, 500}) * kMicrosecond;
  control.states_arena = !OneIn(8);
  control.seed = scenario.seed;
  const uint32_t window =
      crowded ? kCrowdedMessage * kCrowdedWindow : std::min(16u, control.groups.window_packets);
  const uint64_t usual = MemoryOf({.mode = kDefaultMode,
                                   .path_mtu = config.path_mtu,
                                   .message_packets = 1,
                                   .window_messages = window,
                                   .slots = std::bit_ceil(2 * window),
                                   .children = 4,
                                   .has_parent = true})
                             .bytes();
  config.arena_bytes = RoundUpToArena(usual * (2 + choices.Below(7)) / 2);
}

void SharedShape::ChooseTenants() {
  for (uint64_t n = choices.Below(3); n > 0; --n) {
    manager::Tenant tenant{.name = fmt::format("tenant{}", n)};
    if (control.states_arena && OneIn(2)) tenant.limit_bytes = config.arena_bytes / (1 + choices.Below(3));
    if (OneIn(2)) tenant.limit_groups = 1 + choices.Below(3);
    if (control.states_arena && !tenant.limit_bytes && OneIn(2))
      tenant.guaranteed_bytes = config.arena_bytes / 4;
    tenants.push_back(tenant);
  }
}

void SharedShape::ChoosePolicy(manager::GroupSpec* spec) {
  const auto policies = {manager::Policy::kShortest, manager::Policy::kEdt,      manager::Policy::kSpatial,
                         manager::Policy::kTemporal, manager::Policy::kTemporal, manager::Policy::kTemporal};
  spec->policy = crowded && !OneIn(8) ? manager::Policy::kTemporal
                                      : *(policies.begin() + choices.Below(policies.size()));
  if (manager::HasWidths(spec->policy)) {
    const auto prefers = {manager::Prefer::kAuto, manager::Prefer::kLatency, manager::Prefer::kBandwidth};
    spec->prefer = *(prefers.begin() + choices.Below(prefers.size()));
    if (OneIn(6))
      spec->rate_kbps = static_cast<uint64_t>(config.bits_per_second) / 1000 / (2 + choices.Below(20));
  }
  if (spec->policy != manager::Policy::kTemporal) return;
  spec->duty =
      static_cast<uint32_t>(crowded ? choices.OneOf({100'000, 250'000, 300'000})
                                    : choices.OneOf({0, 100'000, 250'000, 300'000, 500'000, 1'000'000}));
  if (OneIn(2)) return;
  spec->job = OneIn(2) ? "train" : "serve";
  if (!OneIn(4)) spec->phase = fmt::format("phase{}", choices.Below(3));
}

// Half of the groups have the mode that the run is for.
void SharedShape::ChooseModes(const Scenario& scenario, manager::GroupSpec* spec) {
  const auto any = [this] { return ModesOfOwnMemory()[choices.Below(ModesOfOwnMemory().size())]; };
  const auto named = ModeNamed(scenario.mode);
  spec->mode = named && OneIn(2) ? *named : any();
  // Most of those that ask for a block may have one.
  for (int tries = 0;
       tries < 2 && spec->policy == manager::Policy::kTemporal && !manager::MayHaveBlocks(spec->mode);
       ++tries)
    spec->mode = any();
  if (named && !OneIn(4)) return;
  for (size_t s = 0; s < config.tree.switch_parent.size(); ++s) {
    const Mode own = any();
    if (OneIn(2) && MayMix(spec->mode, own)) spec->switch_modes[fmt::format("switch{}", s)] = own;
  }
}

Job SharedShape::ChooseJob(const Scenario& scenario, int number) {
  const uint64_t hosts = config.tree.rank_switch.size();
  Job job{.reserved = !OneIn(crowded ? 16 : 4),
          .lives = static_cast<int>(1 + choices.Below(3)),
          .begin = static_cast<Nanos>(choices.Below(static_cast<uint64_t>(faults_end))),
          .pause = 1 + faults_end / choices.OneOf({2, 16, 256})};
  // Some hosts, each once; one in four jobs has more ranks on some of them.
  std::vector<int> all;
  for (size_t h = 0; h < hosts; ++h) all.push_back(static_cast<int>(h));
  for (size_t h = hosts - 1; h > 0; --h) std::swap(all[h], all[choices.Below(h + 1)]);
  all.resize(2 + choices.Below(hosts - 1));
  job.rank_host = all;
  if (OneIn(4)) {
    for (uint64_t more = 1 + choices.Below(3); more > 0 && job.rank_host.size() < kMaxHosts; --more)
      job.rank_host.push_back(all[choices.Below(all.size())]);
  }
  manager::GroupSpec& spec = job.spec;
  spec.name = fmt::format("job{}", number);
  spec.world_size = static_cast<uint32_t>(job.rank_host.size());
  if (job.reserved && !OneIn(8)) ChoosePolicy(&spec);
  ChooseModes(scenario, &spec);
  if (!job.reserved) spec.switch_modes.clear();
  spec.path = static_cast<manager::Path>(choices.OneOf({1, 1, 1, 1, 1, 1, 1, 2, 2, 3}));
  if (scenario.path == "hosts") spec.path = manager::Path::kHosts;
  if (!crowded && OneIn(3)) spec.max_bytes = static_cast<uint64_t>(choices.OneOf({64, 1024, 65536}));
  if (OneIn(3)) {
    for (const TypeInfo& row : kCallerTypes) {
      if (AccumulatorFactor(row.type) == 1) spec.needs.Add(row.type);
    }
  }
  if (!job.reserved) return job;
  spec.reproducible = OneIn(4);
  if (OneIn(2)) {
    for (const int host : job.rank_host) spec.hosts.push_back(fmt::format("host{}", host));
  }
  if (crowded) {
    spec.message_packets = kCrowdedMessage;
    spec.window_messages = kCrowdedWindow;
  } else if (OneIn(3)) {
    spec.message_packets = 1u << choices.Below(3);
    spec.window_messages = 1u << choices.Below(4);
    while (spec.message_packets * spec.window_messages > control.groups.window_packets)
      spec.window_messages /= 2;
  }
  if (!tenants.empty() && OneIn(2)) spec.tenant = tenants[choices.Below(tenants.size())].name;
  return job;
}

}  // namespace epic::sim
