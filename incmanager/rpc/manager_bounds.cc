// What the manager takes of those whom it cannot trust, and how it says what it refuses.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <optional>

#include "base/address.h"
#include "base/printable.h"
#include "incmanager/rpc/convert.h"
#include "incmanager/rpc/manager_state.h"

namespace epic::manager {
namespace {

// Switches of one peer whose agents have not answered yet; true ones answer within seconds.
constexpr int kMostUnanswered = 256;
// Ranks whose hosts are looked for, together.
constexpr size_t kMostSought = 16'384;

// "size mismatch".
std::string InWords(ErrorCode code) {
  std::string words = proto::ErrorCode_Name(static_cast<proto::ErrorCode>(code)).substr(std::string("ERROR_").size());
  std::ranges::transform(words, words.begin(),
                         [](char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
  return words;
}

}  // namespace

void ManagerState::Note(const std::string& line) {
  spdlog::info("{}", Printable(line));
  events_.Add(now_, line);
}

void ManagerState::NoteEnd(const std::string& line) {
  spdlog::info("{}", Printable(line));
  events_.AddEnding(now_, line);
}

void ManagerState::Warn(const std::string& line) {
  spdlog::warn("{}", Printable(line));
  events_.Add(now_, line);
}

// Among the events and in the log, within bounds: what a peer is refused displaces nothing but that.
void ManagerState::NoteRefused(SessionId session, const Failure& failure, const std::string& line) {
  const std::string peer = PeerOf(session);
  if (refusal_rate_.IsTold(now_, peer)) {
    if (events_.AddRefusal(now_, peer, line) == 1) spdlog::info("{}", Printable(line));
    return;
  }
  const std::string many = fmt::format("{}: more joins refused than are told one by one: {}", peer, InWords(failure.code));
  const uint32_t times = events_.AddRefusal(now_, "many of " + peer, many);  // beside those that are told
  // The first, and then seldom.
  if (std::has_single_bit(times)) spdlog::warn("{} ({} of them)", Printable(many), times);
}

SessionId ManagerState::NewSession(const std::string& peer) {
  if (!peer.empty()) peers_[next_session_] = peer;
  return next_session_++;
}

std::string ManagerState::PeerOf(SessionId session) const {
  if (const auto peer = peers_.find(session); peer != peers_.end()) return peer->second;
  const std::optional<HostTable::RankSession> host = hosts_.HostOf(session);
  return host ? fmt::format("host {}", hosts_.NameOf(host->host)) : "somebody";
}

// With discovery whoever registers makes a switch. One that is there answers soon; of those that have not, one
// peer makes no more than these, so that others' find room.
Status ManagerState::RefusesInvented(const std::string& name, const std::string& peer) const {
  const auto unanswered = std::ranges::count_if(topology_.switches, [&](NodeId node) {
    const SwitchEntry& entry = switches_.entry(node);
    return !entry.has_answered && entry.state != SwitchState::kNeverSeen && entry.registered_by == peer;
  });
  if (unanswered < kMostUnanswered) return absl::OkStatus();
  return MakeStatus(StatusCode::kResourceExhausted,
                    fmt::format("{} switches have been registered from {} whose agents have not answered a call yet: {} "
                                "is to wait for them",
                                unanswered, peer.empty() ? "here" : peer, Shortened(name)));
}

Failure ManagerState::RefusesToLook(const JoinRequest& join) const {
  const auto of_it = [&join](const auto& one) { return one.second.ip == join.ip; };
  if (waiting_.size() < max_waiting_) return {};
  if (waiting_.size() < kMostSought && std::ranges::count_if(waiting_, of_it) < int64_t{max_waiting_}) return {};
  return RankFailure(ErrorCode::kNoResource, join.rank,
                     fmt::format("{} ranks wait until their hosts are found, and no more may", waiting_.size()));
}

Failure ManagerState::RefusesToHold(const JoinRequest& join) const {
  const uint32_t held = held_.CountOf(join.ip);
  if (held < max_waiting_) return {};
  return RankFailure(
      ErrorCode::kNoResource, join.rank,
      fmt::format("{} ranks at {} wait until the switches are back that a former manager had, and no more "
                  "may (incmanager serve --max-waiting)",
                  held, ToString(join.ip)));
}

// A rank of a group that runs may have to hear so once more.
Failure ManagerState::RefusesNew(const JoinRequest& join) const {
  if (store_trouble_.empty()) return {};
  if (const std::optional<Group> group = groups_.Find(join.group); group && IsInUse(group->phase)) return {};
  return RankFailure(ErrorCode::kNoResource, join.rank, NothingNew(join.group));
}

void ManagerState::RefuseJoin(SessionId id, const JoinRequest& join, const Failure& failure) {
  NoteRefused(id, failure,
              fmt::format("group {}: rank {} of {} refused: {}", join.group, join.rank, ToString(join.ip),
                          failure.message));
  Refuse(id, failure);
}

}  // namespace epic::manager
