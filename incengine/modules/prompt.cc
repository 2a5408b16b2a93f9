#include "incengine/modules/prompt.h"

#include <algorithm>

#include "incengine/modules/position.h"
#include "incengine/modules/progress.h"
#include "incengine/modules/transmit.h"
#include "roce/rnr_timer.h"

namespace epic::engine {

bool OwesData(const Context& ctx, const Endpoint& child) {
  if (ctx.state != GroupState::kRunning) return false;
  if (child.progress.up_epsn > (ctx.is_root() ? ctx.results_end : UpDue(ctx))) return false;
  // Nobody who keeps to the window has it to send yet: of an AllGather siblings' parts may lie before it.
  if (child.progress.up_epsn >= ResultDue(ctx) + Window(ctx)) return false;
  if (child.progress.up_epsn < ctx.max_up_epsn) return true;
  if (child.progress.up_epsn >= child.in.next_index()) return false;
  const auto position = Locate(ctx, child.progress.up_epsn);
  return position && IsTracked(*position) && ctx.results_end > position->invocation->control_index;
}

void AskHost(const Context& ctx, Endpoint& host, Env& env) {
  if (host.repair.repeating && env.now < host.repair.heard_at + kRepeatingFor * ctx.config.prompt_ns) {
    SendNak(host, host.progress.up_told, env);
  } else {
    SendRnrNak(host, host.progress.up_told, kPromptCode, env);
  }
}

void AskChild(const Context& ctx, Endpoint& child, Env& env) {
  if (child.config.is_host) return AskHost(ctx, child, env);
  SendNak(child, child.progress.up_epsn, env);
}

void HandDown(Context& ctx, Env& env) {
  if (env.now < ctx.handed_down_at + ctx.config.prompt_ns / 4) return;
  ctx.handed_down_at = env.now;
  const Index due = UpDue(ctx);
  for (Endpoint& child : ctx.children) {
    if (child.progress.up_epsn > due) continue;
    ++child.counters.prompts;
    AskChild(ctx, child, env);
  }
}

uint8_t WaitCode(const Context& ctx, uint32_t backoff) {
  constexpr uint32_t kMostDoublings = 10;
  const Nanos wait = ctx.config.prompt_ns / 16 << std::min(backoff, kMostDoublings);
  uint8_t code = kPromptCode;
  while (code < kLastWaitCode && roce::RnrTimerNanos(code + 1) <= wait) ++code;
  return code;
}

void TellToWait(const Context& ctx, Endpoint& host, Env& env) {
  if (env.now < host.repair.rnr_allowed_at) return;
  const uint8_t code = WaitCode(ctx, host.repair.rnr_backoff++);
  host.repair.rnr_allowed_at = env.now + roce::RnrTimerNanos(code) / 2;
  SendRnrNak(host, host.progress.up_told, code, env);
}

}  // namespace epic::engine
