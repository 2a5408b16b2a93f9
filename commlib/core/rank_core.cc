#include "commlib/core/rank_core.h"

#include <algorithm>

#include "base/check.h"

namespace epic {

uint64_t SendBytes(const ControlHeader& header, uint32_t rank) {
  const DataLayout layout = LayoutOf(header, 1, 1);
  if (header.collective == Collective::kBroadcast && rank != header.root) return 0;
  return header.collective == Collective::kReduceScatter
             ? static_cast<uint64_t>(layout.parts) * layout.part_bytes
             : layout.part_bytes;
}

uint64_t RecvBytes(const ControlHeader& header, uint32_t rank) {
  const DataLayout layout = LayoutOf(header, 1, 1);
  if (header.collective == Collective::kReduce && rank != header.root) return 0;
  return header.collective == Collective::kAllGather ? static_cast<uint64_t>(layout.parts) * layout.part_bytes
                                                     : layout.part_bytes;
}

RankCore::RankCore(const CoreConfig& config)
    : config_(config), send_window_(config.window_messages), granted_window_(config.window_messages) {
  EPIC_CHECK(config.path_mtu > 0 && config.message_packets > 0 && config.window_messages > 0);
  EPIC_CHECK(config.rank < config.world_size);
}

bool RankCore::Inlines(const ControlHeader& header) const {
  return MayInline(header, uint64_t{config_.message_packets} * config_.path_mtu, config_.inline_bytes);
}

bool RankCore::WantsAcks(const ControlHeader& header) const {
  if (IsGranted(header)) return true;  // the switches, until they give the memory back
  if (Inlines(header) || IsRequest(header)) return false;
  return !SendersReceive(header.collective) || LayoutOf(header, config_.path_mtu, 1).packets() > 0;
}

uint32_t RankCore::TurnFor(const ControlHeader& header) const {
  if (!config_.turns || IsInlined(header) || IsByHosts(header)) return 0;
  return TurnOf(header, config_.path_mtu, config_.message_packets, granted_window_);
}

OpId RankCore::Post(const ControlHeader& header, bool keeps_data) {
  EPIC_CHECK(WrongField(header, config_.world_size) == ControlField::kNone);
  EPIC_CHECK(ops_.empty() || !IsRequest(ops_.back().header) || HasReply(next_op() - 1));
  const OpId id = next_op();
  Op op;
  op.header = header;
  op.header.invocation = static_cast<uint64_t>(id);
  if (Inlines(header)) op.header.flags |= kInlinedFlag;
  op.header.turn = TurnFor(op.header);
  op.header.window = IsRequest(header) ? config_.window_messages : 0;
  op.layout = LayoutOf(op.header, config_.path_mtu, config_.message_packets);
  op.first_index = next_index_;
  op.keeps_data = keeps_data;
  next_index_ += op.layout.indices();
  ops_.push_back(op);
  return id;
}

bool RankCore::Carries(const Op& op, Direction direction, int64_t part) const {
  if (config_.pulled) return false;
  const std::span<const uint32_t> self(&config_.rank, 1);
  return direction == Direction::kSend ? Sends(op.header, part, self) : Receives(op.header, part, self);
}

// A message can be posted when its call exists and is among the first kMaxOpenInvocations that have not
// completed.
bool RankCore::HasNext(const Cursor& cursor) const {
  return cursor.op < next_op() && cursor.op < first_op_ + kMaxOpenInvocations;
}

void RankCore::Advance(Cursor* cursor) const {
  const Op& op = OpAt(cursor->op);
  ++cursor->message;
  const auto carried = [&](int64_t part) { return Carries(op, cursor->direction, part); };
  if (!StepToNext(op.layout, config_.message_packets, carried, &cursor->place)) ++cursor->op;
}

Index RankCore::BeginIndex(const Cursor& cursor) const {
  if (cursor.op == next_op()) return next_index_;
  const Op& op = OpAt(cursor.op);
  if (cursor.place.part < 0) return op.first_index;
  return op.first_index + op.layout.control_packets +
         DataPacketAt(op.layout, cursor.place.part, cursor.place.message * config_.message_packets);
}

Index RankCore::EndIndex(const Cursor& cursor) const {
  const DataLayout& layout = OpAt(cursor.op).layout;
  if (cursor.place.part < 0) return BeginIndex(cursor) + layout.control_packets;
  const int64_t left = layout.part_packets - cursor.place.message * config_.message_packets;
  return BeginIndex(cursor) + std::min<int64_t>(config_.message_packets, left);
}

uint32_t RankCore::MessageBytes(const Cursor& cursor) const {
  if (cursor.place.part < 0) {
    const Op& op = OpAt(cursor.op);
    const bool describes = cursor.direction == Direction::kSend && Describes(op.header);
    return static_cast<uint32_t>(op.layout.control_bytes() + (describes ? kDescriptorBytes : 0));
  }
  const uint64_t per_message = static_cast<uint64_t>(config_.message_packets) * config_.path_mtu;
  const uint64_t offset = static_cast<uint64_t>(cursor.place.message) * per_message;
  return static_cast<uint32_t>(std::min(per_message, OpAt(cursor.op).layout.part_bytes - offset));
}

WorkRequest RankCore::MakeRequest(const Cursor& cursor) const {
  const Op& op = OpAt(cursor.op);
  WorkRequest request;
  request.is_recv = cursor.direction == Direction::kRecv;
  request.is_control = cursor.place.part < 0;
  request.wr_id = static_cast<uint64_t>(cursor.message);
  request.op = cursor.op;
  request.length = MessageBytes(cursor);
  if (request.is_control) {
    request.imm = static_cast<uint32_t>(op.header.invocation);
    request.header = op.header;
    return request;
  }
  request.offset = static_cast<uint64_t>(cursor.place.message) * config_.message_packets * config_.path_mtu;
  // A buffer for one part starts with that part.
  const bool all_parts = request.is_recv == (op.header.collective == Collective::kAllGather);
  if (all_parts) request.offset += static_cast<uint64_t>(cursor.place.part) * op.layout.part_bytes;
  return request;
}

void RankCore::SetSendWindow(uint32_t messages) {
  EPIC_CHECK(messages >= 1 && messages <= config_.window_messages);
  send_window_ = messages;
}

// The window rule: a message whose last packet has index x waits until own sends and own receives are
// complete up to x - Mw, with w the send window. Results alone would not do: they can arrive while all
// reflected acknowledgements are lost. Data that other ranks only receive waits for the control reply
// besides: it must not meet a rank that has not called.
bool RankCore::MaySend() const {
  if (!HasNext(send_posted_) || BeginIndex(recv_posted_) < EndIndex(send_posted_)) return false;
  const Op& op = OpAt(send_posted_.op);
  const Index received = BeginIndex(recv_done_);
  const bool is_data = send_posted_.place.part >= 0;
  if (is_data && !SendersReceive(op.header.collective) && received <= op.first_index) return false;
  return EndIndex(send_posted_) <= std::min(BeginIndex(send_done_), received) + send_window_packets();
}

bool RankCore::MayReceive() const {
  return HasNext(recv_posted_) &&
         EndIndex(recv_posted_) <= BeginIndex(recv_done_) + kReceiveWindows * window_packets();
}

bool RankCore::NextWorkRequest(WorkRequest* request) {
  if (failed()) return false;
  if (MayReceive()) {
    *request = MakeRequest(recv_posted_);
    Advance(&recv_posted_);
    return true;
  }
  if (!MaySend()) return false;
  *request = MakeRequest(send_posted_);
  Advance(&send_posted_);
  return true;
}

void RankCore::OnSendComplete(uint64_t wr_id) {
  if (failed()) return;
  // A reliable connection completes in the order of posting; anything else is a broken driver.
  if (static_cast<int64_t>(wr_id) != send_done_.message || send_done_.message >= send_posted_.message)
    return Fail(Outcome::kDisorder);
  Advance(&send_done_);
  EndOps();
}

void RankCore::OnRecvComplete(uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm,
                              std::span<const uint8_t> control) {
  if (failed()) return;
  if (static_cast<int64_t>(wr_id) != recv_done_.message || recv_done_.message >= recv_posted_.message)
    return Fail(Outcome::kDisorder);
  Op& op = ops_[static_cast<size_t>(recv_done_.op - first_op_)];
  // A sum contains something of every rank.
  const bool has_our_part = BeginIndex(send_posted_) >= EndIndex(recv_done_);
  if (recv_done_.place.part < 0) {
    CheckReply(op, bytes, imm, control, has_our_part);
  } else if (bytes != MessageBytes(recv_done_) || imm.has_value() ||
             (Reduces(op.header.collective) && !has_our_part)) {
    Fail(Outcome::kProtocol);
  }
  if (failed()) return;
  Advance(&recv_done_);
  EndOps();
}

void RankCore::CheckReply(Op& op, uint32_t bytes, std::optional<uint32_t> imm,
                          std::span<const uint8_t> control, bool has_our_part) {
  const std::optional<ControlHeader> reply = HeaderOf(control.first(std::min<size_t>(control.size(), bytes)));
  // What refuses is a header alone.
  const bool refuses = reply && IsFatal(reply->status);
  if (!reply || bytes != (refuses ? kControlBytes : op.layout.control_bytes()) ||
      imm != static_cast<uint32_t>(op.header.invocation) || !has_our_part) {
    return Fail(Outcome::kProtocol);
  }
  if (refuses) {
    failure_reply_ = *reply;
    return Fail(Outcome::kRefused);
  }
  if (FirstDifference(*reply, op.header) != ControlField::kNone) return Fail(Outcome::kProtocol);
  if (!IsRequest(op.header)) return;
  op.busy = reply->status == ControlStatus::kBusy;
  if (reply->window > config_.window_messages) return Fail(Outcome::kProtocol);
  if (!op.busy) granted_window_ = reply->window;
}

// Is what the call receives here, and does that say that what it sends has arrived? Where senders are not
// receivers, only the acknowledgement does. Where the switch reads and writes, the reply says all.
bool RankCore::HasResult(OpId op) const {
  const ControlHeader& header = OpAt(op).header;
  const bool mutual =
      config_.pulled || SendersReceive(header.collective) || IsInlined(header) || IsRequest(header);
  return recv_done_.op > op && (mutual || send_done_.op > op);
}

// The queue pair may read again what is not acknowledged; of what the switch reads that is nothing.
bool RankCore::HasEnded(OpId op) const {
  return HasResult(op) && (config_.pulled || OpAt(op).keeps_data || send_done_.op > op);
}

void RankCore::EndOps() {
  while (ended_ops_ < next_op() && HasEnded(ended_ops_)) {
    const Outcome outcome = OpAt(ended_ops_).busy ? Outcome::kBusy : Outcome::kOk;
    finished_.push_back({.op = ended_ops_++, .outcome = outcome});
  }
  while (!ops_.empty() && recv_done_.op > first_op_ && send_done_.op > first_op_) {
    ops_.pop_front();
    ++first_op_;
  }
}

std::optional<OpId> RankCore::ControlOf(uint64_t recv_wr_id) const {
  const bool is_next =
      static_cast<int64_t>(recv_wr_id) == recv_done_.message && recv_done_.message < recv_posted_.message;
  return is_next && recv_done_.place.part < 0 ? std::optional(recv_done_.op) : std::nullopt;
}

bool RankCore::HasReply(OpId op) const {
  return recv_done_.op > op || (recv_done_.op == op && recv_done_.place.part >= 0);
}

void RankCore::Abort() {
  if (!failed()) Fail(Outcome::kAborted);
}

void RankCore::Fail(Outcome outcome) { failure_ = outcome; }

void RankCore::OnDrained() {
  EPIC_CHECK(failed());
  for (; ended_ops_ < next_op(); ++ended_ops_) {
    const Outcome ok = OpAt(ended_ops_).busy ? Outcome::kBusy : Outcome::kOk;
    const Outcome outcome = HasResult(ended_ops_) ? ok : *failure_;
    finished_.push_back({.op = ended_ops_, .outcome = outcome, .reply = failure_reply_});
  }
  first_op_ = next_op();
  ops_.clear();
}

std::optional<Finished> RankCore::NextFinished() {
  if (finished_.empty()) return std::nullopt;
  const Finished done = finished_.front();
  finished_.pop_front();
  return done;
}

}  // namespace epic
