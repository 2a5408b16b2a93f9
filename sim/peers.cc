#include "sim/peers.h"

#include <algorithm>

#include "base/check.h"

namespace epic::sim {
namespace {

constexpr auto kOfDatagrams = static_cast<int>(kDatagrams);

}  // namespace

void Peers::Connection::TakeTurn(Nanos now, roce::PacketSink& sink) {
  OwnMemory memory(&access);
  qp.Poll(now, memory, sink, /*budget=*/1);
}

void Peers::Datagrams::TakeTurn(Nanos, roce::PacketSink& sink) {
  OwnMemory memory(/*peers=*/nullptr);
  qp.Poll(memory, sink, /*budget=*/1);
}

roce::PostResult Peers::PostSend(int connection, const roce::SendWr& wr) {
  if (connection == kOfDatagrams && datagrams_) return datagrams_->qp.PostSend(wr);
  const auto found = connections_.find(connection);
  return found == connections_.end() ? roce::PostResult::kBadState : found->second->qp.PostSend(wr);
}

roce::PostResult Peers::PostRecv(int connection, const roce::RecvWr& wr) {
  if (connection == kOfDatagrams && datagrams_) return datagrams_->qp.PostRecv(wr);
  const auto found = connections_.find(connection);
  return found == connections_.end() ? roce::PostResult::kBadState : found->second->qp.PostRecv(wr);
}

void Peers::SetQkey(uint32_t qkey) {
  EPIC_CHECK(datagrams_->qp.Modify(roce::QpState::kRts, qkey) == roce::ModifyResult::kOk);
}

void Peers::WantPoll() {
  if (killed_) return;
  wants_poll_ = true;
  *place_.wake = true;
}

void Peers::Close() {
  for (const auto& [number, connection] : connections_)
    EPIC_CHECK(connection->qp.Modify({.state = roce::QpState::kErr}) == roce::ModifyResult::kOk);
  if (datagrams_) EPIC_CHECK(datagrams_->qp.Modify(roce::QpState::kErr) == roce::ModifyResult::kOk);
  WantPoll();
}

void Peers::Connect(int connection, roce::QueuePair qp) {
  EPIC_CHECK(!killed_);
  EPIC_CHECK(
      connections_.emplace(connection, std::make_unique<Connection>(place_, driver_, std::move(qp))).second);
  WantPoll();
}

void Peers::AddDatagrams(roce::UdQueuePair qp) {
  EPIC_CHECK(!killed_ && datagrams_ == nullptr);
  datagrams_ = std::make_unique<Datagrams>(place_, std::move(qp));
}

bool Peers::OnPacket(Nanos now, const roce::Packet& packet) {
  for (const auto& [number, connection] : connections_) {
    if (connection->qp.config().local_qpn != packet.bth.dest_qp) continue;
    OwnMemory memory(&driver_);
    connection->qp.OnPacket(now, packet, memory);
    CollectFrom(number, &connection->qp);
    // Its answer comes before what the driver sends because of it.
    if (connection->qp.next_deadline() <= now) place_.nic->StandInLine(*connection);
    return true;
  }
  return false;
}

void Peers::OnMulticast(const roce::Packet& packet) {
  if (datagrams_ == nullptr) return;
  OwnMemory memory(/*peers=*/nullptr);
  datagrams_->qp.OnPacket(packet, memory);
  CollectFrom(kOfDatagrams, &datagrams_->qp);
}

void Peers::Collect() {
  for (const auto& [number, connection] : connections_) CollectFrom(number, &connection->qp);
  if (datagrams_) CollectFrom(kOfDatagrams, &datagrams_->qp);
}

void Peers::HandOver(Nanos now) {
  const auto [connection, completion] = completed_.front();
  completed_.pop_front();
  busy_until_ = now + std::max(config_.completion_ns, connection == kOfDatagrams ? datagram_ns_ : 0);
  driver_.OnCompletion(now, connection, completion);
}

// Until nothing completes any more, or the process is busy: what is posted in ERR completes at once.
void Peers::RunDriver(Nanos now) {
  bool news = wants_poll_ || driver_.next_deadline() <= now;
  wants_poll_ = false;
  while (true) {
    for (; !completed_.empty() && busy_until_ <= now; news = true) HandOver(now);
    if (!std::exchange(news, false)) return;
    driver_.Poll(now, *this);
    Collect();
  }
}

void Peers::Run(Nanos now, bool stopped) {
  if (killed_) return;
  Collect();
  if (!stopped) RunDriver(now);
  for (const auto& [number, connection] : connections_) {
    if (connection->qp.next_deadline() <= now) place_.nic->StandInLine(*connection);
  }
  if (datagrams_ && datagrams_->qp.wants_poll()) place_.nic->StandInLine(*datagrams_);
}

Nanos Peers::next_deadline(Nanos now) const {
  if (killed_) return kNever;
  Nanos next = kNever;
  const auto note = [&](Nanos deadline) {
    if (deadline > now) next = std::min(next, deadline);
  };
  note(driver_.next_deadline());
  if (!completed_.empty()) note(busy_until_);
  for (const auto& [number, connection] : connections_) note(connection->qp.next_deadline());
  return next;
}

void Peers::Kill() {
  for (const auto& [number, connection] : connections_) place_.nic->Forget(*connection);
  if (datagrams_) place_.nic->Forget(*datagrams_);
  connections_.clear();
  datagrams_.reset();
  completed_.clear();
  wants_poll_ = false;
  killed_ = true;
}

}  // namespace epic::sim
