#include "sim/restarts/rank_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "incmanager/rpc/convert.h"
#include "sim/restarts/messages.h"

namespace epic::sim {
namespace {

constexpr Nanos kMostAgain = 2 * kSecond;

proto::ClientMessage MessageOf(const RankWord& word) {
  proto::ClientMessage message;
  if (const auto* end = std::get_if<manager::PeerEnd>(&word))
    *message.mutable_peer() = manager::ToProto(*end);
  if (std::holds_alternative<Leaves>(word)) message.mutable_leave()->set_drained(true);
  if (const auto* aborts = std::get_if<Aborts>(&word)) message.mutable_abort()->set_reason(aborts->reason);
  return message;
}

manager::PeerEnd PeerOf(const proto::PeerEnd& end) {
  manager::PeerEnd peer = manager::FromProto(end);
  peer.ip = Ipv4{end.ip()};
  return peer;
}

}  // namespace

void RankEnds::Complain(const std::string& what) {
  if (wrong_.empty()) wrong_ = what + "\n";
}

void RankEnds::Say(manager::SessionId rank, const RankWord& word) {
  End& end = ends_[rank];
  if (std::holds_alternative<Ends>(word)) {
    end.over = true;
    if (end.stream) streams_.Close(std::exchange(end.stream, nullptr), 0);
    return;
  }
  if (end.over) return;
  if (const auto* join = std::get_if<manager::JoinRequest>(&word)) {
    end.join = *join;
    end.again = shape_.again;
    return Connect(rank);
  }
  const proto::ClientMessage message = MessageOf(word);
  end.unsaid.OnSaid(message);
  // What is said while nobody hears it is said when somebody does.
  Write(&end, message);
}

void RankEnds::Miss(manager::SessionId rank) {
  End& end = ends_[rank];
  end.over = true;
  if (end.stream) streams_.Close(std::exchange(end.stream, nullptr), shape_.control.lease);
}

void RankEnds::OnSent(manager::SessionId rank, const manager::JoinedReply& reply) {
  End& end = ends_.at(rank);
  if (!end.reply) {
    end.reply = reply;
    end.group_id = reply.group_id;
    return ranks_.OnSent(rank, reply);
  }
  if (end.reply->group_id != reply.group_id || end.reply->generation != reply.generation)
    Complain(fmt::format("rank {} of {} is told of two groups", end.join.rank, end.join.group));
}

void RankEnds::Connect(manager::SessionId rank) {
  End& end = ends_.at(rank);
  if (end.over || end.stream) return;
  end.stream = streams_.Open(rank);
  if (!end.stream) return TryAgain(rank);
  if (!end.joined) return Write(&end, JoinMessage(end.join, NonceOf(rank)));
  end.asks_back = true;
  Write(&end, RejoinMessage(end.join, *end.joined));
  for (const proto::ClientMessage& message : end.unsaid.Again()) Write(&end, message);
}

void RankEnds::TryAgain(manager::SessionId rank) {
  End& end = ends_.at(rank);
  const Nanos now = world_.now();
  if (!end.away_since) end.away_since = now;
  if (now - *end.away_since >= kGivesUpAfter) return GiveUp(rank);
  const auto wait = static_cast<uint64_t>(end.again);
  end.again = std::min(2 * end.again, kMostAgain);
  world_.At(now + 1 + static_cast<Nanos>(wait / 2 + choices_.Below(wait)), [this, rank] { Connect(rank); });
}

void RankEnds::GiveUp(manager::SessionId rank) {
  gave_up_ = true;
  ends_.at(rank).over = true;
  ranks_.OnEvent(rank, manager::Failure{manager::ErrorCode::kManagerLost, "the manager is away", -1, ""});
}

void RankEnds::Write(End* end, const proto::ClientMessage& message) {
  if (end->stream) streams_.Write(end->stream, message);
}

void RankEnds::OnBroken(const std::shared_ptr<RankStream>& stream) {
  End& end = ends_.at(stream->rank);
  if (end.stream != stream) return;
  end.stream = nullptr;
  end.asks_back = false;
  if (!end.over) TryAgain(stream->rank);
}

void RankEnds::OnTold(const std::shared_ptr<RankStream>& stream, const proto::ServerMessage& message) {
  const manager::SessionId rank = stream->rank;
  End& end = ends_.at(rank);
  if (end.stream != stream || end.over) return;
  if (message.has_probe()) {
    proto::ClientMessage answer;
    answer.mutable_probed()->set_ip(message.probe().ip());
    answer.mutable_probed()->set_asked(true);
    answer.mutable_probed()->set_answered(1);
    return Write(&end, answer);
  }
  end.away_since.reset();
  end.again = shape_.again;
  if (message.has_rejoined()) {
    end.asks_back = false;
    ++returned_;
  }
  if (message.has_peer()) ranks_.OnEvent(rank, PeerOf(message.peer()));
  if (message.has_joined()) {
    if (message.joined().secret().empty() || !message.joined().durable())
      Complain(fmt::format("rank {} of {} may not come back", end.join.rank, end.join.group));
    if (end.joined)
      return Complain(fmt::format("rank {} of {} is told twice", end.join.rank, end.join.group));
    end.joined = message.joined();
    ranks_.OnEvent(rank, *end.reply);
  }
  if (message.has_left()) {
    JudgeEnd(end, "left");
    end.over = true;
    ranks_.OnEvent(rank, manager::LeftNote{});
  }
  if (!message.has_failure()) return;
  const manager::Failure failure = FailureOf(message.failure());
  if (end.asks_back) {
    Complain(fmt::format("rank {} of {} comes back and is not known: {}", end.join.rank, end.join.group,
                         failure.message));
  }
  JudgeEnd(end, failure.message);
  end.over = true;
  ranks_.OnEvent(rank, failure);
}

void RankEnds::JudgeEnd(const End& end, const std::string& how) {
  if (end.group_id == 0) return;
  const auto [first, is_first] = how_.try_emplace(end.group_id, how);
  if (first->second == how) return;
  Complain(fmt::format("a rank of {} was told '{}', and rank {} is told '{}'", end.join.group, first->second,
                       end.join.rank, how));
}

}  // namespace epic::sim
