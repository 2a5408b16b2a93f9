#include "incengine/modules/prompt.h"

#include <algorithm>

#include "incengine/modules/position.h"
#include "incengine/modules/progress.h"
#include "incengine/modules/transmit.h"
#include "roce/rnr_timer.h"

namespace epic::engine {
namespace {

Index Window(const Context& ctx) {
  return static_cast<Index>(ctx.config.message_packets) * ctx.config.window_messages;
}

}  // namespace

bool OwesData(const Context& ctx, const Endpoint& child) {
  if (ctx.state != GroupState::kRunning) return false;
  if (child.up_epsn > (ctx.is_root() ? ctx.results_end : UpDue(ctx))) return false;
  if (child.up_epsn < ctx.max_up_epsn) return true;
  if (child.up_epsn >= std::min(child.in.next_index(), ResultDue(ctx) + Window(ctx))) return false;
  const auto position = Locate(ctx, child.up_epsn);
  return position && IsTracked(*position) && ctx.results_end > position->invocation->control_index;
}

void AskHost(const Context& ctx, Endpoint& host, Env& env) {
  if (host.repeating && env.now < host.heard_at + kRepeatingFor * ctx.config.prompt_ns) {
    SendNak(host, host.up_told, env);
  } else {
    SendRnrNak(host, host.up_told, kPromptCode, env);
  }
}

void AskChild(const Context& ctx, Endpoint& child, Env& env) {
  if (child.config.is_host) return AskHost(ctx, child, env);
  SendNak(child, child.up_epsn, env);
}

void HandDown(Context& ctx, Env& env) {
  if (env.now < ctx.handed_down_at + ctx.config.prompt_ns / 4) return;
  ctx.handed_down_at = env.now;
  const Index due = UpDue(ctx);
  for (Endpoint& child : ctx.children) {
    if (child.up_epsn > due) continue;
    ++child.counters.prompts;
    AskChild(ctx, child, env);
  }
}

void TellToWait(Endpoint& host, Env& env) {
  if (env.now < host.rnr_allowed_at) return;
  const auto code =
      static_cast<uint8_t>(std::min<uint32_t>(kFirstWaitCode + 2 * host.rnr_backoff, kLastWaitCode));
  ++host.rnr_backoff;
  host.rnr_allowed_at = env.now + roce::RnrTimerNanos(code) / 2;
  SendRnrNak(host, host.up_told, code, env);
}

}  // namespace epic::engine
