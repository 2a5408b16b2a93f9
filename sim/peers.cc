#include "sim/peers.h"

#include <algorithm>

#include "base/check.h"
#include "sim/own_memory.h"

namespace epic::sim {

void Peers::Connection::TakeTurn(Nanos now, roce::PacketSink& sink) {
  OwnMemory memory(/*open_to_peers=*/true);
  qp.Poll(now, memory, sink, /*budget=*/1);
}

roce::PostResult Peers::PostSend(int peer, const roce::SendWr& wr) {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? roce::PostResult::kBadState : found->second->qp.PostSend(wr);
}

roce::PostResult Peers::PostRecv(int peer, const roce::RecvWr& wr) {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? roce::PostResult::kBadState : found->second->qp.PostRecv(wr);
}

void Peers::WantPoll() {
  if (killed_) return;
  wants_poll_ = true;
  *place_.wake = true;
}

void Peers::Close() {
  for (const auto& [peer, connection] : connections_)
    EPIC_CHECK(connection->qp.Modify({.state = roce::QpState::kErr}) == roce::ModifyResult::kOk);
  WantPoll();
}

void Peers::Connect(int peer, roce::QueuePair qp) {
  EPIC_CHECK(!killed_);
  EPIC_CHECK(connections_.emplace(peer, std::make_unique<Connection>(place_, std::move(qp))).second);
  WantPoll();
}

bool Peers::OnPacket(Nanos now, const roce::Packet& packet) {
  for (const auto& [peer, connection] : connections_) {
    if (connection->qp.config().local_qpn != packet.bth.dest_qp) continue;
    OwnMemory memory(/*open_to_peers=*/true);
    connection->qp.OnPacket(now, packet, memory);
    // Its answer comes before what the driver sends because of it.
    if (connection->qp.next_deadline() <= now) place_.nic->StandInLine(*connection);
    return true;
  }
  return false;
}

// Until nothing completes any more: what is posted in ERR does so at once.
void Peers::RunDriver(Nanos now) {
  bool news = wants_poll_ || driver_.next_deadline() <= now;
  wants_poll_ = false;
  while (true) {
    for (const auto& [peer, connection] : connections_) {
      for (roce::Completion c; connection->qp.NextCompletion(&c); news = true)
        driver_.OnCompletion(now, peer, c);
    }
    if (!std::exchange(news, false)) return;
    driver_.Poll(now, *this);
  }
}

void Peers::Run(Nanos now, bool stopped) {
  if (killed_) return;
  if (!stopped) RunDriver(now);
  for (const auto& [peer, connection] : connections_) {
    if (connection->qp.next_deadline() <= now) place_.nic->StandInLine(*connection);
  }
}

Nanos Peers::next_deadline(Nanos now) const {
  if (killed_) return kNever;
  Nanos next = kNever;
  const auto note = [&](Nanos deadline) {
    if (deadline > now) next = std::min(next, deadline);
  };
  note(driver_.next_deadline());
  for (const auto& [peer, connection] : connections_) note(connection->qp.next_deadline());
  return next;
}

void Peers::Kill() {
  for (const auto& [peer, connection] : connections_) place_.nic->Forget(*connection);
  connections_.clear();
  wants_poll_ = false;
  killed_ = true;
}

}  // namespace epic::sim
