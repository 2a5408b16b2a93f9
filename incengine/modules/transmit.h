// TranslateHeader, Forward and SendAck: what leaves an endpoint.
#pragma once

#include <span>

#include "incengine/modules/env.h"

namespace epic::engine {

// The packet of an index, addressed to the endpoint's remote side in that direction's PSNs: TranslateHeader
// and Forward. payload is the sum or the result; control packets carry their invocation as immediate.
void SendData(Context& ctx, Endpoint& ep, Index index, std::span<const uint8_t> payload, bool ack_req,
              Env& env);

// ReplicateData: the same packet to every child in the mask.
void ReplicateData(Context& ctx, uint64_t outs, Index index, std::span<const uint8_t> payload, bool ack_req,
                   Env& env);

// An acknowledgement packet towards the endpoint's remote side, in the PSNs of the direction that it
// acknowledges (ep.in): syndrome as given, the PSN of `index`, the MSN that goes with completed_to. index may
// be in.next_index().
void SendAeth(Endpoint& ep, uint8_t syndrome, Index index, Index completed_to, Env& env);

// ACK of everything up to and including index.
void SendAck(Endpoint& ep, Index index, Env& env);

// Sequence NAK: index is the one expected next, everything before it is acknowledged.
void SendNak(Endpoint& ep, Index index, Env& env);

// RNR NAK with a timer code (InfiniBand Architecture Specification 1.4, table 45): come again from index on.
void SendRnrNak(Endpoint& ep, Index index, uint8_t timer_code, Env& env);

// A packet that a queue pair of this switch has made.
void SendMade(Endpoint& ep, const roce::Packet& packet, Env& env);

}  // namespace epic::engine
