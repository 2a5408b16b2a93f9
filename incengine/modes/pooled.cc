// Mode V, pooled: mode III at a root, whose payloads lie in buffers that all such groups of the switch share.
// A sum that loses its place goes on at the group's fallback server (docs/PROTOCOL-MODE-V.md, whose tables
// these functions follow; DSA, sections III and V).
#include "incengine/modes/pooled.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "incengine/modes/augmented.h"
#include "incengine/modes/mode.h"
#include "incengine/modules/admit.h"
#include "incengine/modules/buffer.h"
#include "incengine/modules/leg.h"
#include "incengine/modules/pipe.h"
#include "protocol/fallback.h"

namespace epic::engine {
namespace {

bool IsLast(const Context& ctx, const Slot& slot, size_t child, const Position& position) {
  return (slot.arrived | uint64_t{1} << child) == FanIn(ctx, position);
}

void Insert(std::deque<Index>& in_order, Index index) {
  in_order.insert(std::ranges::lower_bound(in_order, index), index);
}

struct Met {
  Pool::Meeting meeting;
  Priority priority = 0;  // with which it has been asked for
};

// Of the call that the packet belongs to: the highest that a rank which has called says. A control packet
// that brings data counts itself.
Priority PriorityOfCall(Context& ctx, const Endpoint& ep, Index index,
                        const std::optional<Position>& position, const roce::Packet& packet) {
  const bool opens = index == ep.in.next_index();
  const int64_t number = opens || !position ? ep.in.next_invocation() : position->invocation->number;
  const ControlSlot& slot = ControlSlotOf(ctx, number);
  const Priority others = slot.invocation == number ? slot.priority : 0;
  const auto header = opens ? HeaderOf(packet.payload) : std::nullopt;
  return header ? std::max(others, SaidPriority(header->priority, ctx.config.priority_limit)) : others;
}

// What the contribution meets, if the packet is one that needs a buffer which its index has not got.
std::optional<Met> MeetPool(Context& ctx, size_t child, const roce::Packet& packet, Env& env) {
  const Endpoint& ep = ctx.children[child];
  const Index index = UpIndexOf(ep, packet.bth.psn);
  if (!IsSend(packet.bth.opcode) || index != ep.progress.up_epsn || ctx.state != GroupState::kRunning)
    return {};
  if (index == ep.in.next_index() && !BringsData(packet)) return {};
  if (index >= UpPipeStart(ctx) + static_cast<Index>(ctx.config.slots)) return {};
  const Slot& slot = SlotOf(ctx, index, env.arena);
  const bool begun = slot.index == index;
  if (slot.index > index || (begun && slot.buffer != kNoBuffer)) return {};
  const auto position = Locate(ctx, index);
  const bool passes = begun && slot.split && position && IsLast(ctx, slot, child, *position);
  const Priority priority = PriorityOfCall(ctx, ep, index, position, packet);
  return Met{env.pool->Meet(ctx.config.group_id, index, priority, env.now, passes), priority};
}

void MarkSplit(Context& ctx, Slot& slot) {
  if (!slot.split) ++ctx.pooled->counters.splits;
  slot.split = true;
}

// The payload of the slot leaves, in its buffer, which is leaving in the pool.
void SendPart(Context& ctx, Slot& slot, const Position& position, bool last) {
  PostPart(ctx, slot.index, position, slot.buffer, last);
  slot.buffer = kNoBuffer;
  slot.loaded = false;
  if (last) Insert(ctx.pooled->whole, slot.index);
}

// All have contributed to a split index, whose rest is in a place.
void SendRest(Context& ctx, Slot& slot, const Position& position, Env& env) {
  if (!env.pool->MayLeave(ctx.config.group_id)) {
    env.pool->MarkWhole(slot.buffer);
    env.pool->Await(ctx.config.group_id);
    return Insert(ctx.pooled->held, slot.index);
  }
  env.pool->LeavePlace(slot.buffer);
  SendPart(ctx, slot, position, true);
}

// Another group's sum has lost its place.
Context& Evict(const Pool::Evicted& evicted, Env& env) {
  Context& ctx = env.groups->at(evicted.group);
  Slot& slot = SlotOf(ctx, evicted.index, env.arena);
  const auto position = Locate(ctx, evicted.index);
  EPIC_CHECK(slot.index == evicted.index && slot.buffer == evicted.buffer && position);
  MarkSplit(ctx, slot);
  SendPart(ctx, slot, *position, false);
  return ctx;
}

// The contribution of the packet that is being handed to mode III.
class InPool final : public Contributions {
 public:
  explicit InPool(std::optional<Met> met) : met_(met) {}

  void Add(Context& ctx, size_t child, Index index, const Position& position, const roce::Packet& packet,
           Env& env) override {
    Slot& slot = SlotOf(ctx, index, env.arena);
    const bool last = IsLast(ctx, slot, child, position);
    const bool passes = slot.buffer == kNoBuffer && TakeBuffer(ctx, slot, env);
    AggregateData(ctx, slot, child, position, packet.bth.ack_req, packet.payload, env.arena);
    if (passes) {
      SendPart(ctx, slot, position, last);
    } else if (last && slot.split) {
      SendRest(ctx, slot, position, env);
    } else if (last) {
      env.pool->MarkWhole(slot.buffer);
    }
  }

  // Whose sum has had to leave; null: nobody's.
  Context* evicted() const { return evicted_; }

 private:
  // True if the contribution is on its way to the server.
  bool TakeBuffer(Context& ctx, Slot& slot, Env& env) {
    EPIC_CHECK(met_.has_value());
    const Pool::Taken taken =
        env.pool->Take(met_->meeting, ctx.config.group_id, slot.index, met_->priority, env.now);
    if (taken.evicted) evicted_ = &Evict(*taken.evicted, env);
    slot.buffer = taken.buffer;
    if (met_->meeting.kind != Pool::Meeting::Kind::kPass) return false;
    MarkSplit(ctx, slot);
    return true;
  }

  std::optional<Met> met_;
  Context* evicted_ = nullptr;
};

// Results that all children have acknowledged.
void FreeAcknowledged(Context& ctx, Env& env) {
  PooledState& state = *ctx.pooled;
  const Index end = DownPipeStart(ctx);
  for (; state.freed_end < end; ++state.freed_end) {
    Slot& slot = DownSlotOf(ctx, state.freed_end, env.arena);
    if (slot.index != state.freed_end || slot.buffer == kNoBuffer) continue;
    GiveBack(ctx, slot.buffer, env);
    slot.buffer = kNoBuffer;
  }
}

// Asks for the sums for which there are buffers. The group's own is for the result that is due next alone: in
// any other it would wait for that one.
void FetchSums(Context& ctx, Env& env) {
  PooledState& state = *ctx.pooled;
  while (!state.whole.empty()) {
    Fetch fetch{.index = state.whole.front()};
    if (fetch.index == ctx.results_end && !state.own_taken) {
      state.own_taken = true;
      fetch.buffer = kOwnBuffer;
    } else if (const auto buffer = env.pool->TakeForResult(ctx.config.group_id)) {
      fetch.buffer = *buffer;
    } else {
      return;
    }
    state.whole.pop_front();
    state.fetching.push_back(fetch);
    PostFetch(ctx, fetch, *Locate(ctx, fetch.index));
  }
}

// What has left and been acknowledged. True if a sum has come, and `ok` false if one that may not be there.
bool TakeCompletions(Context& ctx, bool* ok, Env& env);

// The group has failed: what it was summing here is nobody's any more, and nothing comes from its server.
void LetGo(Context& ctx, Env& env) {
  PooledState& state = *ctx.pooled;
  state.let_go = true;
  CloseLeg(ctx);
  bool ok = true;
  TakeCompletions(ctx, &ok, env);
  for (const Fetch& fetch : state.fetching) GiveBack(ctx, fetch.buffer, env);
  state.fetching.clear();
  state.whole.clear();
  state.held.clear();
  env.pool->StopWaiting(ctx.config.group_id);
  for (Index at = 0; at < static_cast<Index>(ctx.config.slots); ++at) {
    Slot& slot = SlotOf(ctx, at, env.arena);
    if (slot.buffer == kNoBuffer) continue;
    GiveBack(ctx, slot.buffer, env);
    slot = Slot{.index = slot.index};
  }
}

void EndLeg(Context& ctx, LegFailure why, Env& env) {
  if (ctx.state != GroupState::kRunning) return;
  if (ctx.pooled->end == LegFailure::kNone) ctx.pooled->end = why;
  ctx.state = GroupState::kFailed;
  Drop(ctx, ctx.server, DropReason::kUnexpectedResult, env);
}

// If the leg has ended the group has failed, and what has failed lets go.
void LetGoIfEnded(Context& ctx, Env& env) {
  if (ctx.pooled->qp.state() != roce::QpState::kRts) EndLeg(ctx, LegFailure::kRefused, env);
  if (ctx.state != GroupState::kRunning && !ctx.pooled->let_go) LetGo(ctx, env);
}

// The sum of the index that was asked for first. False if it is not.
bool TakeSum(Context& ctx, const roce::Completion& done, Env& env) {
  PooledState& state = *ctx.pooled;
  if (state.fetching.empty()) return false;
  const Fetch fetch = state.fetching.front();
  const auto position = Locate(ctx, fetch.index);
  EPIC_CHECK(position.has_value());
  if (!done.has_imm || done.imm != LegImmediate(LegMessage::kSum, fetch.index) ||
      done.bytes != SumBytesBack(ctx, *position)) {
    return false;
  }
  state.fetching.pop_front();
  state.counters.server_bytes_back += done.bytes;
  Slot& slot = SlotOf(ctx, fetch.index, env.arena);
  slot.buffer = fetch.buffer;
  slot.loaded = true;
  slot.split = false;
  if (!position->header()) return true;
  std::array<uint8_t, kControlBytes> header;
  Encode(ControlSlotOf(ctx, position->invocation->number).header, header);
  std::ranges::copy(header, BufferOf(ctx, slot.buffer, kControlBytes, env.arena).begin());
  return true;
}

bool TakeCompletions(Context& ctx, bool* ok, Env& env) {
  PooledState& state = *ctx.pooled;
  bool any = false;
  for (roce::Completion done; state.qp.NextCompletion(&done);) {
    if (done.is_recv()) {
      const bool taken = !state.let_go && done.ok() && TakeSum(ctx, done, env);
      any |= taken;
      *ok &= taken;
    } else if (done.wr_id != kNoBuffer) {
      env.pool->Acknowledged(static_cast<uint32_t>(done.wr_id));
    }
  }
  return any;
}

// Asks for what can be asked for, and sends what the leg has.
void Proceed(Context& ctx, Env& env) {
  if (ctx.state != GroupState::kRunning) return;
  FetchSums(ctx, env);
  PollLeg(ctx, env);
  LetGoIfEnded(ctx, env);
}

// Rests that have waited for others to be acknowledged, in turn: of all groups of this one's server.
void SendHeldRests(Context& ctx, Env& env) {
  while (const auto turn = env.pool->NextToLeave(ctx.config.group_id)) {
    Context& of = env.groups->at(*turn);
    Slot& slot = SlotOf(of, of.pooled->held.front(), env.arena);
    of.pooled->held.pop_front();
    SendRest(of, slot, *Locate(of, slot.index), env);
    if (&of != &ctx) Proceed(of, env);
  }
}

// What has become possible: buffers that come back, sums that can be asked for, packets of the leg.
void Settle(Context& ctx, Env& env) {
  FreeAcknowledged(ctx, env);
  LetGoIfEnded(ctx, env);
  SendHeldRests(ctx, env);
  Proceed(ctx, env);
  // Others of its server may be removed, and nothing comes of them that it could wait for.
  if (!ctx.pooled->held.empty()) ArmTimer(ctx, env.now + ctx.config.prompt_ns, env);
}

void OfServer(Context& ctx, const roce::Packet& packet, Env& env) {
  PooledState& state = *ctx.pooled;
  if (state.let_go) return Drop(ctx, ctx.server, DropReason::kGroupFailed, env);
  const roce::QpCounters before = state.qp.counters();
  TakeLegPacket(ctx, packet, env);
  const roce::QpCounters& after = state.qp.counters();
  if (after.duplicates != before.duplicates) Drop(ctx, ctx.server, DropReason::kDuplicate, env);
  if (after.out_of_sequence != before.out_of_sequence) Drop(ctx, ctx.server, DropReason::kGap, env);
  bool ok = after.rnr_naks_sent == before.rnr_naks_sent;  // a sum that was not asked for has no receive
  const bool any = TakeCompletions(ctx, &ok, env);
  if (!ok) EndLeg(ctx, LegFailure::kMessage, env);
  if (any && ctx.state == GroupState::kRunning) AdvanceUp(ctx, env);
  Settle(ctx, env);
}

void OfChild(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) {
  Endpoint& ep = ctx.children[Raw(from)];
  const auto met = MeetPool(ctx, Raw(from), packet, env);
  if (met && met->meeting.kind == Pool::Meeting::Kind::kWait) {
    ep.nak_sent = true;  // what comes behind it is no gap that a NAK would close
    return Defer(ctx, ep, ep.progress.up_epsn, env);
  }
  InPool contributions(met);
  env.contributions = &contributions;
  AugmentedLogic().OnPacket(ctx, from, packet, env);
  env.contributions = nullptr;
  Settle(ctx, env);
  if (contributions.evicted() != nullptr) Proceed(*contributions.evicted(), env);
}

class Pooled final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    if (from == kServer) return OfServer(ctx, packet, env);
    OfChild(ctx, from, packet, env);
  }

  void OnTimer(Context& ctx, Env& env) const override {
    AugmentedLogic().OnTimer(ctx, env);
    Settle(ctx, env);
  }
};

}  // namespace

void TakeAway(const Pool::Evicted& sum, Env& env) {
  env.pool->LeavePlace(sum.buffer);
  Proceed(Evict(sum, env), env);
}

const ModeLogic& PooledMode() {
  static const Pooled mode;
  return mode;
}

}  // namespace epic::engine
