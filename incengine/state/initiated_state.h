// What a group's context holds in mode VI beside mode I's state: of each host where its data lie, and what
// has been read of them (docs/PROTOCOL-MODE-VI.md). Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "incengine/state/config.h"
#include "incengine/state/message_ring.h"
#include "protocol/descriptor.h"
#include "protocol/flow.h"

namespace epic::engine {

// Of a child that is a host.
struct PulledHost {
  // What is being read of its memory, in the order of its stream, and what has been read and is to be added.
  MessageRing read;
  size_t whole = 0;  // so many of these, the first ones, have come
  // The next message to be read, of the invocation that is being aggregated; of part -1 if there is none.
  MessagePlace next;
  // By invocation, of those that may be open.
  std::array<Descriptor, static_cast<size_t>(kMaxOpenInvocations)> descriptors;

  Descriptor& DescriptorOf(int64_t invocation) {
    return descriptors[static_cast<size_t>(invocation % kMaxOpenInvocations)];
  }
};

struct InitiatedState {
  std::vector<std::optional<PulledHost>> hosts;  // by child; none of a switch
  uint64_t pulled = 0;                           // these, as a bit mask of children
  // The reply of an invocation of which all results have been written, and not all that is given has been
  // read: hosts get it then.
  std::optional<ControlHeader> owed_reply;
};

// RDMA Reads that are under way from one host: a message each, and its NIC must take as many.
uint8_t MostReads(const GroupConfig& config);

// Nothing has been read. `at`: in the group's region, behind mode I's rings.
InitiatedState MakeInitiatedState(const GroupConfig& config, uint64_t at);

}  // namespace epic::engine
