// States of a queue pair: Modify, errors, flushing.
#include <algorithm>

#include "roce/transport/queue_pair.h"

namespace epic::roce {
namespace {

// Answers that wait to be sent, for each Read that the peer may have outstanding.
constexpr size_t kResponsesPerRead = 4;

bool HasRtrAttributes(const QpChange& c) {
  return c.remote_ip && c.remote_qpn && c.path_mtu && c.rq_psn && c.max_dest_rd_atomic && c.min_rnr_timer;
}
bool HasRtsAttributes(const QpChange& c) {
  return c.sq_psn && c.timeout && c.retry_cnt && c.rnr_retry && c.max_rd_atomic;
}

// With a shared receive queue, the receive of the message that is arriving is all that the queue pair holds.
QpConfig Normal(QpConfig config) {
  if (config.shared_receives) {
    config.recv_depth = 1;
    config.policy.give_credits = false;
  }
  return config;
}

}  // namespace

QueuePair::QueuePair(const QpConfig& config)
    : config_(Normal(config)),
      tx_{.sends = Ring<SendEntry>(config.send_depth),
          .inline_bytes = std::vector<uint8_t>(size_t{config.send_depth} * config.max_inline_bytes)},
      rx_{.recvs = Ring<RecvWr>(config_.recv_depth),
          .responses = Ring<Response>(kResponsesPerRead * std::max<size_t>(1, config.max_rd_atomic)),
          .reads = Ring<ReadRecord>(std::max<size_t>(1, config.max_rd_atomic))},
      completions_(size_t{config.send_depth} + config_.recv_depth) {
  attr_.local_ip = config.local_ip;
}

ModifyResult QueuePair::Modify(const QpChange& c) {
  const QpState to = c.state.value_or(state_);
  if (c.state && !IsTransition(state_, to)) return ModifyResult::kBadTransition;
  if (!InRange(c, config_.max_rd_atomic)) return ModifyResult::kBadAttribute;
  const bool to_rtr = state_ == QpState::kInit && to == QpState::kRtr;
  const bool to_rts = state_ == QpState::kRtr && to == QpState::kRts;
  if (to_rtr && !HasRtrAttributes(c)) return ModifyResult::kMissingAttribute;
  if (to_rts && !HasRtsAttributes(c)) return ModifyResult::kMissingAttribute;
  // The peer's number, path MTU and initial PSNs are set once, in their transition; the others again in SQD.
  const bool in_sqd = state_ == QpState::kSqd && to == QpState::kSqd;
  const bool path = c.remote_ip || c.local_ip || c.traffic_class || c.max_dest_rd_atomic;
  const bool sending = c.timeout || c.retry_cnt || c.rnr_retry || c.max_rd_atomic;
  if (((c.remote_qpn || c.path_mtu || c.rq_psn) && !to_rtr) || (c.sq_psn && !to_rts) ||
      (path && !to_rtr && !in_sqd) || (sending && !to_rts && !in_sqd))
    return ModifyResult::kAttributeNotNow;
  if (!IsOneVersion(c, attr_)) return ModifyResult::kBadAttribute;
  if ((to == QpState::kReset || to == QpState::kErr) &&
      (c.remote_read || c.remote_write || c.remote_atomic || c.min_rnr_timer))
    return ModifyResult::kAttributeNotNow;
  TakeAttributes(c, &attr_);
  if (in_sqd && (c.retry_cnt || c.rnr_retry)) ResetRetries();
  if (c.state) Start(to);
  return ModifyResult::kOk;
}

void QueuePair::Start(QpState to) {
  switch (to) {
    case QpState::kReset:
      *this = QueuePair(config_);
      return;
    case QpState::kErr:
      rx_.responses.clear();
      EnterError();
      return;
    case QpState::kRtr:
      rx_.epsn = rx_.ack_psn = attr_.rq_psn;
      break;
    case QpState::kRts:
      if (state_ == QpState::kRtr) ResetRetries();
      break;
    default:
      break;
  }
  state_ = to;
}

bool QueuePair::Receives() const {
  return state_ == QpState::kRtr || state_ == QpState::kRts || state_ == QpState::kSqd;
}

// Everything posted is given back. Responses in line still go out, so that the peer learns of a NAK.
void QueuePair::EnterError() {
  state_ = QpState::kErr;
  tx_.timer_at = tx_.rnr_until = rx_.ack_at = kNever;
  rx_.in.message = Message::kNone;
  rx_.cnp_due = false;
  FlushAll();
}

void QueuePair::FlushAll() {
  FlushSends(&tx_.sends, &completions_);
  tx_.cur = 0;
  tx_.reads_awaited = 0;
  FlushRecvs(&rx_.recvs, &completions_);
}

// The oldest request ends in an error, signaled or not, and the queue pair with it (10.8.6, 10.7.3.1).
void QueuePair::FailSend(WcStatus status) {
  if (tx_.sends.empty()) return;
  completions_.push_back({.wr_id = tx_.sends.front().wr_id, .status = status});
  tx_.sends.pop_front();
  rx_.responses.clear();
  EnterError();
}

bool QueuePair::NextCompletion(Completion* out) {
  if (completions_.empty()) return false;
  *out = completions_.front();
  completions_.pop_front();
  return true;
}

}  // namespace epic::roce
