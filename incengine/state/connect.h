// Queue pairs at a switch's end of an edge.
#pragma once

#include "incengine/state/config.h"
#include "roce/transport/queue_pair.h"

namespace epic::engine {

struct Queues {
  uint32_t sends = 0;
  uint32_t receives = 0;
  uint32_t inline_bytes = 0;
  uint8_t reads = 0;  // RDMA Reads of its own that may be under way
};

// Connected to the remote endpoint, ready to send; its timers follow from the group's prompt interval, and it
// repeats without end. address is this switch's.
roce::QueuePair Connect(const GroupConfig& group, const EndpointConfig& config, Ipv4 address,
                        const Queues& queues, roce::Policy policy);

}  // namespace epic::engine
