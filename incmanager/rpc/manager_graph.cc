// What the manager does when the network is another than before: tables, and ranks whose hosts were looked
// for.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "incmanager/graph/describe.h"
#include "incmanager/policies/group_ports.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"
#include "incmanager/text.h"

namespace epic::manager {
namespace {

// With discovery switches that run register first, and their links are found: tables of a part of the network
// would take away what they have of another manager.
constexpr Nanos kGather = 2 * kSecond;
// What changes at the same time is computed once.
constexpr Nanos kPace = 100 * kMillisecond;

}  // namespace

StatusOr<SwitchChange> ManagerState::TakeIn(Nanos now, const proto::RegisterRequest& request,
                                            const EngineReport& report, const std::string& peer) {
  if (Status others = RefusesOthers(request); !others.ok()) return others;
  const std::optional<NodeId> known = topology_.FindSwitch(request.name());
  const SwitchEntry* const entry = known ? &switches_.entry(*known) : nullptr;
  const bool lives = known && entry->state != SwitchState::kNeverSeen && now - entry->last_heard < kSilentAfter;
  // Who starts anew at the same address is alone there; another one waits until the first has been silent for long enough.
  if (lives && entry->agent_address != request.agent_address()) {
    return MakeStatus(StatusCode::kAlreadyExists,
                      fmt::format("{} has an agent at {} that is heard; {} would be a second one", request.name(),
                                  entry->agent_address, Shortened(request.agent_address())));
  }
  // Unless the first one is there all the same, as behind one --advertise.
  if (lives && request.instance() != 0 && request.instance() == entry->former_instance) {
    return MakeStatus(StatusCode::kAlreadyExists,
                      fmt::format("{} has two agents that say they are at {}; the one that has registered later is heard",
                                  request.name(), entry->agent_address));
  }
  if (graph_.discovers() && !known && report.name != request.name()) {
    return MakeStatus(StatusCode::kInvalidArgument,
                      fmt::format("name: the agent calls its switch {}, and the engine calls itself {}: with discovery both need "
                                  "one name (incagent --name, incengine --name)",
                                  Shortened(request.name()), report.name.empty() ? "nothing" : Shortened(report.name)));
  }
  if (graph_.discovers() && report.name == request.name()) {
    if (Status status = known ? absl::OkStatus() : RefusesInvented(request.name(), peer); !status.ok()) return status;
    if (Status status = graph_.Admit(report, lives); !status.ok()) return status;
    switches_.Grow();
    engines_.resize(topology_.nodes.size());
  }
  StatusOr<SwitchChange> change =
      switches_.Register(now, request.name(), request.agent_address(), report, request.instance());
  if (change.ok()) switches_.SetRegisteredBy(*topology_.FindSwitch(request.name()), peer);
  return change;
}

void ManagerState::FollowGraph(Nanos now) {
  graph_.Follow(now);
  for (const GraphEvent& event : graph_.TakeEvents())
    event.warning ? Warn("network: " + event.text) : Note("network: " + event.text);
  if (!started_) started_ = now;
  // Not before groups of a former manager have their ways, either: they would be moved.
  const bool gathers = graph_.discovers() && (now - *started_ < kGather || !unfound_.empty());
  const bool changed =
      computed_version_ != graph_.version() || (detours_ && computed_endings_ != groups_.endings());
  const bool regrouped = computed_multicasts_ != groups_.multicast_changes() && !update_.wanted().empty();
  if (changed && !gathers && now - computed_at_ >= kPace) {
    ComputeTables(now);
  } else if (regrouped && now - grouped_at_ >= kPace) {
    WantTables(now, update_.wanted());
  }
  if (known_nodes_ != topology_.nodes.size()) {
    // Until then nobody reaches who is new.
    std::vector<Forwarding> tables = update_.wanted();
    tables.resize(topology_.nodes.size());
    for (const NodeId node : topology_.switches)
      tables[node].hop_to.resize(topology_.nodes.size(), Forwarding::kNoHop);
    groups_.OnNetwork(tables);
    known_nodes_ = topology_.nodes.size();
  }
  ResumeFound(now);
  SendTables(now);
}

void ManagerState::ComputeTables(Nanos now) {
  computed_version_ = graph_.version();
  computed_endings_ = groups_.endings();
  computed_at_ = now;
  switches_.Grow();
  engines_.resize(topology_.nodes.size());
  const std::vector<Forwarding>& before = update_.wanted();
  std::vector<Forwarding> tables = ComputeForwarding(
      topology_, {.tables = before.empty() ? nullptr : &before, .ways = groups_.Ways()}, &detours_);
  for (const NodeId node : topology_.switches) {
    std::vector<std::string>& ports = tables[node].flood_ports;
    for (const std::string& port : graph_.EdgePorts(node)) {
      if (std::ranges::find(ports, port) == ports.end()) ports.push_back(port);
    }
  }
  groups_.OnNetwork(tables);
  groups_.FailMoved(now);
  known_nodes_ = topology_.nodes.size();
  WantTables(now, std::move(tables));
}

void ManagerState::WantTables(Nanos now, std::vector<Forwarding> tables) {
  grouped_at_ = now;
  computed_multicasts_ = groups_.multicast_changes();
  FloodTree(topology_, tables).SetGroupPorts(groups_.Multicasts(), &tables);
  update_.Want(std::move(tables));
}

void ManagerState::OnJoin(Nanos now, SessionId id, const JoinRequest& join) {
  if (const Failure failure = RefusesNew(join); !failure.ok()) return RefuseJoin(id, join, failure);
  if (IsSettling(now)) {
    if (const Failure failure = RefusesToHold(join); !failure.ok()) return RefuseJoin(id, join, failure);
    return held_.Add(id, join);
  }
  if (!graph_.discovers() || IsReached(join.ip)) {
    if (const auto host = topology_.FindHostByAddress(join.ip)) {
      graph_.NameHost(*host, join.host_name);
      graph_.Seek(*host);
    }
    return groups_.OnJoin(now, id, join);
  }
  if (const Failure failure = RefusesToLook(join); !failure.ok()) return RefuseJoin(id, join, failure);
  waiting_[id] = join;
  LookForHosts(now);
}

// It is heard, and there are tables that lead to where it is.
bool ManagerState::IsReached(Ipv4 address) const {
  const std::optional<NodeId> host = topology_.FindHostByAddress(address);
  if (!host) return false;
  const Hop& link = topology_.Attached(*host);
  const std::vector<Forwarding>& tables = update_.wanted();
  return link.state == LinkState::kUp && link.peer < tables.size() &&
         tables[link.peer].HopTo(*host) == link.peer_hop;
}

// One that nobody hears joins with what there is of it. Only what tables have been computed for can be
// planned.
bool ManagerState::WaitsNoLonger(Nanos now, Ipv4 address) const {
  if (IsReached(address)) return true;
  const std::optional<NodeId> host = topology_.FindHostByAddress(address);
  return search_.IsOver(now, address) && (!host || *host < update_.wanted().size());
}

void ManagerState::LookForHosts(Nanos now) {
  // Of the file's hosts those whose switch can be asked by now.
  std::set<NodeId> sought;
  for (const NodeId host : graph_.Sought()) {
    if (switches_.entry(topology_.Attached(host).peer).state == SwitchState::kUp) sought.insert(host);
  }
  const auto want = [&] {
    std::set<Ipv4> addresses;
    for (const NodeId host : sought) addresses.insert(topology_.nodes[host].address);
    for (const auto& [id, join] : waiting_) addresses.insert(join.ip);
    for (const proto::StoredGroup& group : unfound_) {
      for (const proto::StoredMember& member : group.members()) addresses.insert(Ipv4{member.join().ip()});
    }
    search_.Want(now, addresses);
  };
  want();
  std::vector<std::pair<SessionId, JoinRequest>> ready;
  for (const auto& [id, join] : waiting_) {
    if (WaitsNoLonger(now, join.ip)) ready.emplace_back(id, join);
  }
  for (const auto& [id, join] : ready) {
    waiting_.erase(id);
    if (const auto host = topology_.FindHostByAddress(join.ip)) graph_.NameHost(*host, join.host_name);
    groups_.OnJoin(now, id, join);
  }
  for (const NodeId host : sought) {
    if (search_.IsOver(now, topology_.nodes[host].address)) graph_.OnNotFound(host);
  }
  want();
  std::vector<NodeId> up;
  for (const NodeId node : topology_.switches) {
    if (switches_.entry(node).state == SwitchState::kUp) up.push_back(node);
  }
  for (const HostSearch::Order& order : search_.Due(now, up)) {
    proto::LocateRequest request;
    request.set_ip(Raw(order.ip));
    world_->Locate(order.node, request);
  }
}

void ManagerState::OnLocated(Nanos now, NodeId node, uint32_t ip, const StatusOr<proto::LocateReply>& reply) {
  now_ = now;
  // Who cannot be asked holds up nobody.
  search_.OnAnswer(now, node, Ipv4{ip}, !reply.ok() || reply->asked());
}

proto::TopologyReply ManagerState::DescribeTopology() const {
  const auto has_carriers = [this](LinkEnd end) { return graph_.HasCarriers(end); };
  std::string yaml = graph_.discovers() ? ToYaml(topology_, has_carriers) : topology_.text;
  if (!yaml.empty() && yaml.back() != '\n') yaml += '\n';
  for (const std::string& complaint : graph_.complaints()) yaml += fmt::format("# {}\n", complaint);
  proto::TopologyReply reply;
  reply.set_yaml(yaml);
  return reply;
}

}  // namespace epic::manager
