#include "incengine/state/pooled_state.h"

#include "incengine/state/connect.h"
#include "protocol/context_memory.h"
#include "protocol/fallback.h"

namespace epic::engine {

PooledState MakePooledState(const GroupConfig& config, Ipv4 address, const Pool& pool) {
  // Parts, what asks for sums, and for each part perhaps two calls that the server has not heard of.
  constexpr uint32_t kAsked = Pool::kMostResults + 1;
  const Queues queues{
      .sends = 3 * Pool::kMostLeaving + kAsked, .receives = kAsked, .inline_bytes = kOpenBytes};
  return {.qp = Connect(config, *config.server, address, queues, {}),
          .pool_at = pool.at(),
          .buffer_bytes = pool.config().buffer_bytes,
          .own_at = MemoryOf(config).own_at(),
          .held = {},
          .whole = {},
          .fetching = {}};
}

}  // namespace epic::engine
