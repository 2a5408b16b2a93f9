#include "incengine/core/invariants.h"

#include "base/check.h"

namespace epic::engine {
namespace {

// Those that are kept are the last ones, without a gap between them.
void CheckInvocations(const Context& ctx) {
  EPIC_CHECK(ctx.invocations.size() <= static_cast<size_t>(kKeptInvocations));
  for (size_t i = 1; i < ctx.invocations.size(); ++i) {
    EPIC_CHECK(ctx.invocations[i].number == ctx.invocations[i - 1].number + 1);
    EPIC_CHECK(ctx.invocations[i].control_index == ctx.invocations[i - 1].end());
  }
}

// A result has the contributions of all; a host cannot have one that does not exist. What a switch has
// acknowledged may be further: it steps over what needs no acknowledgement.
void CheckChild(const Context& ctx, const Endpoint& child) {
  EPIC_CHECK(ctx.results_end <= child.progress.up_epsn && child.progress.up_epsn <= ctx.max_up_epsn);
  EPIC_CHECK(!child.config.is_host || child.progress.down_acked_end <= ctx.results_end);
}

}  // namespace

void CheckInvariants(const Context& ctx) {
  if (ctx.hold.most_slots != 0) {
    EPIC_CHECK(ctx.config.window_messages <= ctx.hold.most_window && ctx.config.slots <= ctx.hold.most_slots);
  }
  if (ctx.terminated) return;  // its queue pairs have the rest
  CheckInvocations(ctx);
  for (const Endpoint& child : ctx.children) CheckChild(ctx, child);
}

}  // namespace epic::engine
