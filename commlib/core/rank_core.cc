#include "commlib/core/rank_core.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/flow.h"

namespace epic {

RankCore::RankCore(const CoreConfig& config) : config_(config) {
  EPIC_CHECK(config.path_mtu > 0 && config.message_packets > 0 && config.window_messages > 0);
}

OpId RankCore::Post(const ControlHeader& header) {
  EPIC_CHECK(header.collective == Collective::kAllReduce || header.collective == Collective::kBarrier);
  const OpId id = next_op();
  Op op;
  op.header = header;
  op.header.invocation = static_cast<uint64_t>(id);
  op.first_message = next_message_;
  op.first_index = next_index_;
  op.packets = LayoutOf(header, config_.path_mtu).packets();
  const int64_t per_message = config_.message_packets;
  op.messages = 1 + (op.packets + per_message - 1) / per_message;
  next_message_ += op.messages;
  next_index_ += 1 + op.packets;
  ops_.push_back(op);
  return id;
}

// A message can be posted when its call exists and is among the first kMaxOpenInvocations that have not
// completed.
bool RankCore::HasNext(const Cursor& cursor) const {
  return cursor.op < next_op() && cursor.op < first_op_ + kMaxOpenInvocations;
}

void RankCore::Advance(Cursor* cursor) {
  const Op& op = OpAt(cursor->op);
  ++cursor->message;
  if (cursor->message == op.first_message + op.messages) ++cursor->op;
}

Index RankCore::EndIndex(const Op& op, int64_t message) const {
  const int64_t data_messages = message - op.first_message;  // up to this one
  return op.first_index + 1 + std::min(data_messages * config_.message_packets, op.packets);
}

uint32_t RankCore::MessageBytes(const Op& op, int64_t message) const {
  if (message == op.first_message) return kControlBytes;
  const uint64_t per_message = static_cast<uint64_t>(config_.message_packets) * config_.path_mtu;
  const uint64_t offset = static_cast<uint64_t>(message - op.first_message - 1) * per_message;
  return static_cast<uint32_t>(
      std::min(per_message, op.header.count * ElementBytes(op.header.type) - offset));
}

WorkRequest RankCore::MakeRequest(const Cursor& cursor, bool is_recv) const {
  const Op& op = OpAt(cursor.op);
  WorkRequest request;
  request.is_recv = is_recv;
  request.is_control = cursor.message == op.first_message;
  request.wr_id = static_cast<uint64_t>(cursor.message);
  request.op = cursor.op;
  request.length = MessageBytes(op, cursor.message);
  if (request.is_control) {
    request.imm = static_cast<uint32_t>(op.header.invocation);
    request.header = op.header;
  } else {
    request.offset = static_cast<uint64_t>(cursor.message - op.first_message - 1) * config_.message_packets *
                     config_.path_mtu;
  }
  return request;
}

// The window rule: a message whose last packet has index x waits until own sends and own receives are
// complete up to x - MW. Results alone would not do: they can arrive while all reflected acknowledgements are
// lost.
bool RankCore::MaySend() const {
  if (!HasNext(send_posted_) || send_posted_.message >= recv_posted_.message) return false;
  const Index last = EndIndex(OpAt(send_posted_.op), send_posted_.message) - 1;
  return last - window_packets() < std::min(send_end_, recv_end_);
}

// Receives are posted two windows ahead: one for what may be sent now, one so that the queue pair never waits
// for us.
bool RankCore::MayReceive() const {
  if (!HasNext(recv_posted_)) return false;
  return EndIndex(OpAt(recv_posted_.op), recv_posted_.message) <= recv_end_ + 2 * window_packets();
}

bool RankCore::NextWorkRequest(WorkRequest* request) {
  if (failed()) return false;
  if (MayReceive()) {
    *request = MakeRequest(recv_posted_, true);
    Advance(&recv_posted_);
    return true;
  }
  if (!MaySend()) return false;
  *request = MakeRequest(send_posted_, false);
  Advance(&send_posted_);
  return true;
}

void RankCore::OnSendComplete(uint64_t wr_id) {
  if (failed()) return;
  // A reliable connection completes in the order of posting; anything else is a broken queue pair.
  EPIC_CHECK(static_cast<int64_t>(wr_id) == send_done_.message && send_done_.message < send_posted_.message);
  send_end_ = EndIndex(OpAt(send_done_.op), send_done_.message);
  Advance(&send_done_);
  RetireOps();
}

void RankCore::OnRecvComplete(uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm,
                              std::span<const uint8_t> control) {
  if (failed()) return;
  EPIC_CHECK(static_cast<int64_t>(wr_id) == recv_done_.message && recv_done_.message < recv_posted_.message);
  const Op& op = OpAt(recv_done_.op);
  if (recv_done_.message == op.first_message) {
    CheckReply(op, bytes, imm, control);
  } else if (bytes != MessageBytes(op, recv_done_.message) || imm.has_value() ||
             recv_done_.message >= send_posted_.message) {
    Fail(Outcome::kProtocol);  // also a result that contains nothing of ours
  }
  if (failed()) return;
  recv_end_ = EndIndex(op, recv_done_.message);
  Advance(&recv_done_);
  RetireOps();
}

void RankCore::CheckReply(const Op& op, uint32_t bytes, std::optional<uint32_t> imm,
                          std::span<const uint8_t> control) {
  const std::optional<ControlHeader> reply =
      bytes == kControlBytes ? DecodeControl(control.first(std::min<size_t>(control.size(), bytes)))
                             : std::nullopt;
  if (!reply || imm != static_cast<uint32_t>(op.header.invocation) ||
      recv_done_.message >= send_posted_.message) {
    return Fail(Outcome::kProtocol);
  }
  if (reply->status != ControlStatus::kOk) {
    failure_reply_ = *reply;
    return Fail(Outcome::kRefused);
  }
  if (FirstDifference(*reply, op.header) != ControlField::kNone) Fail(Outcome::kProtocol);
}

void RankCore::RetireOps() {
  while (!ops_.empty() && recv_done_.op > first_op_ && send_done_.op > first_op_) {
    finished_.push_back({.op = first_op_});
    ops_.pop_front();
    ++first_op_;
  }
}

bool RankCore::IsControl(uint64_t wr_id) const {
  return static_cast<int64_t>(wr_id) == OpAt(OpOf(wr_id)).first_message;
}

OpId RankCore::OpOf(uint64_t wr_id) const {
  const auto message = static_cast<int64_t>(wr_id);
  const auto behind = std::upper_bound(ops_.begin(), ops_.end(), message,
                                       [](int64_t m, const Op& op) { return m < op.first_message; });
  EPIC_CHECK(behind != ops_.begin());
  return first_op_ + (behind - ops_.begin()) - 1;
}

void RankCore::Abort() {
  if (!failed()) Fail(Outcome::kAborted);
}

void RankCore::Fail(Outcome outcome) { failure_ = outcome; }

void RankCore::OnDrained() {
  EPIC_CHECK(failed());
  for (; !ops_.empty(); ops_.pop_front(), ++first_op_) {
    const bool whole = recv_done_.op > first_op_;
    finished_.push_back(
        {.op = first_op_, .outcome = whole ? Outcome::kOk : *failure_, .reply = failure_reply_});
  }
}

std::optional<Finished> RankCore::NextFinished() {
  if (finished_.empty()) return std::nullopt;
  const Finished done = finished_.front();
  finished_.pop_front();
  return done;
}

}  // namespace epic
