#include "examples/leaf_buffered_mode/leaf_buffered.h"

#include "incengine/modules/admit.h"
#include "incengine/modules/pipe.h"
#include "incengine/modules/transmit.h"

namespace epic::engine {
namespace {

// Results [from, to) once more to one child, from the buffer. False if it has lost one of them.
bool AnswerFromBuffer(Context& ctx, Endpoint& child, Index from, Index to, Env& env) {
  for (Index i = child.out.Next(from); i < to; i = child.out.Next(i + 1)) {
    if (!SendDown(ctx, child, i, /*ack_req=*/true, env)) return false;
    ++ctx.counters.repeats;
    ++ctx.counters.replicated_packets;
  }
  return true;
}

// The row that differs: a packet that has been counted, of which the child lacks the result, and the result
// is here. What has been acknowledged to the child is not asked for: mode II acknowledges it again.
bool RepeatedUpData(Context& ctx, Endpoint& child, Psn psn, Env& env) {
  const Index index = UpIndexOf(child, psn);
  if (index < 0 || index >= child.progress.up_epsn || index >= ctx.results_end) return false;
  if (!child.out.Carries(index) || index < child.in.Next(child.progress.up_told)) return false;
  if (!AnswerFromBuffer(ctx, child, index, index + 1, env)) return false;
  ++child.counters.duplicates;
  Drop(ctx, child, DropReason::kDuplicate, env);
  child.repair.repeating = child.in.Next(index + 1) < child.progress.up_epsn;
  child.repair.heard_at = env.now;
  child.repair.repeat_ack_at = kNever;
  return true;
}

// A child switch asks for results from g on.
bool RequestOfASwitch(Context& ctx, Endpoint& child, const roce::Packet& packet, Env& env) {
  if (packet.aeth.syndrome != roce::kSyndromeNakSequence) return false;
  const auto index = child.out.IndexOf(packet.bth.psn);
  return index && *index < ctx.results_end && AnswerFromBuffer(ctx, child, *index, ctx.results_end, env);
}

// A result that is new here goes into the buffer, after mode II has let it pass.
void DownData(Context& ctx, const roce::Packet& packet, Env& env) {
  const Index before = ctx.results_end;
  TranslatedMode().OnPacket(ctx, kParent, packet, env);
  if (ctx.results_end == before) return;
  const Index index = ctx.results_end - 1;
  const auto position = Locate(ctx, index);
  if (position) StoreDown(ctx, index, *position, packet.bth.ack_req, packet.payload, env);
}

class LeafBuffered final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    if (from == kParent && IsSend(packet.bth.opcode)) return DownData(ctx, packet, env);
    if (from != kParent && !ctx.is_root()) {
      Endpoint& child = ctx.children[Raw(from)];
      if (IsSend(packet.bth.opcode)) {
        if (RepeatedUpData(ctx, child, packet.bth.psn, env)) return;
      } else if (packet.bth.opcode == roce::Opcode::kRcAck && !child.config.is_host) {
        if (RequestOfASwitch(ctx, child, packet, env)) return;
      }
    }
    TranslatedMode().OnPacket(ctx, from, packet, env);
  }

  void OnTimer(Context& ctx, Env& env) const override { TranslatedMode().OnTimer(ctx, env); }
};

}  // namespace

const ModeLogic& LeafBufferedMode() {
  static const LeafBuffered mode;
  return mode;
}

}  // namespace epic::engine
