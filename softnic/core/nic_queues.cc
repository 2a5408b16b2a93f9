// Completion queues and shared receive queues of an adapter.
#include <algorithm>
#include <utility>

#include "roce/transport/message.h"
#include "softnic/core/nic.h"

namespace epic::softnic {

uint32_t Nic::CreateCq(uint32_t depth, bool tells_overrun) {
  ReserveEvents();
  cqs_.try_emplace(next_id_, depth, tells_overrun);
  return next_id_++;
}

void Nic::DestroyCq(uint32_t id) {
  if (cqs_.at(id).arm != Cq::Arm::kNo) --armed_cqs_;
  cqs_.erase(id);
  events_.erase(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(std::exchange(next_event_, 0)));
  std::erase_if(events_, [id](const Event& e) {
    return e.id == id && (e.kind == Event::Kind::kCompletion || e.kind == Event::Kind::kCqOverrun);
  });
}

bool Nic::ResizeCq(uint32_t id, uint32_t depth) {
  Cq& cq = cqs_.at(id);
  if (depth < cq.works.size()) return false;
  roce::Ring<Work> larger(depth);
  for (; !cq.works.empty(); cq.works.pop_front()) larger.push_back(cq.works.front());
  cq.works = std::move(larger);
  return true;
}

size_t Nic::PollCq(uint32_t id, std::span<Work> out) {
  roce::Ring<Work>& works = cqs_.at(id).works;
  size_t count = 0;
  for (; count < out.size() && !works.empty(); works.pop_front()) out[count++] = works.front();
  return count;
}

void Nic::ArmCq(uint32_t id, bool solicited_only) {
  Cq& cq = cqs_.at(id);
  if (cq.arm == Cq::Arm::kNo) ++armed_cqs_;
  // The wider wish stands (verbs, ibv_req_notify_cq).
  if (cq.arm != Cq::Arm::kNext) cq.arm = solicited_only ? Cq::Arm::kSolicited : Cq::Arm::kNext;
}

bool Nic::DisarmCq(uint32_t id) {
  Cq& cq = cqs_.at(id);
  if (cq.arm == Cq::Arm::kNo) return false;
  cq.arm = Cq::Arm::kNo;
  --armed_cqs_;
  return true;
}

void Nic::PushWork(uint32_t id, const Work& work) {
  Cq& cq = cqs_.at(id);
  if (cq.works.full()) {
    if (!std::exchange(cq.overrun, true)) events_.push_back({Event::Kind::kCqOverrun, id});
    return;
  }
  cq.works.push_back(work);
  const roce::Completion& c = work.completion;
  const bool wakes = cq.arm == Cq::Arm::kNext ||
                     (cq.arm == Cq::Arm::kSolicited && (!c.ok() || (c.is_recv() && c.solicited)));
  if (!wakes) return;
  cq.arm = Cq::Arm::kNo;
  --armed_cqs_;
  events_.push_back({Event::Kind::kCompletion, id});
}

void Nic::ForgetWorks(Qpn qpn) {
  const auto init = qps_.find(Raw(qpn));
  for (auto& [id, cq] : cqs_) {
    if (init != qps_.end() && id != init->second.init.send_cq && id != init->second.init.recv_cq) continue;
    for (size_t left = cq.works.size(); left > 0; --left) {
      const Work work = cq.works.front();
      cq.works.pop_front();
      if (work.qpn != qpn) cq.works.push_back(work);
    }
  }
}

uint32_t Nic::CreateSrq(uint32_t depth) {
  ReserveEvents();
  srqs_.emplace(next_id_, depth);
  return next_id_++;
}

void Nic::DestroySrq(uint32_t id) { EPIC_CHECK(srqs_.erase(id) == 1); }

roce::PostResult Nic::PostSrqRecv(uint32_t id, const roce::RecvWr& wr) {
  Srq& srq = srqs_.at(id);
  if (!roce::IsWellFormed(wr)) return roce::PostResult::kInvalid;
  if (srq.receives.full()) return roce::PostResult::kFull;
  srq.receives.grow().Take(wr);
  return roce::PostResult::kOk;
}

}  // namespace epic::softnic
