// The manager among processes that are scheduled late, in virtual time: agents, engines, ranks, hosts' daemons and the
// manager itself stand still for up to 3.9 s, again and again, and go on with what has come meanwhile.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "incagent/engine_signs.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/manager_world_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"
#include "protocol/echo_history.h"

namespace epic::manager::testing {

inline constexpr Nanos kLatest = 3900 * kMillisecond;

// When a process does not run. Not at all late if `late` is false.
class Process {
 public:
  Process(std::mt19937_64* random, Nanos end, bool late) {
    if (!late) return;
    const auto upto = [random](Nanos most) { return std::uniform_int_distribution<Nanos>(0, most)(*random); };
    const Nanos longest_run = upto(1) == 0 ? kSecond : 10 * kSecond;
    for (Nanos at = upto(longest_run); at < end;) {
      const Nanos until = at + (upto(2) == 0 ? kLatest : upto(kLatest));
      stalls_.emplace_back(at, until);
      at = until + 50 * kMillisecond + upto(longest_run);
    }
  }

  // When what is due at `at` is done.
  Nanos RunsAt(Nanos at) const {
    if (at >= dead_from) return kNever;
    const auto stall = std::ranges::find_if(stalls_, [at](const auto& s) { return s.first <= at && at < s.second; });
    const Nanos runs = stall == stalls_.end() ? at : stall->second;
    return runs >= dead_from ? kNever : runs;
  }
  // How much of this time it did not run.
  Nanos Stalled(Nanos from, Nanos to) const {
    Nanos sum = 0;
    for (const auto& [begin, end] : stalls_) sum += std::max<Nanos>(0, std::min(end, to) - std::max(begin, from));
    return sum;
  }

  Nanos dead_from = kNever;

 private:
  std::vector<std::pair<Nanos, Nanos>> stalls_;
};

class LateWorld : public IdleWorld {
 public:
  struct Options {
    uint64_t seed = 1;
    Nanos end = 60 * kSecond;
    bool late = true;
    // Whether the kernel says how long a process waited for a processor; a virtual machine's may not know.
    bool seen = true;
  };

  explicit LateWorld(const Options& options)
      : options_(options),
        random_(options.seed),
        topology_(TopologyBuilder()
                      .Switch("root").Switch("leaf1").Switch("leaf2")
                      .Host("h0").Host("h1").Host("h2").Host("h3")
                      .Link("root", "leaf1").Link("root", "leaf2")
                      .Link("leaf1", "h0").Link("leaf1", "h1").Link("leaf2", "h2").Link("leaf2", "h3").Build()),
        manager_(Make()),
        state_(topology_, {}, 1, options.seed, this) {
    for (const NodeId node : topology_.switches)
      switches_.push_back(std::make_unique<Switch>(Switch{Make(), Make(), SwitchModel(topology_.nodes[node])}));
    for (uint32_t rank = 0; rank < kRanks; ++rank) ranks_.push_back(std::make_unique<Rank>(Rank{Make(), Make()}));
  }

  // Until the end, or until a rank is told of a failure.
  void Run() {
    for (const NodeId node : topology_.switches) At(0, [this, node] { Register(node); });
    At(100 * kMillisecond, [this] { Tick(); });
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      At(kSecond, [this, rank] { JoinGroup(rank); });
    }
    while (!events_.empty() && events_.begin()->first < options_.end && !failure) {
      now_ = events_.begin()->first;
      const auto what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
      state_.CheckInvariants();
    }
  }

  NodeId Id(const std::string& name) const { return *topology_.FindNode(name); }
  void KillAgent(const std::string& name, Nanos at) { switches_[Id(name)]->agent.dead_from = at; }
  void KillEngine(const std::string& name, Nanos at) { switches_[Id(name)]->engine.dead_from = at; }
  // Of a rank with a daemon, that.
  void KillHost(uint32_t rank, Nanos at) { ranks_[rank]->daemon.dead_from = ranks_[rank]->rank.dead_from = at; }

  uint32_t joined = 0;               // ranks that have been told that the group runs
  std::optional<proto::Failure> failure;  // what a rank was told first
  Nanos failed_at = 0;

 private:
  static constexpr uint32_t kRanks = 4;
  static constexpr Nanos kLatency = 200 * kMicrosecond;
  static constexpr Nanos kBeat = kSecond;
  static constexpr Nanos kEngineTimeout = kSecond, kManagerTimeout = 2 * kSecond, kProbeTimeout = kSecond;

  struct Switch {
    Process agent, engine;
    SwitchModel model;
    uint64_t epoch = 0;
    agent::EngineVerdict verdict;
    Nanos asked = 0;                 // when the last call had ended
    std::optional<Nanos> answer_at;  // of the question that is open
    uint64_t as_of = 0;              // the time in the manager's last reply, and before that question
    uint64_t asked_as_of = 0;
    proto::EngineInfo told;                // the answer
    std::map<NodeId, EchoHistory> echoes;  // by whom it asks
  };
  struct Rank {
    Process rank, daemon;
    std::map<uint32_t, EchoHistory> echoes;
    uint64_t session = 0;
  };

  Process Make() { return Process(&random_, options_.end, options_.late); }
  void At(Nanos at, std::function<void()> what) {
    if (at != kNever) events_.emplace(at, std::move(what));
  }
  // When the process goes on it does what has waited in any order.
  void On(const Process& process, Nanos at, std::function<void()> what) {
    const Nanos runs = process.RunsAt(at);
    if (runs != kNever)
      At(runs + std::uniform_int_distribution<Nanos>(0, kMillisecond)(random_), std::move(what));
  }

  // --- the manager
  void Tick() {
    state_.Tick(now_);
    On(manager_, now_ + 100 * kMillisecond, [this] { Tick(); });
  }

  // --- agents
  void Register(NodeId node) {
    Switch& of = *switches_[node];
    On(manager_, now_ + kLatency, [this, node, &of] {
      proto::RegisterRequest request;
      request.set_name(topology_.nodes[node].name);
      request.set_agent_address("10.0.0.1:7401");
      *request.mutable_engine() = of.model.Describe();
      const auto reply = state_.Register(now_, request);
      On(of.agent, now_ + kLatency, [this, node, &of, reply] {
        of.asked = now_;
        of.verdict.Answered();
        if (reply.ok()) {
          of.epoch = reply->epoch();
          of.as_of = reply->time();
          of.answer_at.reset();
        }
        On(of.agent, now_ + (reply.ok() ? kBeat : 0), [this, node] { AskEngine(node); });
      });
    });
  }
  // A question stays open until it is answered; each beat waits for that for a while.
  void AskEngine(NodeId node) {
    Switch& of = *switches_[node];
    if (!of.answer_at) {
      of.answer_at = of.engine.RunsAt(now_ + kLatency);
      of.asked_as_of = of.as_of;
      At(*of.answer_at, [&of] { of.told = of.model.DescribeAll(); });
    }
    const Nanos until = now_ + kEngineTimeout;
    On(of.agent, std::min(*of.answer_at, until), [this, node, &of, until] {
      // If both have come while it stood still, either may be seen first.
      const bool answered = *of.answer_at <= now_ && (now_ < until || random_() % 2 == 0);
      if (answered) {
        of.verdict.Answered();
        of.answer_at.reset();
      } else {
        agent::EngineSigns signs;
        signs.refuses = now_ >= of.engine.dead_from;
        if (options_.seen) signs.waited = of.engine.Stalled(of.asked, now_);
        of.verdict.Failed(signs, now_ - of.asked, options_.seen ? of.agent.Stalled(of.asked, now_) : 0);
      }
      of.asked = now_;
      Beat(node, answered);
    });
  }
  void Beat(NodeId node, bool answers) {
    Switch& of = *switches_[node];
    proto::HeartbeatRequest request;
    request.set_name(topology_.nodes[node].name);
    request.set_epoch(of.epoch);
    request.set_engine_up(!of.verdict.down());
    request.set_engine_slow(!answers && !of.verdict.down());
    if (!of.verdict.down()) *request.mutable_engine() = answers ? of.told : of.model.Describe();
    if (answers) request.set_as_of(of.asked_as_of);
    const Nanos begin = now_, heard = manager_.RunsAt(begin + kLatency);
    // The manager works off what comes after its sender's deadline as well.
    On(manager_, begin + kLatency, [this, node, &of, request, begin] {
      const auto reply = state_.Heartbeat(now_, request);
      if (now_ > begin + kManagerTimeout) return;
      On(of.agent, now_ + kLatency,
         [this, node, &of, again = !reply.ok() || reply->register_again(),
          time = reply.ok() ? reply->time() : 0] {
           if (again) return Register(node);
           of.as_of = time;
           On(of.agent, now_ + kBeat, [this, node] { AskEngine(node); });
         });
    });
    if (heard + kMillisecond <= begin + kManagerTimeout) return;
    On(of.agent, begin + kManagerTimeout + kBeat, [this, node] { AskEngine(node); });
  }

  // --- echoes
  // Takes the echo of `about` in when it has come, if `process` asks now.
  void AskForEcho(const Process& process, EchoHistory* history, NodeId about, uint32_t number) {
    if (!topology_.IsSwitch(about)) {
      // The host's kernel, which is not late.
      const Process& host = ranks_[about - topology_.switches.size()]->daemon;
      if (now_ + kLatency >= host.dead_from) return;
      return On(process, now_ + 2 * kLatency, [history, number] { history->OnEcho(number); });
    }
    On(switches_[about]->engine, now_ + kLatency, [this, &process, history, number] {
      On(process, now_ + kLatency, [history, number] { history->OnEcho(number); });
    });
  }
  void Probe(NodeId witness, NodeId about, const proto::ProbeRequest&) override {
    Switch& of = *switches_[witness];
    const Nanos begin = now_;
    auto answered = std::make_shared<bool>(false);
    // By its agent, to its engine and back.
    On(of.agent, begin + kLatency, [this, witness, about, &of, answered, begin] {
      On(of.engine, now_ + kLatency, [this, witness, about, &of, answered, begin] {
        EchoHistory& history = of.echoes[about];
        proto::ProbeReply reply;
        reply.set_asked(history.last_number() != 0);
        reply.set_answered(history.Answered());
        history.OnRequest(++number_);
        AskForEcho(of.engine, &history, about, number_);
        On(of.agent, now_ + kLatency, [this, witness, about, answered, begin, reply] {
          On(manager_, now_ + kLatency, [this, witness, about, answered, begin, reply] {
            if (std::exchange(*answered, true) || now_ > begin + kProbeTimeout + kLatest) return;
            state_.OnProbed(now_, witness, about, topology_.nodes[about].address, reply);
          });
        });
      });
    });
    On(manager_, begin + kProbeTimeout, [this, witness, about, answered] {
      if (std::exchange(*answered, true)) return;
      state_.OnProbed(now_, witness, about, topology_.nodes[about].address,
                      MakeStatus(StatusCode::kDeadlineExceeded, "late"));
    });
  }

  // --- ranks: those with odd numbers by their hosts' daemons
  proto::ClientMessage Join(uint32_t rank) const {
    proto::ClientMessage message;
    proto::Join& join = *message.mutable_join();
    join.set_group("g");
    join.set_rank(rank);
    join.set_world_size(kRanks);
    join.set_ip(Raw(topology_.nodes[topology_.switches.size() + rank].address));
    join.set_qpn(0x11);
    join.set_max_path_mtu(256);
    join.set_max_outstanding(129);
    join.set_host_name("h" + std::to_string(rank));
    join.set_path(proto::PATH_NETWORK);
    join.set_join_timeout_ms(60'000);
    return message;
  }
  void SayAlive(uint32_t rank) {
    On(manager_, now_ + kLatency, [this, rank] { state_.OnHostMessage(now_, rank, {}); });
    On(ranks_[rank]->daemon, now_ + kBeat, [this, rank] { SayAlive(rank); });
  }
  void Say(uint32_t rank, const proto::ClientMessage& message) {
    if (rank % 2 == 0) return state_.OnMessage(now_, ranks_[rank]->session, message);
    proto::FromHost from;
    from.mutable_said()->set_session(1);
    *from.mutable_said()->mutable_message() = message;
    state_.OnHostMessage(now_, rank, from);
  }
  void JoinGroup(uint32_t rank) {
    const proto::ListSwitchesReply all = state_.ListSwitches(now_);
    if (!std::ranges::all_of(all.switches(), [](const auto& of) { return of.state() == "up"; }))
      return At(now_ + kSecond, [this, rank] { JoinGroup(rank); });
    if (rank % 2 == 0) {
      ranks_[rank]->session = state_.NewSession();
    } else {
      proto::FromHost info;
      info.mutable_info()->set_name("h" + std::to_string(rank));
      state_.OnHostMessage(now_, rank, info);
      SayAlive(rank);
    }
    Say(rank, Join(rank));
  }
  void Told(uint32_t rank, const proto::ServerMessage& message) {
    if (message.has_joined()) ++joined;
    if (message.has_failure() && !failure) {
      failure = message.failure();
      failed_at = now_;
    }
    if (!message.has_probe()) return;
    const uint32_t ip = message.probe().ip();
    Rank& of = *ranks_[rank];
    // By its daemon, if it has one, to the rank and back.
    const Process& first = rank % 2 == 1 ? of.daemon : of.rank;
    On(first, now_ + kLatency, [this, rank, ip, &of, &first] {
      On(of.rank, now_, [this, rank, ip, &of, &first] {
        EchoHistory& history = of.echoes[ip];
        proto::ClientMessage reply;
        reply.mutable_probed()->set_ip(ip);
        reply.mutable_probed()->set_asked(history.last_number() != 0);
        reply.mutable_probed()->set_answered(history.Answered());
        history.OnRequest(++number_);
        AskForEcho(of.rank, &history, *topology_.FindNode(NameOf(ip)), number_);
        On(first, now_, [this, rank, reply] {
          On(manager_, now_ + kLatency, [this, rank, reply] { Say(rank, reply); });
        });
      });
    });
  }
  std::string NameOf(uint32_t ip) const {
    for (const NodeId node : topology_.switches)
      if (Raw(topology_.nodes[node].address) == ip) return topology_.nodes[node].name;
    return "";
  }
  void Send(SessionId session, const proto::ServerMessage& message, bool) override {
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      if (rank % 2 == 0 && ranks_[rank]->session == session) At(now_, [this, rank, message] { Told(rank, message); });
  }
  void SendToHost(HostId host, const proto::ToHost& message) override {
    if (message.has_told()) At(now_, [this, rank = static_cast<uint32_t>(host), told = message.told().message()] { Told(rank, told); });
  }

  // --- calls to switches
  void SetForwarding(NodeId node, const proto::ForwardingTable&) override {
    At(now_ + kLatency, [this, node] { state_.OnForwardingSet(now_, node, absl::OkStatus()); });
  }
  void Install(NodeId node, const proto::GroupConfig& group) override {
    At(now_ + kLatency, [this, node, group] {
      state_.OnInstalled(now_, node, group.group_id(), switches_[node]->model.Install(group));
    });
  }

  const Options options_;
  std::mt19937_64 random_;
  const Topology topology_;
  const Process manager_;
  ManagerState state_;
  std::vector<std::unique_ptr<Switch>> switches_;  // by NodeId
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::multimap<Nanos, std::function<void()>> events_;
  Nanos now_ = 0;
  uint32_t number_ = 0;
};

}  // namespace epic::manager::testing
