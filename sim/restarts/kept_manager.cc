// What goes between a manager, ranks and switches, and what of it cannot be right.
#include "sim/restarts/kept_manager.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "incmanager/rpc/kept.h"
#include "proto/store.pb.h"
#include "sim/shared/translate.h"
#include "sim/trial.h"

namespace epic::sim {
namespace {

// As its operator's file states it.
manager::Topology StatedTopology(World& world, const WorldConfig& config) {
  manager::Topology topology = TopologyOf(world, config);
  for (manager::Node& node : topology.nodes) {
    node.line = 1;
    for (manager::Hop& hop : node.hops) hop.line = 1;
  }
  return topology;
}

}  // namespace

KeptManager::KeptManager(World& world, const SharedShape& shape, Choices& choices, RankSessions& ranks)
    : world_(world),
      shape_(shape),
      choices_(choices),
      topology_(StatedTopology(world, shape.config)),
      contexts_(world, shape.control.states_arena),
      ends_(world, shape, choices, *this, ranks),
      agents_(world, shape, topology_, choices, contexts_, *this) {
  spdlog::set_level(spdlog::level::off);
  Start();
  agents_.RegisterAll();
  Keep(state_->TakeUnkept(At()));  // that these are its switches
}

void KeptManager::Complain(const std::string& what) {
  if (wrong_.empty()) wrong_ = what + "\n";
}

const std::string& KeptManager::wrong() const {
  if (!wrong_.empty()) return wrong_;
  return ends_.wrong().empty() ? contexts_.wrong() : ends_.wrong();
}

void KeptManager::CrashEngine(int s, Nanos until) {
  const auto node = static_cast<manager::NodeId>(s);
  crashed_.insert(topology_.nodes[node].name);
  agents_.CrashEngine(node, until);
}

bool KeptManager::Explains(const manager::Failure& failure) const {
  if (failure.code == manager::ErrorCode::kSwitchLost) return crashed_.contains(failure.switch_name);
  return ends_.has_given_up() && failure.code == manager::ErrorCode::kManagerLost;
}

Nanos KeptManager::KnownBy() const {
  return world_.now() + shape_.control.lease + 2 * (shape_.control.message + shape_.commit) + 1;
}

// --- ranks

std::shared_ptr<RankStream> KeptManager::Open(manager::SessionId rank) {
  if (!state_) return nullptr;
  auto stream = std::make_shared<RankStream>();
  stream->rank = rank;
  stream->life = life_;
  streams_.push_back(stream);
  return stream;
}

void KeptManager::Write(const std::shared_ptr<RankStream>& stream, const proto::ClientMessage& message) {
  stream->up = std::max(stream->up, Soon());
  world_.At(stream->up, [this, stream, message] {
    Turn(stream->life, [&](manager::ManagerState& state) {
      if (stream->closed) return;
      if (stream->session == 0) {
        stream->session = state.NewSession();
        sessions_[stream->session] = stream;
      }
      state.OnMessage(world_.now(), stream->session, message);
    });
  });
}

void KeptManager::Close(const std::shared_ptr<RankStream>& stream, Nanos after) {
  stream->up = std::max(stream->up, Soon() + (after > 0 ? Within(after) : 0));
  world_.At(stream->up, [this, stream] {
    Turn(stream->life, [&](manager::ManagerState& state) {
      stream->closed = true;
      std::erase(streams_, stream);
      if (sessions_.erase(stream->session) != 0) state.OnClosed(world_.now(), stream->session);
    });
  });
}

void KeptManager::Send(manager::SessionId session, const proto::ServerMessage& message, bool) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  std::optional<manager::JoinedReply> reply;
  if (message.has_joined()) {
    const manager::Group* const group = state_->groups().FindRunning(message.joined().group_id());
    for (const auto& [rank, member] : group->members) {
      if (member.session == session) reply = group->plan.replies[rank];
    }
  }
  effects_.emplace_back([this, stream = found->second, message, reply] {
    if (reply) ends_.OnSent(stream->rank, *reply);
    if (ends_.IsGone(stream->rank)) return;
    JudgeTold(stream->rank, message);
    ToRank(stream, message);
  });
}

void KeptManager::SendAtOnce(manager::SessionId session, const proto::ServerMessage& message, bool) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) ToRank(found->second, message);
}

void KeptManager::ToRank(const std::shared_ptr<RankStream>& stream, const proto::ServerMessage& message) {
  stream->down = std::max(stream->down, Soon());
  world_.At(stream->down, [this, stream, message] {
    if (world_.now() < stream->cut) ends_.OnTold(stream, message);
  });
}

void KeptManager::JudgeTold(manager::SessionId rank, const proto::ServerMessage& message) {
  const uint64_t id = ends_.GroupOf(rank);
  if (id == 0) return;
  const std::string& name = ends_.NameOf(rank);
  const bool runs = rows_.contains(manager::GroupKey(id));
  if (message.has_joined() && !runs) Complain(fmt::format("group {} is told Joined, and is not kept", name));
  if (!message.has_failure() && !message.has_left()) return;
  proto::StoredEnd end;
  const auto ended = rows_.find({manager::RowKind::kEnded, name});
  const bool has_end = ended != rows_.end() && end.ParseFromString(ended->second) && end.id() == id;
  if (runs || !has_end) Complain(fmt::format("group {} is told its end, and that is not kept", name));
}

// --- switches

void KeptManager::ToSwitch(manager::NodeId node, std::function<Answer(const Status& refused)> call) {
  effects_.emplace_back([this, node, call = std::move(call)] {
    agents_.OnCall(node, epoch_, [this, call, life = life_](const Status& refused) {
      const Answer answer = call(refused);
      if (!answer) return;
      world_.At(Soon(), [this, answer, life] {
        Turn(life, [&](manager::ManagerState& state) { answer(state, world_.now()); });
      });
    });
  });
}

void KeptManager::SetForwarding(manager::NodeId node, const proto::ForwardingTable&) {
  ToSwitch(node, [node](const Status& refused) {
    return [node, refused](manager::ManagerState& state, Nanos now) {
      state.OnForwardingSet(now, node, refused);
    };
  });
}

// No id comes twice, also of another life of the manager.
bool KeptManager::HasIdBefore(const proto::GroupConfig& group) {
  const std::pair<std::string, uint64_t> whose{group.name(), life_};
  return named_.try_emplace(group.group_id(), whose).first->second != whose;
}

void KeptManager::Install(manager::NodeId node, const proto::GroupConfig& config) {
  const std::optional<manager::Group> group = state_->groups().Find(config.name());
  const auto context = std::ranges::find(group->plan.contexts, node, &manager::ContextPlan::node);
  if (HasIdBefore(config)) Complain(fmt::format("group {} has the id of another one", config.name()));
  ToSwitch(node, [this, node, plan = *context](const Status& refused) {
    const manager::InstallAnswer answer =
        refused.ok() ? contexts_.Install(node, plan) : manager::InstallAnswer{.status = refused};
    return [node, id = plan.group_id, answer](manager::ManagerState& state, Nanos now) {
      state.OnInstalled(now, node, id, answer);
    };
  });
}

void KeptManager::Fail(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  ToSwitch(node, [this, node, group_id, generation](const Status& refused) {
    if (refused.ok()) world_.engine(static_cast<int>(node)).Fail(group_id, generation);
    return Answer();
  });
}

void KeptManager::Remove(manager::NodeId node, uint64_t group_id, uint32_t generation) {
  ToSwitch(node, [this, node, group_id, generation](const Status& refused) {
    if (refused.ok()) contexts_.Remove(node, group_id, generation);
    return [node, group_id, refused](manager::ManagerState& state, Nanos now) {
      state.OnRemoved(now, node, group_id, refused);
    };
  });
}

void KeptManager::Probe(manager::NodeId witness, manager::NodeId about, const proto::ProbeRequest&) {
  const bool is_up =
      about >= topology_.switches.size() || world_.now() >= world_.switch_up_at(static_cast<int>(about));
  world_.At(Soon(), [this, witness, about, is_up, life = life_] {
    Turn(life, [&](manager::ManagerState& state) {
      proto::ProbeReply reply;
      reply.set_asked(true);
      reply.set_answered(is_up ? 1 : 0);
      state.OnProbed(world_.now(), witness, about, topology_.nodes[about].address, reply);
    });
  });
}

// --- at the end

std::string KeptManager::Leftovers() const {
  if (!state_ || restarts_ < shape_.restarts.size()) return "the manager is to end once more\n";
  if (!held_.empty() || !agents_.AreQuiet()) return "not all that the manager asks for has been done\n";
  std::string out = contexts_.Leftovers(state_->groups().qpns());
  for (const std::string& name : state_->groups().Names()) {
    const auto group = state_->groups().Find(name);
    if (group->phase != manager::GroupPhase::kReserved)
      out += fmt::format("group {} is {}\n", name, manager::Name(group->phase));
  }
  for (const auto& [row, value] : rows_) {
    if (row.kind == manager::RowKind::kGroup) out += fmt::format("the store still has group {}\n", row.key);
  }
  if (!(state_->groups().load() == manager::Load())) out += "the load is not what it was at the beginning\n";
  return out;
}

void KeptManager::AddTo(Counts* counts) const {
  counts->restarts += static_cast<int64_t>(restarts_);
  counts->returned += ends_.returned();
}

}  // namespace epic::sim
