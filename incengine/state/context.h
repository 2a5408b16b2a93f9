// A group's local context on one switch: routing, transmission and computation state (EPIC paper,
// section 4.1; docs/PROTOCOL.md, section 5). Plain values; the modules act on them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/counter_table.h"
#include "incengine/state/config.h"
#include "incengine/state/effects.h"
#include "incengine/state/pooled_state.h"
#include "incengine/state/refusals.h"
#include "incengine/state/segment.h"
#include "incengine/state/terminated_state.h"
#include "protocol/flow.h"

namespace epic::engine {

// An endpoint within its group: children are 0 to kMaxChildren-1, the parent is kParent; kServer is the end
// of the leg to its fallback server.
enum class EndpointId : uint8_t {};
inline constexpr EndpointId kParent{0xff};
inline constexpr EndpointId kServer{0xfe};
inline constexpr uint8_t kNoChild = 0xff;
constexpr uint8_t Raw(EndpointId id) { return static_cast<uint8_t>(id); }

// One place of the payload and degree buffers. Lies in the arena.
struct Slot {
  Index index = -1;             // -1: never used
  uint64_t arrived = 0;         // bit per child
  bool ack_req = false;         // OR over the contributors' AckReq
  bool loaded = false;          // the payload has a contribution
  bool split = false;           // a part of the sum is at the group's server, and the whole is not back
  uint32_t buffer = kNoBuffer;  // of a group with a pool: where the payload lies
};
static_assert(sizeof(Slot) == kSlotBytes);

// A control packet being merged, in the persistent ring. Inlined data behind it lie in the slot of its index.
struct ControlSlot {
  int64_t invocation = -1;
  uint64_t arrived = 0;
  bool ack_req = false;
  // Of a group with a pool: the highest that a rank which has called says.
  Priority priority = 0;
  ControlHeader header;  // of the lowest rank that has called; with the merged status
  Nanos called_at = 0;   // when that was; told to people only
};

// What an invocation is, for everybody who carries its packets.
struct Invocation {
  int64_t number = 0;
  ControlHeader header;
  Index control_index = 0;
  DataLayout layout;
  Index data_index() const { return control_index + layout.control_packets; }
  Index end() const { return control_index + layout.indices(); }
};

// The half-open range of indices [from, to).
struct IndexRange {
  Index from = 0;
  Index to = 0;
  bool Contains(Index i) const { return i >= from && i < to; }
};

struct EndpointCounters {
  uint64_t packets_in = 0;
  uint64_t packets_out = 0;
  uint64_t duplicates = 0;
  uint64_t gaps = 0;
  uint64_t naks_sent = 0;
  uint64_t rnr_naks_sent = 0;
  uint64_t prompts = 0;
  uint64_t cnps_sent = 0;
  Refusals refusals;
};

inline constexpr auto kEndpointCounters = std::to_array<CounterRow<EndpointCounters>>({
    {"packets_in", &EndpointCounters::packets_in},
    {"packets_out", &EndpointCounters::packets_out},
    {"duplicates", &EndpointCounters::duplicates},
    {"gaps", &EndpointCounters::gaps},
    {"naks_sent", &EndpointCounters::naks_sent},
    {"rnr_naks_sent", &EndpointCounters::rnr_naks_sent},
    {"prompts", &EndpointCounters::prompts},
    {"cnps_sent", &EndpointCounters::cnps_sent},
});
static_assert(HasEach(kEndpointCounters, sizeof(EndpointCounters::refusals)));

// How far a child has come: what is expected of it, what it has been told, and what it wants.
struct ChildProgress {
  Index up_epsn = 0;         // index expected next; `in` carries it, or it is in.next_index()
  Index up_told = 0;         // every index below it that `in` carries has been acknowledged to this child
  bool deferred = false;     // mode II's root: a packet of it was beyond the slots
  Index down_acked_end = 0;  // every index below it that `out` carries and that asks for it is acknowledged
  IndexRange want;           // mode II: results that it has asked for
  Nanos prompt_at = kNever;
  uint32_t prompt_backoff = 0;
};

// Mode III, whose edges acknowledge and repeat by themselves. The first three are also of the parent.
struct HopState {
  int64_t accepted_since_ack = 0;  // packets
  Index ack_due = 0;               // behind the last of them that is to be acknowledged
  Index ack_sent = 0;              // behind the last that was
  Nanos resend_at = kNever;
  uint32_t resend_backoff = 0;
};

// What an end that repeats has been told beside its acknowledgements, so that it goes on soon or waits;
// mostly of hosts, whose own timers are long.
struct Repair {
  bool repeating = false;  // it is in the middle of sending again what it has sent
  Nanos heard_at = 0;      // its last repetition
  Nanos repeat_ack_at = kNever;
  Nanos rnr_allowed_at = 0;
  uint32_t rnr_backoff = 0;
};

// One end of an edge of the tree. What is here of itself is so of each end in each mode.
struct Endpoint {
  EndpointConfig config;
  uint16_t udp_src_port = 0;  // stable per flow, so that equal-cost paths keep its order
  uint16_t ip_id = 0;
  Direction in;
  Direction out;
  bool nak_sent = false;
  ChildProgress progress;
  HopState hop;
  Repair repair;
  EndpointCounters counters;
};

struct ContextCounters {
  uint64_t aggregated_packets = 0;  // contributions that entered a sum or a control slot
  uint64_t results = 0;             // complete at this switch
  uint64_t replicated_packets = 0;  // copies sent to children, repetitions included
  uint64_t repeats = 0;             // results or partial sums sent again
  uint64_t asks = 0;                // requests to the parent
  uint64_t uplink_timeouts = 0;
  uint64_t rnr_naks_received = 0;  // of hosts that had no receive posted, for one
  uint64_t grants = 0;             // requests for the block that were decided so
  uint64_t busy = 0;
  std::array<uint64_t, static_cast<size_t>(DropReason::kCount)> drops{};
};

inline constexpr auto kContextCounters = std::to_array<CounterRow<ContextCounters>>({
    {"aggregated_packets", &ContextCounters::aggregated_packets},
    {"results", &ContextCounters::results},
    {"replicated_packets", &ContextCounters::replicated_packets},
    {"repeats", &ContextCounters::repeats},
    {"asks", &ContextCounters::asks},
    {"uplink_timeouts", &ContextCounters::uplink_timeouts},
    {"rnr_naks_received", &ContextCounters::rnr_naks_received},
    {"grants", &ContextCounters::grants},
    {"busy", &ContextCounters::busy},
});
static_assert(HasEach(kContextCounters, sizeof(ContextCounters::drops)));

enum class GroupState : uint8_t {
  kRunning,
  kFailed,   // a reply with a bad status has passed: no more data, but the reply itself is still repeated on
             // demand
  kStopped,  // by the control plane: nothing moves any more
};

// Of a group whose memory here is a block: its part of the block's recorder (docs/PROTOCOL-BLOCKS.md). Of all
// others the memory is theirs for life.
struct Hold {
  bool has_memory = true;    // nobody else has the slots at arena_offset
  bool asking = false;       // a request of it has been merged here and is not decided
  int64_t granted_end = 0;   // data of invocations below it may use the memory
  uint32_t most_window = 0;  // W and N as the group was installed: those that hold are as the block has room
  uint32_t most_slots = 0;
};

struct Context {
  GroupConfig config;
  GroupState state = GroupState::kRunning;

  std::deque<Invocation> invocations;  // oldest first, at most kKeptInvocations
  std::array<ControlSlot, kKeptInvocations> control;
  size_t arena_offset = 0;  // of its own region, or of its block
  size_t arena_bytes = 0;
  Hold hold;

  std::vector<Endpoint> children;
  Endpoint parent;                     // unused at the root
  Endpoint server;                     // of a group with a pool
  std::vector<uint32_t> ranks;         // below this switch, ascending
  std::vector<uint8_t> child_of_rank;  // kNoChild for ranks elsewhere

  Index results_end = 0;   // every index below it for which a result comes here has one
  Index up_sent = 0;       // every index below it that goes to the parent has been sent
  Index acked_end = 0;     // every tracked index below it has reached all its receivers below this switch
  Index up_acked_end = 0;  // and all its receivers in the group; just after a tracked index
  Index max_up_epsn = 0;   // of all children
  Index asked_from = 0;
  Nanos asked_at = -kSecond;
  Nanos handed_down_at = -kSecond;
  Nanos uplink_at = kNever;
  uint32_t uplink_backoff = 0;
  Nanos timer_at = kNever;  // the one timer that the world keeps for this group

  ContextCounters counters;
  std::optional<TerminatedState> terminated;  // in mode I, instead of what is above about packets
  std::optional<PooledState> pooled;          // of a group whose payloads lie in the switch's pool

  Endpoint& endpoint(EndpointId id) {
    if (id == kParent) return parent;
    return id == kServer ? server : children[Raw(id)];
  }

  bool is_root() const { return !config.parent.has_value(); }
  uint64_t all_children() const {
    return children.size() == kMaxChildren ? ~uint64_t{0} : (uint64_t{1} << children.size()) - 1;
  }
};

// Payload bytes of one slot: the accumulator, and in a reproducible group a contribution per child.
size_t SlotPayloadBytes(const GroupConfig& config);

// Arena bytes of the N slots and payloads for packets on their way up.
size_t UpPipeBytes(const GroupConfig& config);

}  // namespace epic::engine
