#include "examples/paced_mode/paced.h"

#include "incengine/modules/pipe.h"

namespace epic::engine {
namespace {

constexpr size_t kAtOnce = 2;

// From one turn to the next. All 32 of a switch with 64 children are over before mode II asks anybody what he
// waits for.
Nanos Turn(const Context& ctx) { return ctx.config.prompt_ns / 64; }

// Behind the results that have left to the child, and when it is its turn; kNever: nothing waits. Fields of
// mode III's, which mode II leaves alone; a mode of the product has its own.
Index& GoneEnd(Endpoint& child) { return child.hop.ack_sent; }
Nanos& GoesAt(Endpoint& child) { return child.hop.resend_at; }

// Sends all that waits for those whose turn it is, and arms the timer for the others. A turn that has come
// late, with another result meanwhile, is as any other.
void SendDue(Context& ctx, Env& env) {
  for (Endpoint& child : ctx.children) {
    if (env.now < GoesAt(child)) {
      ArmTimer(ctx, GoesAt(child), env);
      continue;
    }
    for (Index i = child.out.Next(GoneEnd(child)); i < ctx.results_end; i = child.out.Next(i + 1)) {
      if (!SendDown(ctx, child, i, /*ack_req=*/false, env)) {
        Drop(ctx, child, DropReason::kStaleSlot, env);
        continue;
      }
      ++ctx.counters.replicated_packets;
    }
    GoneEnd(child) = ctx.results_end;
    GoesAt(child) = kNever;
  }
}

void NewResult(Context& ctx, uint64_t outs, Index index, std::span<const uint8_t> payload, bool ack_req,
               Env& env) {
  if (const auto position = Locate(ctx, index)) StoreDown(ctx, index, *position, ack_req, payload, env);
  size_t receivers = 0;
  for (size_t c = 0; c < ctx.children.size(); ++c) {
    if ((outs >> c & 1) == 0) continue;
    const auto turn = static_cast<Nanos>(receivers++ / kAtOnce);
    if (GoesAt(ctx.children[c]) == kNever) GoesAt(ctx.children[c]) = env.now + turn * Turn(ctx);
  }
  SendDue(ctx, env);
}

Index LeftTo(const Context&, const Endpoint& child) { return child.hop.ack_sent; }

class Paced final : public ModeLogic {
 public:
  void OnPacket(Context& ctx, EndpointId from, const roce::Packet& packet, Env& env) const override {
    Env own = env;
    own.results = &kInTurns;
    TranslatedMode().OnPacket(ctx, from, packet, own);
  }

  void OnTimer(Context& ctx, Env& env) const override {
    SendDue(ctx, env);
    Env own = env;
    own.results = &kInTurns;
    TranslatedMode().OnTimer(ctx, own);
  }
};

}  // namespace

const ResultWay kInTurns{.send = NewResult, .gone_end = LeftTo};

const ModeLogic& PacedMode() {
  static const Paced mode;
  return mode;
}

}  // namespace epic::engine
