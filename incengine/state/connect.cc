#include "incengine/state/connect.h"

#include <algorithm>

#include "base/check.h"
#include "roce/rnr_timer.h"

namespace epic::engine {
namespace {

// The largest exponent whose time is not above the prompt interval.
uint8_t TimeoutFor(Nanos prompt_ns) {
  uint8_t exponent = 1;
  while (exponent < 31 && roce::TimeoutNanos(static_cast<uint8_t>(exponent + 1)) <= prompt_ns) ++exponent;
  return exponent;
}

// The largest RNR timer code not above 1/64 of the prompt interval; 1, the shortest, if there is none. Code 0
// is the longest of all.
uint8_t RnrCodeFor(Nanos prompt_ns) {
  uint8_t code = 1;
  while (code < 31 && roce::RnrTimerNanos(static_cast<uint8_t>(code + 1)) <= prompt_ns / 64) ++code;
  return code;
}

}  // namespace

roce::QueuePair Connect(const GroupConfig& group, const EndpointConfig& config, Ipv4 address,
                        const Queues& queues, roce::Policy policy) {
  policy.ack_req_every = 16;
  policy.retry_7_is_forever = true;
  roce::QueuePair qp({.local_ip = address,
                      .local_qpn = config.local_qpn,
                      .send_depth = queues.sends,
                      .recv_depth = queues.receives,
                      .max_inline_bytes = queues.inline_bytes,
                      .max_rd_atomic = std::max(queues.reads, roce::QpConfig{}.max_rd_atomic),
                      .policy = policy});
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kInit}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRtr,
                        .remote_ip = config.remote_ip,
                        .remote_qpn = config.remote_qpn,
                        .path_mtu = group.path_mtu,
                        .rq_psn = config.in_psn,
                        .max_dest_rd_atomic = 0,
                        .min_rnr_timer = RnrCodeFor(group.prompt_ns)}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRts,
                        .sq_psn = config.out_psn,
                        .timeout = TimeoutFor(group.prompt_ns),
                        .retry_cnt = 7,
                        .rnr_retry = 7,
                        .max_rd_atomic = queues.reads}) == roce::ModifyResult::kOk);
  qp.LimitOutstanding(static_cast<int32_t>(group.message_packets * group.window_messages));
  return qp;
}

}  // namespace epic::engine
