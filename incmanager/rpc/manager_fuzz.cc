// Agents, ranks and operators against the manager's state: messages from the bytes, in any order, with real
// engines' tables behind calls that are carried out, lost or answered too late, engines that start anew, and
// time. Whatever they are:
//   - a call that is refused has a code, a reason, and changes nothing that the manager shows;
//   - a failure that a rank is told has a code and a reason, and can be parsed;
//   - what the manager installs passes the agent's checks and the engine's, if there is room;
//   - an explanation changes nothing, and says of each switch why it is not the root, or that it is;
//   - a rank that is told to run is told by which path, and why where it is not the network's;
//   - when all have gone and everything is answered, no context is left, neither here nor on a switch.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>

#include "base/check.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/rpc/rank_messages_testing.h"
#include "incmanager/rpc/switch_model_testing.h"
#include "incmanager/topology_testing.h"
#include "tests/fuzz/message_testing.h"

namespace epic::manager {
namespace {

constexpr size_t kMaxSteps = 400;
constexpr size_t kSessions = 6;
const fuzz::Words kWords = {"g",  "k",  "root", "leaf1", "leaf2", "h0",
                            "h1", "h3", "swp1", "swp2",  "swp3",  "nobody"};

const Topology& TheTopology() {
  static const Topology topology = testing::Tree32().Build();
  return topology;
}

GroupOptions SmallGroups() { return {.window_packets = 8}; }

class Trial : private ManagerWorld {
 public:
  Trial(const uint8_t* data, size_t size) : in_(data, size) {
    for (const NodeId node : topology_.switches)
      switches_.push_back(std::make_unique<testing::SwitchModel>(topology_.nodes[node]));
    calls_.resize(switches_.size());
    probes_.resize(switches_.size());
    // Mostly everything is up when it begins.
    if (in_.Next() < 0xe0) Settle();
  }

  void Run() {
    for (size_t steps = 0; !in_.empty() && steps < kMaxSteps; ++steps) {
      Step();
      state_.CheckInvariants();
    }
    for (size_t slot = 0; slot < kSessions; ++slot) Close(slot);
    Settle();
    Pass(200 * kSecond);
    Settle();
    const proto::ListGroupsReply left = state_.ListGroups();
    for (const proto::GroupState& group : left.groups()) EPIC_CHECK(group.state() == "reserved");
    for (const auto& model : switches_) EPIC_CHECK(model->engine().groups().empty());
    for (const auto& [node, groups] : multicasts_) EPIC_CHECK(groups == 0);
  }

 private:
  void Step() {
    const uint8_t what = in_.Next();
    const NodeId node = what / 16 % switches_.size();
    switch (what % 16) {
      case 0:
        return Close(what / 16 % kSessions);
      case 1:
        return Pass(kMillisecond << in_.Next() % 18);
      case 2:
        return Register(node, true);
      case 3:
        return Heartbeat(node);
      case 4:
        return switches_[node]->Start();
      case 5:
        return Answer(node, true, true);
      case 6:
        if (probes_[node].empty()) return Answer(node, (what & 0x10) != 0, false);
        return AnswerProbe(node, in_.Next());
      case 7:
        return Create();
      case 8:
        return Destroy();
      case 9:
        return (what & 0x80) != 0 ? Share() : Look();
      case 10:
      case 11:
        return AnswerAll();
      default:
        return Say(what / 16 % kSessions);
    }
  }

  // What the manager shows of its groups and switches.
  std::string Shown() const {
    return fuzz::StableBytes(state_.ListGroups()) + fuzz::StableBytes(state_.ListSwitches(now_));
  }

  // A call of which a refusal changes nothing.
  template <typename Call>
  auto Checked(const Call& call) {
    const std::string before = Shown();
    auto result = call();
    const Status status = result.status();
    if (status.ok()) return result;
    constexpr std::array kCodes = {StatusCode::kInvalidArgument, StatusCode::kNotFound,
                                   StatusCode::kAlreadyExists, StatusCode::kFailedPrecondition};
    EPIC_CHECK(std::ranges::find(kCodes, status.code()) != kCodes.end() && !status.message().empty());
    EPIC_CHECK(before == Shown());
    return result;
  }

  // --- agents

  void Register(NodeId node, bool edited) {
    testing::SwitchModel& model = *switches_[node];
    proto::RegisterRequest valid;
    valid.set_name(topology_.nodes[node].name);
    valid.set_agent_address("10.0.0.1:7401");
    *valid.mutable_engine() = model.DescribeAll();
    const auto request = edited ? fuzz::Received(in_, kWords, valid) : std::optional(valid);
    if (!request) return;
    const auto reply = Checked([&] { return state_.Register(now_, *request); });
    if (!reply.ok()) return;
    testing::SwitchModel& named = *switches_[*topology_.FindSwitch(request->name())];
    named.honest = request->SerializeAsString() == valid.SerializeAsString();
    model.epoch = reply->epoch();
    model.as_of = reply->time();
    if (named.honest) model.RemoveAllBut(*reply);
  }

  void Heartbeat(NodeId node) {
    testing::SwitchModel& model = *switches_[node];
    proto::HeartbeatRequest valid;
    valid.set_name(topology_.nodes[node].name);
    valid.set_epoch(model.epoch);
    valid.set_engine_up(true);
    valid.set_as_of(model.as_of);
    *valid.mutable_engine() = model.DescribeAll();
    const auto request = fuzz::Received(in_, kWords, valid);
    if (!request) return;
    const auto reply = Checked([&] { return state_.Heartbeat(now_, *request); });
    if (!reply.ok()) return;
    model.as_of = reply->time();
    if (reply->register_again()) return Register(node, false);
    testing::SwitchModel& named = *switches_[*topology_.FindSwitch(request->name())];
    if (request->SerializeAsString() != valid.SerializeAsString()) named.honest = false;
  }

  // --- ranks

  void Say(size_t slot) {
    const auto message = fuzz::Received(in_, kWords, testing::ValidMessage(topology_, in_.Next(), slot));
    if (!message) return;
    if (ByHost(slot)) return SayByHost(slot, &*message);
    if (sessions_[slot] == 0) sessions_[slot] = state_.NewSession();
    state_.OnMessage(now_, sessions_[slot], *message);
  }

  void Close(size_t slot) {
    if (sessions_[slot] != 0)
      ByHost(slot) ? SayByHost(slot, nullptr) : state_.OnClosed(now_, sessions_[slot]);
    sessions_[slot] = 0;
  }

  // Half of the ranks are on a host with a daemon.
  static bool ByHost(size_t slot) { return slot % 2 == 1; }

  void SayByHost(size_t slot, const proto::ClientMessage* message) {
    if (std::exchange(host_ends_, false)) {
      state_.OnHostClosed(now_, host_++);
      host_is_up_ = false;
    }
    proto::FromHost info;
    info.mutable_info()->set_name("h1");
    if (!std::exchange(host_is_up_, true)) state_.OnHostMessage(now_, host_, info);
    proto::FromHost valid;
    if (sessions_[slot] == 0) sessions_[slot] = ++numbers_;
    valid.mutable_said()->set_session(sessions_[slot]);
    if (message != nullptr) *valid.mutable_said()->mutable_message() = *message;
    const auto received = fuzz::Received(in_, kWords, valid);
    if (received) state_.OnHostMessage(now_, host_, *received);
  }

  // --- operators

  void Create() {
    const auto request = fuzz::Received(in_, kWords, testing::ValidCreation(in_.Next()));
    if (!request) return;
    Explain(*request);
    static_cast<void>(Checked([&] { return state_.CreateGroup(*request); }));
  }

  // Whatever the answer is, nothing is changed by it.
  void Explain(const proto::CreateGroupRequest& group) {
    proto::ExplainRequest request;
    *request.mutable_group() = group;
    const std::string before = Shown();
    const uint64_t newest = state_.Events(now_, {}).newest();
    const auto reply = Checked([&] { return state_.Explain(request); });
    EPIC_CHECK(before == Shown() && state_.Events(now_, {}).newest() == newest);
    if (!reply.ok()) return;
    proto::ExplainReply parsed;
    EPIC_CHECK(parsed.ParseFromString(reply->SerializeAsString()));
    EPIC_CHECK(reply->roots_size() == static_cast<int>(topology_.switches.size()));
    EPIC_CHECK(reply->has_failure() == (reply->path() == proto::PATH_UNSPECIFIED));
    EPIC_CHECK(reply->path_reason().empty() == (reply->path() != proto::PATH_HOSTS));
    for (const proto::RootChoice& root : reply->roots()) {
      EPIC_CHECK(root.chosen() == root.why().empty());
      EPIC_CHECK(root.chosen() == (reply->path() == proto::PATH_NETWORK && root.root() == reply->root()));
    }
  }

  void Destroy() {
    proto::DestroyGroupRequest valid;
    valid.set_name("g");
    valid.set_force(true);
    const auto request = fuzz::Received(in_, kWords, valid);
    if (!request) return;
    static_cast<void>(Checked([&] { return state_.DestroyGroup(now_, request->name(), request->force()); }));
  }

  void Share() {
    proto::SetTenantRequest valid;
    const uint8_t how = in_.Next();
    valid.mutable_tenant()->set_name("k");
    if ((how & 1) != 0) valid.mutable_tenant()->set_limit_bytes(how << 10);
    if ((how & 2) != 0) valid.mutable_tenant()->set_limit_groups(how % 4);
    if ((how & 4) != 0) valid.mutable_tenant()->set_guarantee_bytes(how << 8);
    if (const auto request = fuzz::Received(in_, kWords, valid))
      static_cast<void>(Checked([&] { return state_.SetTenant(now_, *request); }));
    proto::PolicyRequest policy;
    policy.set_policy((how & 64) != 0 ? "temporal" : (how & 8) != 0 ? "spatial" : "edt");
    if ((how & 16) != 0) static_cast<void>(Checked([&] { return state_.DefaultPolicy(now_, policy); }));
    proto::RemoveTenantRequest remove;
    remove.set_name(kWords[how % kWords.size()]);
    if ((how & 32) != 0) static_cast<void>(Checked([&] { return state_.RemoveTenant(now_, remove); }));
    EPIC_CHECK(proto::TenantsReply().ParseFromString(state_.ListTenants().SerializeAsString()));
  }

  void Look() {
    const std::string& name = kWords[in_.Next() % kWords.size()];
    const auto shown = state_.ShowGroup(name);
    EPIC_CHECK(shown.ok() ? shown->name() == name : shown.status().code() == StatusCode::kNotFound);
    EPIC_CHECK(state_.DescribeTopology().yaml() == topology_.text);
    proto::EventsRequest request;
    request.set_about("group " + name);
    const proto::EventsReply events = state_.Events(now_, request);
    proto::EventsReply parsed;
    EPIC_CHECK(parsed.ParseFromString(events.SerializeAsString()));  // or it is not UTF-8
    for (const proto::Event& event : events.events())
      EPIC_CHECK(event.about() == request.about() && event.number() <= events.newest() &&
                 event.ms_ago() >= 0);
  }

  // --- time and answers

  void Pass(Nanos time) {
    constexpr int kTicks = 4;
    for (int i = 0; i < kTicks; ++i) {
      now_ += time / kTicks;
      state_.Tick(now_);
    }
  }

  void Answer(NodeId node, bool carry_out, bool answer) {
    if (calls_[node].empty()) return;
    const auto call = std::move(calls_[node].front());
    calls_[node].pop_front();
    call(carry_out, answer);
  }

  void AnswerProbe(NodeId node, uint8_t what) {
    const auto probe = std::move(probes_[node].front());
    probes_[node].pop_front();
    probe(what);
  }

  // Answers may ask for more.
  void AnswerAll() {
    for (NodeId node = 0; node < switches_.size();) {
      const bool asks = !calls_[node].empty();
      if (asks) Answer(node, true, true);
      node = asks ? 0 : node + 1;
    }
  }

  // Every agent registers truthfully, every call is carried out.
  void Settle() {
    AnswerAll();
    for (NodeId node = 0; node < switches_.size(); ++node) {
      Register(node, false);
      EPIC_CHECK(switches_[node]->honest);
    }
    AnswerAll();
  }

  // --- ManagerWorld

  void Send(SessionId session, const proto::ServerMessage& message, bool last) override {
    EPIC_CHECK(session < state_.NewSession());
    testing::CheckTold(message, last);
  }
  void SendToHost(HostId host, const proto::ToHost& message) override {
    EPIC_CHECK(host == host_);
    if (message.has_told()) testing::CheckTold(message.told().message(), message.told().last());
  }
  void EndHost(HostId, const Status& status) override {
    EPIC_CHECK(!status.ok() && !status.message().empty());
    host_ends_ = true;
  }

  void SetAgent(NodeId, const std::string& address) override { EPIC_CHECK(!address.empty()); }

  static Status Lost() { return MakeStatus(StatusCode::kUnavailable, "the agent does not answer"); }

  void SetForwarding(NodeId node, const proto::ForwardingTable& table) override {
    multicasts_[node] = table.groups_size();
    calls_[node].push_back([this, node, table](bool carry_out, bool answer) {
      if (carry_out) EPIC_CHECK(switches_[node]->SetForwarding(table).ok());
      state_.OnForwardingSet(now_, node, answer ? absl::OkStatus() : Lost());
    });
  }

  void KeepForwarding(NodeId node, uint64_t hash) override {
    calls_[node].push_back([this, node, hash](bool, bool answer) {
      state_.OnForwardingSet(now_, node, answer ? switches_[node]->KeepForwarding(hash) : Lost());
    });
  }

  void Install(NodeId node, const proto::GroupConfig& group) override {
    calls_[node].push_back([this, node, group](bool carry_out, bool answer) {
      testing::SwitchModel& model = *switches_[node];
      InstallAnswer reply{.status = Lost()};
      if (carry_out) {
        reply = model.Install(group);
        EPIC_CHECK(reply.status.ok() || !model.honest ||
                   reply.status.code() == StatusCode::kResourceExhausted);
      }
      if (!answer) reply = {.status = Lost()};
      state_.OnInstalled(now_, node, group.group_id(), reply);
    });
  }

  void Locate(NodeId, const proto::LocateRequest&) override { EPIC_CHECK(false); }  // the file has all hosts
  void OnCalls(SessionId, const proto::CallsMade*) override {}  // nobody asks

  void Fail(NodeId node, uint64_t group_id, uint32_t generation) override {
    calls_[node].push_back([this, node, group_id, generation](bool carry_out, bool) {
      if (carry_out) switches_[node]->engine().Fail(group_id, generation);
    });
  }

  void Remove(NodeId node, uint64_t group_id, uint32_t generation) override {
    calls_[node].push_back([this, node, group_id, generation](bool carry_out, bool answer) {
      if (carry_out) switches_[node]->engine().Remove(group_id, generation);
      state_.OnRemoved(now_, node, group_id, carry_out && answer ? absl::OkStatus() : Lost());
    });
  }

  void Probe(NodeId witness, NodeId about, const proto::ProbeRequest& request) override {
    EPIC_CHECK(agent::CheckProbe(request, switches_[witness]->Describe()).ok());
    probes_[witness].push_back([this, witness, about, asked = Ipv4{request.ip()}](uint8_t what) {
      proto::ProbeReply reply;
      reply.set_asked((what & 1) != 0);
      reply.set_answered(what >> 4);
      state_.OnProbed(now_, witness, about, asked,
                      (what & 4) != 0 ? StatusOr<proto::ProbeReply>(Lost()) : reply);
    });
  }

  FuzzInput in_;
  const Topology& topology_ = TheTopology();
  Nanos now_ = kSecond;
  std::map<NodeId, int> multicasts_;  // groups in the last table that each was sent
  std::vector<std::unique_ptr<testing::SwitchModel>> switches_;
  std::vector<std::deque<std::function<void(bool carry_out, bool answer)>>> calls_;  // by switch
  std::vector<std::deque<std::function<void(uint8_t what)>>> probes_;                // by witness
  std::array<SessionId, kSessions> sessions_{};                                      // 0: none
  HostId host_ = 1;
  bool host_is_up_ = false, host_ends_ = false;
  uint64_t numbers_ = 0;  // of sessions by the host
  ManagerState state_{topology_, SmallGroups(), 42, 1, this};
};

}  // namespace
}  // namespace epic::manager

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::off);
  epic::manager::Trial(data, size).Run();
  return 0;
}
