#include "sim/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "sim/collectives.h"

namespace epic::sim {
namespace {

// What the seed chooses besides the faults themselves.
struct Shape {
  explicit Shape(const Scenario& scenario) : choices(scenario.seed * 7919 + 1) {
    tree = *TopologyNamed(scenario.topology);
    const auto hosts = static_cast<int>(tree.rank_switch.size());
    config = {.mode = ModesNamed(scenario.mode, tree, choices),
              .tree = tree,
              .path_mtu = 256u << choices.Below(3),
              .message_packets = static_cast<uint32_t>(1 + choices.Below(8)),
              .window_messages = static_cast<uint32_t>(1 + choices.Below(8)),
              .prompt_ns = OneOf({50, 200, 2000}) * kMicrosecond,
              // 1 ms, 67 ms, 1 s.
              .host_timeout = static_cast<uint8_t>(OneOf({8, 14, 18}))};
    if (choices.Below(4) == 0) config.start_psn = 0xffffff - static_cast<uint32_t>(choices.Below(100));
    for (uint64_t n = choices.Below(3); n > 0; --n) {
      GroupSpec spec{.mode = ModesNamed(scenario.mode, tree, choices), .rank_host = {}};
      const uint64_t ranks = 2 + choices.Below(static_cast<uint64_t>(hosts) - 1);
      for (uint64_t r = 0; r < ranks; ++r)
        spec.rank_host.push_back(static_cast<int>(choices.Below(static_cast<uint64_t>(hosts))));
      others.push_back(spec);
    }
    config.arena_bytes = (1 + others.size()) << (hosts > 8 ? 22 : 20);
    max_count = 200u << choices.Below(5);
    faults_end = kMillisecond << choices.Below(7);
    spread = faults_end / scenario.calls / OneOf({1, 4, 16});
  }
  Nanos OneOf(std::initializer_list<Nanos> values) {
    return *(values.begin() + static_cast<ptrdiff_t>(choices.Below(values.size())));
  }

  Choices choices;
  TreeSpec tree;
  WorldConfig config;
  std::vector<GroupSpec> others;
  uint64_t max_count = 0;
  Nanos faults_end = 0;
  Nanos spread = 0;  // between a rank's calls
};

class Trial {
 public:
  Trial(const Scenario& scenario, const TraceSink& sink)
      : scenario_(scenario),
        plan_(PlanNamed(scenario.name)),
        shape_(scenario),
        faults_(plan_.rates),
        world_(shape_.config, scenario.seed),
        trace_(sink) {
    trace_.Run(ReplayLine(scenario));
    for (const GroupSpec& other : shape_.others) world_.AddGroup(other);
    world_.SetFaultRule([this](const LinkPacket& p) { return Decide(p); });
    world_.SetArrivalWatch([this](const LinkPacket& p, bool heard) {
      trace_.Arrived(world_, p, heard);
      if (!heard) ++counts_.unheard;
    });
    world_.At(shape_.faults_end, [this] {
      faulty_ = false;
      trace_.FaultsOff(world_.now());
      EPIC_CHECK(!plan_.crashes);
    });
    if (plan_.stops_hosts) StopHosts();
    for (int g = 0; g < world_.groups(); ++g) StartGroup(g);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Outcome Run();

 private:
  Fate FateOf(const LinkPacket& packet);
  Fate Decide(const LinkPacket& packet);
  void StopHosts();
  void StartGroup(int group);
  bool AllEnded();
  void TraceEnds();
  std::string WrongIn(int group, int rank);

  const Scenario scenario_;
  const FaultPlan& plan_;
  Shape shape_;
  RandomFaults faults_;
  World world_;
  Trace trace_;
  Counts counts_{.runs = 1};
  bool faulty_ = true;
  Nanos last_start_ = 0;
  std::vector<Calls> calls_;            // by group
  std::vector<std::vector<int>> ends_;  // by group and rank: calls whose end is in the trace
  int ended_groups_ = 0;
};

Fate Trial::FateOf(const LinkPacket& packet) {
  if (faulty_) {
    const bool is_data = !packet.packet->payload.empty() && !roce::Info(packet.packet->bth.opcode).imm;
    if (plan_.flips && is_data && packet.to >= world_.node_of_host(0)) return Fate::kFlip;
    return faults_.Next(packet, world_.now(), world_.choices());
  }
  return plan_.swallows ? Fate::kDrop : Fate::kDeliver;
}

Fate Trial::Decide(const LinkPacket& packet) {
  const Fate fate = FateOf(packet);
  counts_.lost += fate == Fate::kDrop;
  counts_.corrupted += fate == Fate::kCorrupt;
  counts_.repeated += fate == Fate::kDuplicate;
  counts_.delayed += fate == Fate::kDelay;
  trace_.Sent(world_, packet, fate);
  return fate;
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

// Three quarters of the calls begin while things go wrong, the others when they no longer do.
void Trial::StartGroup(int group) {
  const int ranks = world_.ranks(group);
  Calls& calls = calls_.emplace_back();
  for (int k = 0; k < scenario_.calls; ++k) {
    calls.emplace_back(RandomHeader(world_.choices(), ranks, shape_.max_count), ranks, group * kMaxCalls + k);
  }
  ends_.emplace_back(static_cast<size_t>(ranks));
  counts_.calls += scenario_.calls;
  const std::span<CollectiveCall> all = calls;
  const auto early = all.first(all.size() * 3 / 4);
  const auto late_rank = static_cast<int>(shape_.choices.Below(static_cast<uint64_t>(ranks)));
  for (int r = 0; r < ranks; ++r) {
    const auto on_start = [this, group, r](const CollectiveCall& call) {
      trace_.Started(world_.now(), group, r, call.number() % kMaxCalls, call.header());
    };
    const Nanos spread = shape_.spread * (plan_.late_ranks && r == late_rank ? 8 : 1);
    const Nanos at = StartCalls(world_, group, r, early, 0, spread, on_start);
    const Nanos last = StartCalls(world_, group, r, all.subspan(early.size()),
                                  std::max(at, shape_.faults_end), shape_.spread, on_start);
    last_start_ = std::max(last_start_, last);
  }
}

Outcome Trial::Run() {
  const bool ended = world_.RunUntil([this] { return AllEnded(); }, last_start_ + kLivenessBound);
  counts_.packets = world_.packets();
  counts_.time = world_.now();
  Outcome outcome{.verdict = ended ? Verdict::kRight : Verdict::kHung, .detail = {}, .counts = counts_};
  if (!ended) {
    outcome.detail =
        fmt::format("group {} has not ended {} ms after the last call and the last fault\n{}", ended_groups_,
                    kLivenessBound / kMillisecond, Standing(world_, ended_groups_));
  }
  for (int g = 0; g < world_.groups(); ++g) {
    for (int r = 0; r < world_.ranks(g); ++r) {
      const std::string wrong = WrongIn(g, r);
      if (wrong.empty() || outcome.verdict == Verdict::kWrong) continue;
      outcome.verdict = Verdict::kWrong;
      outcome.detail = wrong;
    }
  }
  trace_.Verdict(world_.now(), Name(outcome.verdict));
  return outcome;
}

bool Trial::AllEnded() {
  if (trace_.on()) TraceEnds();
  while (ended_groups_ < world_.groups() &&
         Finished(world_, ended_groups_, calls_[static_cast<size_t>(ended_groups_)]))
    ++ended_groups_;
  return ended_groups_ == world_.groups();
}

void Trial::TraceEnds() {
  for (int g = 0; g < world_.groups(); ++g) {
    for (int r = 0; r < world_.ranks(g); ++r) {
      const Host& host = world_.host(r, g);
      int& next = ends_[static_cast<size_t>(g)][static_cast<size_t>(r)];
      for (; next < static_cast<int>(host.calls()) && host.state(next) != CallState::kRunning; ++next)
        trace_.Ended(world_.now(), g, r, next, host.state(next) == CallState::kDone ? "done" : "failed");
    }
  }
}

// The first of the rank's calls that ended in an error or with wrong elements; empty if there is none.
std::string Trial::WrongIn(int group, int rank) {
  const Host& host = world_.host(rank, group);
  for (size_t k = 0; k < host.calls(); ++k) {
    const CollectiveCall& call = calls_[static_cast<size_t>(group)][k];
    const CallState state = host.state(static_cast<int>(k));
    if (state == CallState::kRunning) break;
    const size_t wrong = state == CallState::kDone ? call.Wrong(rank) : 0;
    if (state == CallState::kFailed)
      return fmt::format("group {}, {}: rank {} got an error\n", group, call.Describe(), rank);
    if (wrong > 0)
      return fmt::format("group {}, {}: rank {} has {} wrong elements\n", group, call.Describe(), rank,
                         wrong);
  }
  return {};
}

}  // namespace

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kWrong:
      return "wrong";
    case Verdict::kHung:
      return "hung";
  }
  return "other";
}

Counts& Counts::operator+=(const Counts& other) {
  runs += other.runs;
  calls += other.calls;
  packets += other.packets;
  lost += other.lost;
  corrupted += other.corrupted;
  repeated += other.repeated;
  delayed += other.delayed;
  unheard += other.unheard;
  time += other.time;
  return *this;
}

std::string Describe(const Counts& counts) {
  return fmt::format(
      "{} calls, {} packets, {:.6f} virtual seconds; {} lost, {} corrupted, {} repeated, {} delayed, {} "
      "unheard "
      "by stopped hosts",
      counts.calls, counts.packets, static_cast<double>(counts.time) / 1e9, counts.lost, counts.corrupted,
      counts.repeated, counts.delayed, counts.unheard);
}

Outcome RunTrial(const Scenario& scenario, const TraceSink& trace) { return Trial(scenario, trace).Run(); }

}  // namespace epic::sim
