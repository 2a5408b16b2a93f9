#include "softnic/core/nic.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <utility>

namespace epic::softnic {

namespace {

// Packets under way of all queue pairs together, about: the receiver has to take them in before the first
// one's timer is due, and from a ring of 1024 places (port/ethernet_port.cc).
constexpr int kWindow = 512, kMinWindow = 8;

}  // namespace

using roce::Completion;
using roce::ModifyResult;
using roce::Packet;
using roce::PostResult;
using roce::QpState;
using roce::QueuePair;
using roce::UcQueuePair;
using roce::UdQueuePair;

// The memory that a queue pair may touch, and its shared receive queue.
class Nic::QpMemory final : public roce::Memory {
 public:
  QpMemory(Nic* nic, const Qp& qp) : nic_(nic), init_(qp.init) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const auto bytes = nic_->memory_.Map(init_.pd, access, key, address, length);
    return bytes ? bytes : nic_->memory_.MapWindow(init_.pd, init_.qpn, access, key, address, length);
  }
  bool Bind(const roce::WindowBind& bind) override { return nic_->memory_.Bind(init_.pd, init_.qpn, bind); }
  bool Invalidate(uint32_t rkey) override { return nic_->memory_.Invalidate(init_.pd, init_.qpn, rkey); }
  std::optional<roce::RecvWr> TakeSharedReceive() override {
    Srq& srq = nic_->srqs_.at(*init_.srq);
    if (srq.receives.empty()) return std::nullopt;
    roce::RecvWr wr = std::move(srq.receives.front());
    srq.receives.pop_front();
    if (srq.receives.size() < srq.limit) {
      srq.limit = 0;
      nic_->events_.push_back({Event::Kind::kSrqLimitReached, *init_.srq});
    }
    return wr;
  }

 private:
  Nic* nic_;
  const QpInit& init_;
};

// Keeps back what is for a queue pair of the same adapter. It is delivered later, never from within a call
// into the sender.
class Nic::LoopSink final : public roce::PacketSink {
 public:
  LoopSink(Nic* nic, roce::PacketSink& out) : nic_(nic), out_(out) {}
  void Send(const Packet& packet) override {
    if (!nic_->IsOwn(packet.dst_ip) || !nic_->qps_.contains(Raw(packet.bth.dest_qp)))
      return out_.Send(packet);
    ++nic_->counters_.packets_looped;
    nic_->loop_.push_back({packet, {packet.payload.begin(), packet.payload.end()}});
  }

 private:
  Nic* nic_;
  roce::PacketSink& out_;
};

void Nic::CreateQp(const QpInit& init) {
  auto make = [&]() -> std::variant<QueuePair, UcQueuePair, UdQueuePair> {
    if (init.type == QpType::kUc) {
      return UcQueuePair({.local_ip = ip_,
                          .local_qpn = init.qpn,
                          .send_depth = init.send_depth,
                          .recv_depth = init.recv_depth,
                          .max_inline_bytes = init.max_inline_bytes,
                          .shared_receives = init.srq.has_value()});
    }
    if (init.type == QpType::kUd) {
      return UdQueuePair({.local_ip = ip_,
                          .any_address = true,
                          .local_qpn = init.qpn,
                          .mtu = mtu_,
                          .send_depth = init.send_depth,
                          .recv_depth = init.recv_depth,
                          .max_inline_bytes = init.max_inline_bytes,
                          .shared_receives = init.srq.has_value()});
    }
    return QueuePair({.local_ip = ip_,
                      .local_qpn = init.qpn,
                      .send_depth = init.send_depth,
                      .recv_depth = init.recv_depth,
                      .max_inline_bytes = init.max_inline_bytes,
                      .max_rd_atomic = kMaxRdAtomic,
                      .shared_receives = init.srq.has_value(),
                      .policy = policy_});
  };
  EPIC_CHECK(cqs_.contains(init.send_cq) && cqs_.contains(init.recv_cq));
  // With room for each, so that what was posted is never left lying for want of memory.
  for (std::vector<uint32_t>* list : {&dirty_, &running_}) {
    if (list->capacity() <= qps_.size()) list->reserve(2 * qps_.size() + 1);
  }
  ReserveEvents();
  EPIC_CHECK(qps_.try_emplace(Raw(init.qpn), Qp{.init = init, .qp = make()}).second);
}

void Nic::DestroyQp(Qpn qpn) {
  CountBusy(qps_.at(Raw(qpn)), false);
  ForgetReads(Raw(qpn), qps_.at(Raw(qpn)));
  EPIC_CHECK(qps_.erase(Raw(qpn)) == 1);
  memory_.ForgetQueuePair(qpn);
  std::erase(dirty_, Raw(qpn));
  std::erase(running_, Raw(qpn));
  ForgetWorks(qpn);
}

template <typename Kind>
ModifyResult Nic::ModifyConnected(uint32_t qpn, const roce::QpChange& change) {
  Qp& qp = qps_.at(qpn);
  const QpState from = state(Qpn{qpn});
  const ModifyResult result = std::get<Kind>(qp.qp).Modify(change);
  if (result == ModifyResult::kOk && change.state) Entered(qpn, qp, from, *change.state);
  return result;
}

void Nic::Entered(uint32_t qpn, Qp& qp, QpState from, QpState to) {
  // Where it was before has been told. An error that the consumer asked for is no news, but the end of
  // receiving is.
  if (from != to) qp.told_end = to == QpState::kErr && !qp.init.srq;
  if (to == QpState::kReset) {
    ForgetWorks(Qpn{qpn});
    ForgetReads(qpn, qp);
  }
  TakeCompletions(qpn, qp);
  MarkDirty(qpn, qp);
}

ModifyResult Nic::ModifyRc(Qpn qpn, const roce::QpChange& change) {
  return ModifyConnected<QueuePair>(Raw(qpn), change);
}

ModifyResult Nic::ModifyUc(Qpn qpn, const roce::QpChange& change) {
  return ModifyConnected<UcQueuePair>(Raw(qpn), change);
}

ModifyResult Nic::ModifyUd(Qpn qpn, QpState to, std::optional<uint32_t> qkey, std::optional<Psn> sq_psn) {
  Qp& qp = qps_.at(Raw(qpn));
  const QpState from = state(qpn);
  const ModifyResult result = std::get<UdQueuePair>(qp.qp).Modify(to, qkey, sq_psn);
  if (result == ModifyResult::kOk) Entered(Raw(qpn), qp, from, to);
  return result;
}

QpState Nic::state(Qpn qpn) const {
  return std::visit([](const auto& q) { return q.state(); }, qps_.at(Raw(qpn)).qp);
}

bool Nic::sq_drained(Qpn qpn) const {
  const auto& qp = qps_.at(Raw(qpn)).qp;
  if (const auto* uc = std::get_if<UcQueuePair>(&qp)) return uc->sq_drained();
  if (const auto* ud = std::get_if<UdQueuePair>(&qp)) return ud->state() == QpState::kSqd;
  return std::get<QueuePair>(qp).sq_drained();
}

void Nic::ShareAcks(Qpn qpn, int asked, Nanos delay) {
  Qp& qp = qps_.at(Raw(qpn));
  std::get<QueuePair>(qp.qp).ShareAcks(asked, delay);
  MarkDirty(Raw(qpn), qp);
}

bool Nic::AttachMulticast(Qpn qpn, Ip group) {
  auto* ud = std::get_if<UdQueuePair>(&qps_.at(Raw(qpn)).qp);
  return ud != nullptr && ud->Attach(group);
}

bool Nic::DetachMulticast(Qpn qpn, Ip group) {
  auto* ud = std::get_if<UdQueuePair>(&qps_.at(Raw(qpn)).qp);
  return ud != nullptr && ud->Detach(group);
}

PostResult Nic::PostSend(Qpn qpn, const roce::SendWr& wr) {
  Qp& qp = qps_.at(Raw(qpn));
  const PostResult result = std::visit([&](auto& q) { return q.PostSend(wr); }, qp.qp);
  if (result == PostResult::kOk) MarkDirty(Raw(qpn), qp);
  return result;
}

PostResult Nic::PostSends(Qpn qpn, std::span<const roce::SendWr> wrs) {
  if (wrs.empty()) return PostResult::kOk;
  Qp& qp = qps_.at(Raw(qpn));
  return std::visit(
      [&](auto& q) {
        // A single one that cannot be posted leaves nothing behind by itself.
        for (size_t i = 0; i < wrs.size() && wrs.size() > 1; ++i) {
          if (const PostResult result = q.CheckSend(wrs[i], i); result != PostResult::kOk) return result;
        }
        for (const roce::SendWr& wr : wrs) {
          if (const PostResult result = q.PostSend(wr); result != PostResult::kOk) return result;
        }
        MarkDirty(Raw(qpn), qp);
        return PostResult::kOk;
      },
      qp.qp);
}

PostResult Nic::PostRecv(Qpn qpn, const roce::RecvWr& wr) {
  Qp& qp = qps_.at(Raw(qpn));
  const PostResult result = std::visit([&](auto& q) { return q.PostRecv(wr); }, qp.qp);
  // In ERR it is flushed at once.
  if (result == PostResult::kOk && state(qpn) == QpState::kErr) TakeCompletions(Raw(qpn), qp);
  return result;
}

bool Nic::IsOwn(Ip ip) const { return ip == ip_ || std::ranges::find(more_ips_, ip) != more_ips_.end(); }

void Nic::MarkDirty(uint32_t qpn, Qp& qp) {
  if (std::exchange(qp.dirty, true)) return;
  dirty_.push_back(qpn);
}

bool Nic::OnPacket(Nanos now, const Packet& packet) {
  ++counters_.packets_received;
  now_ = now;
  if (packet.bth.dest_qp == roce::kMulticastQpn) {
    for (auto& [qpn, qp] : qps_) {
      if (qp.init.type == QpType::kUd) Deliver(now, qpn, qp, packet);
    }
    return true;
  }
  const auto found = qps_.find(Raw(packet.bth.dest_qp));
  if (found == qps_.end() || !IsOwn(packet.dst_ip)) {
    ++counters_.no_queue_pair;
    return found == qps_.end();
  }
  Deliver(now, found->first, found->second, packet);
  return true;
}

void Nic::Deliver(Nanos now, uint32_t qpn, Qp& qp, const Packet& packet) {
  QpMemory memory(this, qp);
  if (auto* rc = std::get_if<QueuePair>(&qp.qp)) {
    rc->OnPacket(now, packet, memory);
    MarkDirty(qpn, qp);
  } else if (auto* uc = std::get_if<UcQueuePair>(&qp.qp)) {
    uc->OnPacket(packet, memory);
  } else {
    std::get<UdQueuePair>(qp.qp).OnPacket(packet, memory);
  }
  TakeCompletions(qpn, qp);
}

void Nic::Run(Nanos now, roce::PacketSink& out) {
  now_ = now;
  if (now >= read_tick_at_) OnReadTick();
  LoopSink sink(this, out);
  while (const std::optional<uint64_t> due = timers_.PopDue(now)) {
    const auto found = qps_.find(static_cast<uint32_t>(*due));
    if (found == qps_.end()) continue;
    found->second.timer_at = kNever;
    if (auto* rc = std::get_if<QueuePair>(&found->second.qp)) rc->NoteWaited(waited_);
    MarkDirty(found->first, found->second);
  }
  // What goes round inside is bounded as what comes from outside is: the rest waits for the next call.
  const size_t looped = loop_.size();
  for (size_t i = 0; i < looped; ++i) {
    Looped one = std::move(loop_.front());
    loop_.pop_front();
    one.head.payload = one.payload;
    OnPacket(now, one.head);
  }
  // If the last call found no memory, its rest is first.
  if (running_.empty()) running_.swap(dirty_);
  auto next = running_.begin();
  const absl::Cleanup keep_rest = [&] {
    // Who found no memory is run again, if it is not in line anyway.
    if (next != running_.end() && std::exchange(qps_.at(*next).dirty, true)) ++next;
    running_.erase(running_.begin(), next);
  };
  for (; next != running_.end(); ++next) RunQp(now, *next, qps_.at(*next), sink);
}

void Nic::RunQp(Nanos now, uint32_t qpn, Qp& qp, roce::PacketSink& sink) {
  qp.dirty = false;
  QpMemory memory(this, qp);
  Nanos deadline = kNever;
  if (auto* rc = std::get_if<QueuePair>(&qp.qp)) {
    rc->LimitOutstanding(std::max(kMinWindow, kWindow / (busy_ + 1)));
    LimitReads(qpn, qp, *rc);
    rc->Poll(now, memory, sink);
    CountReads(qpn, qp, *rc);
    CountBusy(qp, rc->awaits_acknowledgement());
    deadline = rc->next_deadline();
  } else {
    const auto send = [&](auto& unreliable) {
      unreliable.Poll(memory, sink);
      if (unreliable.wants_poll()) deadline = 0;
    };
    auto* uc = std::get_if<UcQueuePair>(&qp.qp);
    uc != nullptr ? send(*uc) : send(std::get<UdQueuePair>(qp.qp));
  }
  TakeCompletions(qpn, qp);
  if (deadline <= now) return MarkDirty(qpn, qp);
  // A timer that fires too early costs one look; moving it with every packet would cost more.
  if (deadline >= qp.timer_at) return;
  timers_.Set(qpn, deadline);
  qp.timer_at = deadline;
}

void Nic::CountBusy(Qp& qp, bool busy) {
  if (std::exchange(qp.busy, busy) != busy) busy_ += busy ? 1 : -1;
}

void Nic::TakeCompletions(uint32_t qpn, Qp& qp) {
  Completion c;
  while (std::visit([&](auto& q) { return q.NextCompletion(&c); }, qp.qp))
    PushWork(c.is_recv() ? qp.init.recv_cq : qp.init.send_cq,
             {c, Qpn{qpn}, qp.init.type == QpType::kUd, now_});
  TellEnd(qpn, qp);
}

void Nic::TellEnd(uint32_t qpn, Qp& qp) {
  if (qp.told_end) return;
  const auto* rc = std::get_if<QueuePair>(&qp.qp);
  const QpState reached = std::visit([](const auto& q) { return q.state(); }, qp.qp);
  if (reached == QpState::kSqd && sq_drained(Qpn{qpn})) {
    qp.told_end = true;
    events_.push_back({Event::Kind::kSqDrained, qpn});
  }
  if (reached != QpState::kErr) return;
  qp.told_end = true;
  if (const uint8_t nak = rc != nullptr ? rc->refused_with() : 0; nak != 0) {
    events_.push_back({nak == roce::kSyndromeNakRemoteAccess     ? Event::Kind::kQpAccessError
                       : nak == roce::kSyndromeNakInvalidRequest ? Event::Kind::kQpRequestError
                                                                 : Event::Kind::kQpFatal,
                       qpn});
  }
  if (qp.init.srq) events_.push_back({Event::Kind::kLastWqeReached, qpn});
}

// Before one more of what raises them.
void Nic::ReserveEvents() {
  const size_t enough = 4 * (cqs_.size() + srqs_.size() + qps_.size() + 1);
  if (events_.capacity() < enough) events_.reserve(2 * enough);
}

void Nic::TakeEvent() {
  if (++next_event_ < events_.size()) return;
  events_.clear();
  next_event_ = 0;
}

bool Nic::NextEvent(Event* out) {
  const Event* const first = FirstEvent();
  if (first == nullptr) return false;
  *out = *first;
  TakeEvent();
  return true;
}

}  // namespace epic::softnic
