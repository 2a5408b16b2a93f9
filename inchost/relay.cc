#include "inchost/relay.h"

#include <fmt/format.h>

#include <utility>

#include "base/printable.h"

namespace epic::host {
namespace {

// A rank says its join, and then nothing before that is answered.
constexpr size_t kMostWaiting = 4;
// One that comes back says again what it has said of its connections.
constexpr size_t kMostOfReturn = 4096;

}  // namespace

Relay::Relay(std::string manager, RelayWorld* world, Nanos manager_wait)
    : manager_(std::move(manager)), world_(world), manager_wait_(manager_wait) {}

void Relay::OnStream(Nanos now, const proto::HostInfo& info) {
  streaming_ = true;
  said_ = now;
  proto::FromHost message;
  *message.mutable_info() = info;
  world_->ToManager(message);
}

void Relay::OnManager(Nanos now, const proto::ToHost& message) {
  switch (message.kind_case()) {
    case proto::ToHost::kWelcome:
      connected_ = true;
      said_ = now;
      trouble_.clear();
      for (auto& [id, rank] : ranks_) {
        for (const proto::ClientMessage& said : std::exchange(rank.waiting, {})) Say(id, said);
      }
      return;
    case proto::ToHost::kTold: {
      const proto::RankTold& told = message.told();
      const auto found = ranks_.find(told.session());
      if (found == ranks_.end() || found->second.ended) return;
      found->second.ended = told.last();
      if (told.message().has_joined()) {
        found->second.joined = true;
        found->second.durable = told.message().joined().durable();
        found->second.rejoins &= !told.message().joined().secret().empty();
      }
      return world_->ToRank(told.session(), told.message(), told.last());
    }
    case proto::ToHost::kMakeServer:  // of no rank
    case proto::ToHost::kRemoveServer:
    case proto::ToHost::KIND_NOT_SET:
      return;
  }
}

void Relay::OnStreamEnd(const std::string& why, bool manager_lives) {
  const bool was_connected = std::exchange(connected_, false);
  streaming_ = false;
  trouble_ = why;
  if (!was_connected) return;
  for (auto& [id, rank] : ranks_) {
    if (!rank.known || rank.ended) continue;
    rank.known = false;
    if (rank.rejoins && (manager_lives || rank.durable)) {
      rank.ended = true;
      world_->Break(id, manager_lives && rank.joined);
      continue;
    }
    End(id, &rank, proto::ERROR_MANAGER_LOST,
        fmt::format("this host has lost the manager at {}: {}", manager_, why));
  }
}

void Relay::OnStop() {
  for (auto& [id, rank] : ranks_) {
    if (rank.ended) continue;
    if (rank.rejoins && rank.joined) {
      rank.ended = true;
      world_->Break(id, true);
    } else {
      End(id, &rank, proto::ERROR_MANAGER_LOST,
          "this host's daemon (inchost), by which the rank reaches the manager, has ended");
    }
  }
}

void Relay::OnRank(Nanos now, RankId id, const proto::ClientMessage& message) {
  const auto [found, is_new] = ranks_.try_emplace(id);
  Rank& rank = found->second;
  if (is_new) rank.since = now;
  if (rank.ended) return;
  if (is_new) {
    rank.returns = rank.joined = message.has_rejoin();
    rank.rejoins = rank.returns || message.join().rejoins();
    rank.durable = !message.rejoin().ends_with_manager();
  }
  if (is_new && !message.has_join() && !message.has_rejoin())
    return End(id, &rank, proto::ERROR_INVALID_ARGUMENT, "a session begins with a join");
  if (connected_) return Say(id, message);
  if (rank.waiting.size() == (rank.returns ? kMostOfReturn : kMostWaiting))
    return End(id, &rank, proto::ERROR_INVALID_ARGUMENT,
               "a rank says nothing more before its join is answered");
  rank.waiting.push_back(message);
}

void Relay::Say(RankId id, const proto::ClientMessage& message) {
  ranks_.at(id).known = true;
  proto::FromHost to_manager;
  proto::RankSaid& said = *to_manager.mutable_said();
  said.set_session(id);
  *said.mutable_message() = message;
  world_->ToManager(to_manager);
}

void Relay::OnRankClosed(RankId id) {
  const auto found = ranks_.find(id);
  if (found == ranks_.end()) return;
  if (found->second.known && connected_) {
    proto::FromHost message;
    message.mutable_said()->set_session(id);
    world_->ToManager(message);
  }
  ranks_.erase(found);
}

void Relay::Tick(Nanos now) {
  if (streaming_ && now - said_ >= kSignOfLife) {
    said_ = now;
    world_->ToManager({});
  }
  for (auto& [id, rank] : ranks_) {
    // Who comes back knows himself how long he waits.
    if (rank.waiting.empty() || rank.ended || rank.returns || now - rank.since < manager_wait_) continue;
    End(id, &rank, proto::ERROR_MANAGER_UNREACHABLE,
        fmt::format("inchost on this host cannot reach the manager at {} within {:g} s: {}", manager_,
                    static_cast<double>(manager_wait_) / kSecond, trouble_.empty() ? "no answer" : trouble_));
  }
}

void Relay::End(RankId id, Rank* rank, proto::ErrorCode code, const std::string& text) {
  rank->ended = true;
  rank->waiting.clear();
  proto::ServerMessage message;
  proto::Failure& failure = *message.mutable_failure();
  failure.set_code(code);
  failure.set_message(Printable(text));
  failure.set_rank(-1);
  world_->ToRank(id, message, true);
}

}  // namespace epic::host
