#include "incengine/state/terminated_state.h"

#include <algorithm>

#include "incengine/state/connect.h"

namespace epic::engine {
namespace {

// Beside a full window: the control packets of all open invocations, twice, for a window of short messages.
constexpr size_t kShortMessages = 2 * static_cast<size_t>(kMaxOpenInvocations);
constexpr size_t kMaxRingMessages = 1024;

// Of a host whose memory is read and written: its replies lie in the queue pair, and what is read and what is
// written may both be a window.
roce::QueuePair ConnectPulled(const GroupConfig& group, const EndpointConfig& config, Ipv4 address,
                              roce::Policy policy) {
  const auto window = static_cast<int32_t>(group.message_packets * group.window_messages);
  policy.max_outstanding = std::max(policy.max_outstanding, 2 * window);
  const auto sends = static_cast<uint32_t>(RingMessages(group) + MostReads(group) + kShortMessages);
  roce::QueuePair qp = Connect(
      group, config, address,
      {.sends = sends, .receives = 1, .inline_bytes = kControlBytes, .reads = MostReads(group)}, policy);
  qp.LimitOutstanding(2 * window);
  qp.LimitReads(window);
  return qp;
}

roce::QueuePair ConnectRing(const GroupConfig& group, const EndpointConfig& config, Ipv4 address) {
  roce::Policy policy;
  policy.hold_acks = true;
  // A switch's window is never shorter than a message; a NIC's may be.
  policy.within_messages = config.is_host;
  if (config.is_host && ReadsHosts(group.mode)) return ConnectPulled(group, config, address, policy);
  return Connect(group, config, address, {.sends = static_cast<uint32_t>(RingMessages(group)), .receives = 1},
                 policy);
}

}  // namespace

size_t ReceivedRingBytes(const GroupConfig& config) { return epic::ReceivedRingBytes(ShapeOf(config)); }

size_t SumsRingBytes(const GroupConfig& config) { return epic::SumsRingBytes(ShapeOf(config)); }

size_t RingMessages(const GroupConfig& config) {
  return std::min(size_t{config.message_packets} * config.window_messages + kShortMessages, kMaxRingMessages);
}

TerminatedState MakeTerminatedState(const GroupConfig& config, Ipv4 address) {
  const size_t messages = RingMessages(config);
  uint64_t base = 0;
  const auto endpoint = [&](const EndpointConfig& ep) {
    const uint64_t at = base;
    base += ReceivedRingBytes(config);
    return TerminatedEndpoint{.qp = ConnectRing(config, ep, address),
                              .received = MessageRing(at, ReceivedRingBytes(config), messages),
                              .receiving_at = {}};
  };
  TerminatedState state{.children = {},
                        .parent = {},
                        .sums = MessageRing(0, SumsRingBytes(config), messages),
                        .up = {},
                        .sum_at = {},
                        .failure = {},
                        .down = {},
                        .initiated = {}};
  base = SumsRingBytes(config);
  for (const EndpointConfig& child : config.children) state.children.push_back(endpoint(child));
  if (config.parent) state.parent = endpoint(*config.parent);
  if (ReadsHosts(config.mode)) state.initiated = MakeInitiatedState(config, base);
  return state;
}

}  // namespace epic::engine
