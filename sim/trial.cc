#include "sim/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "sim/collectives.h"
#include "sim/group_ranks.h"
#include "sim/hosts_way.h"
#include "sim/manager.h"

namespace epic::sim {
namespace {

// What the seed chooses besides the faults themselves.
struct Shape {
  explicit Shape(const Scenario& scenario)
      : choices(scenario.seed * 7919 + 1),
        window_choices(scenario.seed * 7919 + 3),
        type_choices(scenario.seed * 7919 + 9),
        path_choices(scenario.seed * 7919 + 11) {
    tree = *TopologyNamed(scenario.topology);
    const auto hosts = static_cast<int>(tree.rank_switch.size());
    config = {.mode = ModesNamed(scenario.mode, tree, choices),
              .tree = tree,
              .path_mtu = 256u << choices.Below(3),
              .message_packets = static_cast<uint32_t>(1 + choices.Below(8)),
              .window_messages = static_cast<uint32_t>(1 + choices.Below(8)),
              .prompt_ns = choices.OneOf({50, 200, 2000}) * kMicrosecond,
              // 1 ms, 67 ms, 1 s.
              .host_timeout = static_cast<uint8_t>(choices.OneOf({8, 14, 18}))};
    if (choices.Below(4) == 0) config.start_psn = 0xffffff - static_cast<uint32_t>(choices.Below(100));
    for (uint64_t n = choices.Below(3); n > 0; --n) {
      GroupSpec spec{.mode = ModesNamed(scenario.mode, tree, choices), .rank_host = {}};
      const uint64_t ranks = 2 + choices.Below(static_cast<uint64_t>(hosts) - 1);
      for (uint64_t r = 0; r < ranks; ++r)
        spec.rank_host.push_back(static_cast<int>(choices.Below(static_cast<uint64_t>(hosts))));
      others.push_back(spec);
    }
    if (scenario.numbers == "blocks") config.accumulator_mtus = 4;
    if (PlanNamed(scenario.name).reuses) config.start_psn = config.start_psn.value_or(0xffffc0);
    config.arena_bytes = ArenaBytesOf(FirstGroupOf(config), config);
    for (const GroupSpec& other : others) config.arena_bytes += ArenaBytesOf(other, config);
    config.inline_bytes = scenario.inline_bytes.value_or(InlineLimit(scenario.seed));
    const bool by_seed = window_choices.Below(2) == 0;
    changes_windows = scenario.send_windows.empty() ? by_seed : scenario.send_windows == "changing";
    if (SharesAcks(scenario)) config.host_ack_delay_ns = config.prompt_ns / 4;
    if (scenario.timers == "late") config.late_timers_ns = Lateness(scenario.seed);
    config.super_frames = SuperFrameLinksNamed(scenario.super_frames).value_or(AgreedLinks(scenario.seed));
    max_count = 200u << choices.Below(5);
    config.invocation_bytes = InvocationBytes(scenario, max_count);
    faults_end = kMillisecond << choices.Below(7);
    spread = faults_end / scenario.calls / choices.OneOf({1, 4, 16});
    ChooseCrashes(PlanNamed(scenario.name));
  }
  // None, a packet's, two packets', a message's. Chosen apart, so that what else the seed chooses is the same
  // with any of them.
  uint32_t InlineLimit(uint64_t seed) const {
    constexpr uint32_t kHeader = kControlBytes;
    const std::array<uint32_t, 4> limits = {0, config.path_mtu - kHeader, 2 * config.path_mtu - kHeader,
                                            kMaxInlineBytes};
    return limits[Choices(seed * 7919 + 2).Below(limits.size())];
  }
  // Chosen apart as well.
  static SuperFrameLinks AgreedLinks(uint64_t seed) {
    constexpr std::array kLinks = {SuperFrameLinks::kNone, SuperFrameLinks::kAll, SuperFrameLinks::kSwitches,
                                   SuperFrameLinks::kHosts};
    return kLinks[Choices(seed * 7919 + 4).Below(kLinks.size())];
  }
  // From what hardly shows to many prompt intervals, in which what should have been done has not been. Chosen
  // apart as well.
  Nanos Lateness(uint64_t seed) const {
    const std::array<Nanos, 3> most = {config.prompt_ns / 4, 2 * config.prompt_ns, 16 * config.prompt_ns};
    return most[Choices(seed * 7919 + 8).Below(most.size())];
  }
  // What crashes, when and until when, and the times of the manager: a real lease of seconds would be
  // thousands of timeouts of the hosts, all alike.
  void ChooseCrashes(const FaultPlan& plan) {
    if (!plan.crashes_engines && !plan.kills_hosts) return;
    config.arena_bytes *= 4;  // for groups that are made while the ones before are being removed
    config.packet_life_ns = plan.reuses ? faults_end : faults_end / choices.OneOf({2, 16});
    manager = {.lease = faults_end / choices.OneOf({4, 16, 64}),
               .message = faults_end / choices.OneOf({64, 1024}),
               .quarantine = config.packet_life_ns + kMillisecond,
               .reuses_at_once = plan.reuses};
    const auto crashes_of = [this](size_t nodes, bool are_hosts) {
      for (uint64_t n = 1 + choices.Below(3); n > 0; --n) {
        crashes.push_back(RandomCrash(faults_end, are_hosts, nodes, choices));
      }
    };
    if (plan.crashes_engines) crashes_of(tree.switch_parent.size(), false);
    if (plan.kills_hosts) crashes_of(tree.rank_switch.size(), true);
  }

  Choices choices;
  Choices window_choices;  // apart, as those of the inline limit
  Choices type_choices;    // of calls, where they are of all types
  Choices path_choices;    // of ways between the hosts
  TreeSpec tree;
  WorldConfig config;
  std::vector<GroupSpec> others;
  uint64_t max_count = 0;
  Nanos faults_end = 0;
  Nanos spread = 0;  // between a rank's calls
  bool changes_windows = false;
  ManagerOptions manager;
  std::vector<Crash> crashes;
};

const char* HowEnded(const GroupRanks& ranks, int rank, int call) {
  if (ranks.state(rank, call) == CallState::kDone) return "done";
  return ranks.outcome(rank, call) == epic::Outcome::kAborted ? "aborted" : "failed";
}

class Trial {
 public:
  Trial(const Scenario& scenario, const TraceSink& sink)
      : scenario_(scenario),
        plan_(PlanNamed(scenario.name)),
        shape_(scenario),
        faults_(plan_.rates),
        world_(shape_.config, scenario.seed),
        trace_(sink),
        manager_(WithGroups(), trace_, shape_.choices, shape_.manager, [this](int group) {
          ++counts_.failed;
          StartGroup(group);
        }) {
    EPIC_CHECK(!plan_.shares);
    trace_.Run(ReplayLine(scenario));
    world_.SetFaultRule([this](const LinkPacket& p) { return FateOf(p); });
    world_.SetSendWatch([this](const LinkPacket& p, Fate fate) { Note(p, fate); });
    world_.SetArrivalWatch([this](const LinkPacket& p, bool heard) {
      trace_.Arrived(world_, p, heard);
      if (!heard) ++counts_.unheard;
      if (manager_.hit(p.group)) ++counts_.old;
    });
    world_.At(shape_.faults_end, [this] {
      faulty_ = false;
      trace_.FaultsOff(world_.now());
      EPIC_CHECK(!plan_.aborts);
    });
    if (plan_.stops_hosts) StopHosts();
    for (const Crash& crash : shape_.crashes) world_.At(crash.at, [this, &crash] { Happen(crash); });
    for (int g = 0; g < world_.groups(); ++g) StartGroup(g);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Outcome Run();

 private:
  World& WithGroups() {
    for (const GroupSpec& other : shape_.others) world_.AddGroup(other);
    return world_;
  }
  Fate FateOf(const LinkPacket& packet);
  void Note(const LinkPacket& packet, Fate fate);
  void StopHosts();
  void Happen(const Crash& crash);
  void StartGroup(int group);
  GroupRanks& RanksOf(int group) { return ranks_[static_cast<size_t>(group)]; }
  void ChangeWindows(int group, int rank, Nanos from, Nanos to);
  bool AllEnded();
  void TraceEnds();
  int64_t Aborted();
  std::string WrongIn(int group, int rank);
  std::string CountDatagrams(int group);

  const Scenario scenario_;
  const FaultPlan& plan_;
  Shape shape_;
  RandomFaults faults_;
  World world_;
  Trace trace_;
  Manager manager_;
  Counts counts_{.runs = 1};
  bool faulty_ = true;
  Nanos last_start_ = 0;
  std::vector<Calls> calls_;            // by group
  std::vector<GroupRanks> ranks_;       // by group
  std::vector<std::vector<int>> ends_;  // by group and rank: calls whose end is in the trace
  int ended_groups_ = 0;
};

Fate Trial::FateOf(const LinkPacket& packet) {
  if (faulty_) {
    const size_t bytes = packet.packet->payload.size();
    const bool is_header = roce::Info(packet.packet->bth.opcode).imm && bytes == kControlBytes;
    const bool is_data = bytes > 0 && !is_header;
    if (plan_.flips && is_data && packet.to >= world_.node_of_host(0)) return Fate::kFlip;
    return faults_.Next(packet, world_.now(), world_.choices());
  }
  return plan_.swallows ? Fate::kDrop : Fate::kDeliver;
}

void Trial::Note(const LinkPacket& packet, Fate fate) {
  counts_.Add(fate);
  trace_.Sent(world_, packet, fate);
}

// Some of the hosts, once or twice each; none beyond the end of the faults.
void Trial::StopHosts() {
  const auto end = static_cast<uint64_t>(shape_.faults_end);
  for (int h = 0; h < world_.ranks(0); ++h) {
    Nanos at = 0;
    for (uint64_t n = shape_.choices.Below(3); n > 0; --n) {
      at += static_cast<Nanos>(shape_.choices.Below(end / 2));
      if (at >= shape_.faults_end) break;
      const Nanos until =
          std::min(shape_.faults_end, at + 1 + static_cast<Nanos>(shape_.choices.Below(end / 2)));
      world_.At(at, [this, h, until] {
        trace_.Stopped(world_.now(), h, until);
        world_.Freeze(h, until);
      });
      at = until;
    }
  }
}

void Trial::Happen(const Crash& crash) {
  const int node = crash.is_host ? world_.node_of_host(crash.number) : crash.number;
  trace_.Crashed(world_, node, crash.until);
  ++counts_.crashes;
  if (crash.is_host) {
    manager_.HostDies(crash.number);
    world_.KillHost(crash.number, crash.until);
  } else {
    manager_.EngineCrashes(crash.number);
    world_.CrashEngine(crash.number, crash.until);
  }
  world_.At(crash.until, [this, node] { trace_.Restarted(world_, node); });
}

// Three quarters of the calls begin while things go wrong, the others when they no longer do.
void Trial::StartGroup(int group) {
  const int ranks = world_.ranks(group);
  Calls& calls = calls_.emplace_back();
  for (int k = 0; k < scenario_.calls; ++k) {
    ControlHeader header = RandomHeader(world_.choices(), ranks, shape_.max_count);
    if (scenario_.types == "all") ChooseType(shape_.type_choices, &header);
    if (scenario_.numbers == "blocks") PutInBlocks(&header);
    calls.emplace_back(header, ranks, group * kMaxCalls + k, std::max(DepthOf(shape_.tree), ranks - 1));
  }
  ends_.emplace_back(static_cast<size_t>(ranks));
  counts_.calls += scenario_.calls;
  const GroupRanks& made = ranks_.emplace_back(
      world_, group, ChooseWay(scenario_, shape_.config, shape_.path_choices), shape_.path_choices);
  counts_.by_hosts += std::ranges::count_if(
      calls, [&made](const CollectiveCall& call) { return made.IsByHosts(call.header()); });
  const std::span<CollectiveCall> all = calls;
  const auto early = all.first(all.size() * 3 / 4);
  const Nanos now = world_.now();
  const auto late_rank = static_cast<int>(shape_.choices.Below(static_cast<uint64_t>(ranks)));
  for (int r = 0; r < ranks; ++r) {
    const auto start = [this, group, r](CollectiveCall& call) {
      trace_.Started(world_.now(), group, r, call.number() % kMaxCalls, call.header());
      RanksOf(group).Start(r, call);
    };
    const Nanos spread = shape_.spread * (plan_.late_ranks && r == late_rank ? 8 : 1);
    const Nanos at = StartCalls(world_, group, r, early, now, spread, start);
    const Nanos last = StartCalls(world_, group, r, all.subspan(early.size()),
                                  std::max(at, shape_.faults_end), shape_.spread, start);
    last_start_ = std::max(last_start_, last);
    if (shape_.changes_windows) ChangeWindows(group, r, now, last);
  }
}

// At some moments between the rank's first call and its last one, and once after that.
void Trial::ChangeWindows(int group, int rank, Nanos from, Nanos to) {
  Choices& choices = shape_.window_choices;
  const auto span = static_cast<uint64_t>(to - from) + 1;
  for (uint64_t n = 1 + choices.Below(16); n > 0; --n) {
    const auto messages = static_cast<uint32_t>(1 + choices.Below(shape_.config.window_messages));
    const Nanos at = n == 1 ? to + 1 : from + static_cast<Nanos>(choices.Below(span));
    world_.At(at, [this, group, rank, messages] {
      Host& host = world_.host(rank, group);
      if (host.alive()) host.SetSendWindow(messages);
    });
  }
}

Outcome Trial::Run() {
  bool ended = false;
  // A group that is made meanwhile has calls that start later.
  for (Nanos limit = 0; !ended && limit < last_start_ + kLivenessBound;) {
    limit = last_start_ + kLivenessBound;
    ended = world_.RunUntil([this] { return AllEnded(); }, limit);
  }
  counts_.packets = world_.packets();
  counts_.super_frames = world_.super_frames();
  counts_.late_timers = world_.late_timers();
  counts_.time = world_.now();
  counts_.aborted = Aborted();
  std::string overrun;
  for (int g = 0; g < world_.groups(); ++g) overrun += CountDatagrams(g);
  Outcome outcome{.verdict = ended ? Verdict::kRight : Verdict::kHung, .detail = {}, .counts = counts_};
  if (!ended) {
    outcome.detail = fmt::format("group {} has not ended {} ms after the last call and the last fault\n{}",
                                 ended_groups_, kLivenessBound / kMillisecond,
                                 Standing(world_, ended_groups_) + RanksOf(ended_groups_).Standing());
  }
  for (int g = 0; g < world_.groups(); ++g) {
    for (int r = 0; r < world_.ranks(g); ++r) {
      const std::string wrong = WrongIn(g, r);
      if (wrong.empty() || outcome.verdict == Verdict::kWrong) continue;
      outcome.verdict = Verdict::kWrong;
      outcome.detail = wrong;
    }
  }
  if (outcome.verdict == Verdict::kRight && !overrun.empty()) {
    outcome.verdict = Verdict::kWrong;
    outcome.detail = overrun;
  }
  trace_.Verdict(world_.now(), Name(outcome.verdict));
  return outcome;
}

bool Trial::AllEnded() {
  if (trace_.on()) TraceEnds();
  while (ended_groups_ < world_.groups() &&
         RanksOf(ended_groups_).Finished(calls_[static_cast<size_t>(ended_groups_)].size()))
    ++ended_groups_;
  return ended_groups_ == world_.groups() && manager_.idle();
}

void Trial::TraceEnds() {
  for (int g = 0; g < world_.groups(); ++g) {
    for (int r = 0; r < world_.ranks(g); ++r) {
      const GroupRanks& ranks = RanksOf(g);
      int& next = ends_[static_cast<size_t>(g)][static_cast<size_t>(r)];
      for (; next < static_cast<int>(ranks.calls(r)) && ranks.state(r, next) != CallState::kRunning; ++next)
        trace_.Ended(world_.now(), g, r, next, HowEnded(ranks, r, next));
    }
  }
}

int64_t Trial::Aborted() {
  int64_t aborted = 0;
  for (int g = 0; g < world_.groups(); ++g) {
    for (int r = 0; r < world_.ranks(g); ++r) {
      const GroupRanks& ranks = RanksOf(g);
      for (int k = 0; k < static_cast<int>(ranks.calls(r)); ++k)
        aborted += ranks.state(r, k) != CallState::kDone;
    }
  }
  return aborted;
}

// What is wrong with them: where nothing goes wrong on the links all of them must have come.
std::string Trial::CountDatagrams(int group) {
  const GroupRanks& ranks = RanksOf(group);
  if (!ranks.by_multicast()) return {};
  const bool in_order = !plan_.stops_hosts && !plan_.crashes_engines && !plan_.kills_hosts &&
                        counts_.lost + counts_.repeated + counts_.delayed + counts_.corrupted == 0 &&
                        shape_.tree.more_links.empty() && ranks.KeepsRoom();
  std::string wrong;
  for (int r = 0; r < world_.ranks(group); ++r) {
    const MulticastCounts counts = ranks.multicast(r);
    const auto unposted = static_cast<int64_t>(ranks.unposted(r));
    counts_.datagram_chunks += static_cast<int64_t>(counts.came);
    counts_.read_chunks += static_cast<int64_t>(counts.read);
    counts_.unposted += unposted;
    if (in_order && (unposted > 0 || counts.read > 0))
      wrong += fmt::format("group {}: rank {} was overrun by {} datagrams and read {} chunks\n", group, r,
                           unposted, counts.read);
  }
  return wrong;
}

// The first of the rank's calls that ended in an error without cause or with wrong elements; empty if there
// is none.
std::string Trial::WrongIn(int group, int rank) {
  const GroupRanks& ranks = RanksOf(group);
  for (size_t k = 0; k < ranks.calls(rank); ++k) {
    const CollectiveCall& call = calls_[static_cast<size_t>(group)][k];
    const CallState state = ranks.state(rank, static_cast<int>(k));
    if (state == CallState::kRunning) continue;
    const size_t wrong = state == CallState::kDone ? call.Wrong(rank) : 0;
    const bool may_abort = manager_.hit(group) && ranks.life(rank) == RankLife::kAborted;
    if (state == CallState::kFailed &&
        !(may_abort && ranks.outcome(rank, static_cast<int>(k)) == epic::Outcome::kAborted))
      return fmt::format("group {}, {}: rank {} got an error\n", group, call.Describe(), rank);
    if (wrong > 0)
      return fmt::format("group {}, {}: rank {} has {} wrong elements\n", group, call.Describe(), rank,
                         wrong);
  }
  return {};
}

}  // namespace

Outcome RunTrial(const Scenario& scenario, const TraceSink& trace) { return Trial(scenario, trace).Run(); }

}  // namespace epic::sim
