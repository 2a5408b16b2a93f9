// What ranks are asked of the calls that they have made, and what they answer.
#include <chrono>
#include <utility>
#include <vector>

#include "incmanager/rpc/manager_core.h"
#include "incmanager/rpc/manager_state.h"

namespace epic::manager {
namespace {

// Who answers does so in milliseconds; a process that is stopped never does.
constexpr auto kRankPatience = std::chrono::seconds(2);

}  // namespace

std::map<uint32_t, SessionId> ManagerState::WhoTellsCalls(uint64_t group_id) const {
  std::map<uint32_t, SessionId> sessions;
  const Group* const group = groups_.FindRunning(group_id);
  if (group == nullptr) return sessions;
  for (const auto& [rank, member] : group->members) {
    if (member.open && member.join.tells_calls) sessions[rank] = member.session;
  }
  return sessions;
}

void ManagerState::AskCalls(SessionId session) {
  proto::ServerMessage message;
  message.mutable_calls();
  TellAtOnce(session, message, false);
}

std::map<uint32_t, proto::CallsMade> ManagerCore::CallsOf(const proto::GroupState& group,
                                                          const std::set<uint32_t>& ranks, bool recent,
                                                          std::chrono::system_clock::time_point deadline,
                                                          std::set<uint32_t>* asked) {
  std::map<uint32_t, SessionId> sessions;
  {
    const MutexLock lock(mutex_);
    sessions = state_.WhoTellsCalls(group.group_id());
  }
  std::vector<uint32_t> whom;
  for (const auto& [rank, session] : sessions) {
    if (ranks.empty() || ranks.contains(rank)) whom.push_back(rank);
  }
  asked->insert(whom.begin(), whom.end());
  const auto ask = [&](uint32_t rank, SharedCalls::Answer answer) {
    const MutexLock lock(mutex_);
    const SessionId session = sessions.at(rank);
    if (!state_.groups().HasSession(session)) return answer(MakeStatus(StatusCode::kNotFound, "it has left"));
    asked_calls_[session] = std::move(answer);
    state_.AskCalls(session);
  };
  const auto patience = PatienceOf(deadline - std::chrono::system_clock::now(), kRankPatience);
  return calls_.Of(group.group_id(), whom, recent, ask, std::chrono::steady_clock::now() + patience);
}

void ManagerCore::OnCalls(SessionId session, const proto::CallsMade* calls) {
  const auto found = asked_calls_.find(session);
  if (found == asked_calls_.end()) return;
  const SharedCalls::Answer answer = std::move(found->second);
  asked_calls_.erase(found);
  if (calls != nullptr) return answer(*calls);
  answer(MakeStatus(StatusCode::kUnavailable, "its session has ended"));
}

}  // namespace epic::manager
