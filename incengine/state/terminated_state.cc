#include "incengine/state/terminated_state.h"

#include <algorithm>

#include "base/check.h"
#include "roce/rnr_timer.h"

namespace epic::engine {
namespace {

// Beside a full window: the control packets of all open invocations, twice, for a window of short messages.
constexpr size_t kShortMessages = 2 * static_cast<size_t>(kMaxOpenInvocations);
constexpr size_t kMaxRingMessages = 1024;

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

roce::QueuePair Connect(const GroupConfig& group, const EndpointConfig& config, Ipv4 address) {
  roce::Policy policy;
  policy.ack_req_every = 16;
  policy.retry_7_is_forever = true;
  policy.hold_acks = true;
  // A switch's window is never shorter than a message; a NIC's may be.
  policy.within_messages = config.is_host;
  roce::QueuePair qp({.local_ip = address,
                      .local_qpn = config.local_qpn,
                      .send_depth = static_cast<uint32_t>(RingMessages(group)),
                      .recv_depth = 1,
                      .max_inline_bytes = 0,
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
                        .max_rd_atomic = 0}) == roce::ModifyResult::kOk);
  qp.LimitOutstanding(static_cast<int32_t>(group.message_packets * group.window_messages));
  return qp;
}

}  // namespace

size_t ReceivedRingBytes(const GroupConfig& config) { return epic::ReceivedRingBytes(ShapeOf(config)); }

size_t SumsRingBytes(const GroupConfig& config) { return epic::SumsRingBytes(ShapeOf(config)); }

size_t RingMessages(const GroupConfig& config) {
  return std::min(size_t{config.message_packets} * config.window_messages + kShortMessages, kMaxRingMessages);
}

size_t TerminatedArenaBytes(const GroupConfig& config) { return RingsBytes(ShapeOf(config)); }

TerminatedState MakeTerminatedState(const GroupConfig& config, Ipv4 address) {
  const size_t messages = RingMessages(config);
  uint64_t base = 0;
  const auto endpoint = [&](const EndpointConfig& ep) {
    const uint64_t at = base;
    base += ReceivedRingBytes(config);
    return TerminatedEndpoint{.qp = Connect(config, ep, address),
                              .received = MessageRing(at, ReceivedRingBytes(config), messages),
                              .receiving_at = {}};
  };
  TerminatedState state{.children = {},
                        .parent = {},
                        .sums = MessageRing(0, SumsRingBytes(config), messages),
                        .up = {},
                        .sum_at = {},
                        .failure = {},
                        .down = {}};
  base = SumsRingBytes(config);
  for (const EndpointConfig& child : config.children) state.children.push_back(endpoint(child));
  if (config.parent) state.parent = endpoint(*config.parent);
  return state;
}

}  // namespace epic::engine
