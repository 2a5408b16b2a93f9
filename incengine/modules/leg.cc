#include "incengine/modules/leg.h"

#include <algorithm>

#include "incengine/modules/buffer.h"
#include "incengine/modules/transmit.h"
#include "protocol/fallback.h"

namespace epic::engine {
namespace {

constexpr uint32_t kLegKey = 1;

uint64_t AddressOf(const PooledState& state, uint32_t buffer) {
  return buffer == kOwnBuffer ? kOwnAddress : uint64_t{buffer} * state.buffer_bytes;
}

// The pool's buffers, and the group's own; the server has no access to them.
class LegMemory final : public roce::Memory {
 public:
  LegMemory(const Context& ctx, Env& env) : ctx_(ctx), env_(env) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const bool local = access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite;
    const bool own = address >= kOwnAddress;
    const uint64_t at = own ? address - kOwnAddress : address;
    const uint64_t all = own ? OwnBufferBytes(ctx_.config.path_mtu)
                             : uint64_t{env_.pool->buffers()} * ctx_.pooled->buffer_bytes;
    if (!local || key != kLegKey || at > all || length > all - at) return std::nullopt;
    const size_t begin = own ? ctx_.arena_offset + ctx_.pooled->own_at : ctx_.pooled->pool_at;
    return env_.arena.At(begin + at, length);
  }

 private:
  const Context& ctx_;
  Env& env_;
};

class LegSink final : public roce::PacketSink {
 public:
  LegSink(Endpoint& server, Env& env) : server_(server), env_(env) {}
  void Send(const roce::Packet& packet) override { SendMade(server_, packet, env_); }

 private:
  Endpoint& server_;
  Env& env_;
};

// Bytes of the control header in front of the data in a buffer: they stay here.
size_t HeaderBytesAt(const Position& position) { return position.control ? HeaderBytesIn(position.at) : 0; }

void Overrun(PooledState& state) {
  if (state.end == LegFailure::kNone) state.end = LegFailure::kOverrun;
  state.qp.Modify({.state = roce::QpState::kErr});
}

void Post(PooledState& state, const roce::SendWr& wr) {
  // There is room: what may be under way is bounded by what the pool lets leave. If there is not, the order
  // of messages is lost, and the leg with it.
  if (state.qp.PostSend(wr) != roce::PostResult::kOk) Overrun(state);
  state.poll = true;
}

bool HasData(const Invocation& invocation) {
  return invocation.layout.packets() > 0 || invocation.layout.inlined_bytes > 0;
}

// Invocations up to this one that are open, and that the server has not heard of.
void PostOpens(Context& ctx, int64_t last) {
  PooledState& state = *ctx.pooled;
  for (const Invocation& invocation : ctx.invocations) {
    if (invocation.number < state.opened_end || invocation.number > last || !HasData(invocation) ||
        invocation.end() <= ctx.results_end) {
      continue;
    }
    const auto bytes = EncodeOpen({.header = invocation.header, .control_index = invocation.control_index});
    roce::SendWr wr{
        .wr_id = kNoBuffer, .opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = bytes};
    wr.imm = LegImmediate(LegMessage::kOpen, invocation.control_index);
    Post(state, wr);
  }
  state.opened_end = std::max(state.opened_end, last + 1);
}

}  // namespace

void PostPart(Context& ctx, Index index, const Position& position, uint32_t buffer, bool last) {
  PooledState& state = *ctx.pooled;
  PostOpens(ctx, position.invocation->number);
  const auto bytes = static_cast<uint32_t>(SumBytes(ctx, position));
  roce::SendWr wr{.wr_id = buffer, .opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = {}};
  wr.imm = LegImmediate(last ? LegMessage::kLast : LegMessage::kPart, index);
  wr.sges.count = 1;
  wr.sges.sge[0] = {AddressOf(state, buffer) + HeaderBytesAt(position), bytes, kLegKey};
  Post(state, wr);
  state.counters.server_bytes_sent += bytes;
}

size_t SumBytesBack(const Context& ctx, const Position& position) {
  return BytesAt(ctx, position) - HeaderBytesAt(position);
}

void PostFetch(Context& ctx, const Fetch& fetch, const Position& position) {
  PooledState& state = *ctx.pooled;
  roce::RecvWr receive;
  receive.sges.count = 1;
  receive.sges.sge[0] = {AddressOf(state, fetch.buffer) + HeaderBytesAt(position),
                         static_cast<uint32_t>(SumBytesBack(ctx, position)), kLegKey};
  if (state.qp.PostRecv(receive) != roce::PostResult::kOk) Overrun(state);
  roce::SendWr wr{.wr_id = kNoBuffer, .opcode = roce::WrOpcode::kSendImm, .sges = {}, .inline_bytes = {}};
  wr.imm = LegImmediate(LegMessage::kFetch, fetch.index);
  Post(state, wr);
}

void TakeLegPacket(Context& ctx, const roce::Packet& packet, Env& env) {
  LegMemory memory(ctx, env);
  ctx.pooled->qp.OnPacket(env.now, packet, memory);
  ctx.pooled->poll = true;
}

void PollLeg(Context& ctx, Env& env) {
  PooledState& state = *ctx.pooled;
  if (state.poll || env.now >= state.qp.next_deadline()) {
    state.poll = false;
    LegMemory memory(ctx, env);
    LegSink sink(ctx.server, env);
    const uint64_t repeated = state.qp.counters().packets_repeated;
    state.qp.Poll(env.now, memory, sink);
    ctx.counters.repeats += state.qp.counters().packets_repeated - repeated;
  }
  const Nanos deadline = state.qp.next_deadline();
  if (deadline != kNever) ArmTimer(ctx, std::max(deadline, env.now), env);
}

void CloseLeg(Context& ctx) { ctx.pooled->qp.Modify({.state = roce::QpState::kErr}); }

}  // namespace epic::engine
