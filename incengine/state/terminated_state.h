// What a group's context holds in modes I and VI: a queue pair and a ring of messages per endpoint, the ring
// of sums, and the place in the stream of messages that is due in each direction (docs/PROTOCOL-MODE-I.md).
// Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "incengine/state/config.h"
#include "incengine/state/initiated_state.h"
#include "incengine/state/message_ring.h"
#include "protocol/flow.h"
#include "roce/transport/queue_pair.h"

namespace epic::engine {

// A place in the stream of messages of one direction: a control packet, or a message of a part of the data.
struct StreamPlace {
  int64_t invocation = 0;
  bool control = true;
  // Of the open invocation, if not at its control packet.
  ControlHeader header;
  DataLayout layout;
  MessagePlace data;        // if not the control packet
  Index control_index = 0;  // of the invocation's control packet

  // The index of the message's first packet.
  Index index(uint32_t message_packets) const {
    return control ? control_index
                   : control_index + layout.control_packets +
                         DataPacketAt(layout, data.part, data.message * message_packets);
  }
};

struct TerminatedEndpoint {
  roce::QueuePair qp;
  MessageRing received;
  std::optional<uint64_t> receiving_at;  // of the posted receive
  int64_t packets_received = 0;          // of whole messages
  uint64_t told = 0;                     // messages that its peer has been told of
  bool poll = true;                      // something happened since the queue pair was last polled
  Nanos head_at = 0;                     // since when the first of `received` is that; told to people only
};

struct TerminatedState {
  std::vector<TerminatedEndpoint> children;
  std::optional<TerminatedEndpoint> parent;
  MessageRing sums;

  // Up: the message that is being aggregated.
  StreamPlace up;
  size_t next_child = 0;                 // in whose turn it is
  std::optional<uint64_t> sum_at;        // where the sum is built, once begun
  bool sum_loaded = false;               // it has a contribution
  std::optional<ControlHeader> failure;  // goes out in place of what is due, as the last message
  bool up_failed = false;                // nothing more goes up
  // Down: the message that is due from the parent.
  StreamPlace down;
  bool down_failed = false;  // its last message has gone down
  std::optional<InitiatedState> initiated;  // in mode VI
};

// The longest message, in bytes.
constexpr size_t TerminatedMessageBytes(const GroupConfig& config) { return MessageBytes(config); }

// The sizes of the rings, in bytes and in messages.
size_t ReceivedRingBytes(const GroupConfig& config);
size_t SumsRingBytes(const GroupConfig& config);
size_t RingMessages(const GroupConfig& config);

// Everything as it is before the first packet: queue pairs connected, rings laid out one behind the other.
// address is this switch's.
TerminatedState MakeTerminatedState(const GroupConfig& config, Ipv4 address);

}  // namespace epic::engine
