// Where an index lies: which invocation, control or data, and what its packet must look like
// (docs/PROTOCOL.md, section 2).
#pragma once

#include <optional>

#include "incengine/state/context.h"

namespace epic::engine {

struct Position {
  const Invocation* invocation = nullptr;  // borrowed from the context
  bool control = false;                    // in the control message
  int64_t at = 0;                          // packet number within that, or among the data packets
  bool header() const { return control && at == 0; }
};

// Nothing if the invocation of the index is not open (any more).
std::optional<Position> Locate(const Context& ctx, Index index);

// Where a data position lies in the invocation's parts.
inline DataPlace PlaceOf(const Position& position) {
  return epic::PlaceOf(position.invocation->layout, position.at);
}

// Do senders learn from their own results that their packet has arrived everywhere? Not so in Reduce,
// Broadcast, ReduceScatter and AllGather: their data is "tracked" by acknowledgements through the tree.
bool IsTracked(const Position& position);

// The children that contribute to the index, and those that get its result, as bit masks.
uint64_t FanIn(const Context& ctx, const Position& position);
uint64_t Outs(const Context& ctx, const Position& position);

// The opcode of the packet at a position: data is cut into messages of M packets.
roce::Opcode OpcodeAt(const Context& ctx, const Position& position);
// Of packet number `at` of a control message of so many.
roce::Opcode ControlOpcode(int64_t at, int64_t packets);

// The last index up to this one at which a message begins, as far as the invocation is open.
Index MessageStart(const Context& ctx, Index index);

// Its payload bytes.
uint32_t BytesAt(const Context& ctx, const Position& position);

// Makes the invocation that header opens known to the context, and opens its segments at the parent endpoint,
// one for each direction. With has_data false it gets no data indices, whatever the header says.
void OpenInvocation(Context& ctx, const ControlHeader& header, bool has_data);

// Opens the invocation's two segments at a child that has called it.
void OpenAtChild(const Context& ctx, const Invocation& invocation, Endpoint& child);

}  // namespace epic::engine
