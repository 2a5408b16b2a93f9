#include "incengine/core/invariants.h"

#include "base/check.h"
#include "incengine/core/engine.h"

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

void CheckEnd(const TerminatedEndpoint& end) {
  end.received.CheckInvariants();
  EPIC_CHECK(end.told <= end.received.end_number());
  EPIC_CHECK(!end.receiving_at || end.received.Contains(*end.receiving_at, 1));
}

// Mode VI: what has been read of hosts, behind which nothing else is awaited than what is being read.
void CheckReads(const TerminatedState& state) {
  EPIC_CHECK(state.initiated->hosts.size() == state.children.size());
  for (size_t c = 0; c < state.children.size(); ++c) {
    const auto& host = state.initiated->hosts[c];
    EPIC_CHECK(host.has_value() == ((state.initiated->pulled >> c & 1) != 0));
    if (!host) continue;
    host->read.CheckInvariants();
    EPIC_CHECK(host->whole <= host->read.size());
  }
}

// Mode I: each ring, and the sum that is being built in the last of them.
void CheckTerminated(const TerminatedState& state) {
  for (const TerminatedEndpoint& child : state.children) CheckEnd(child);
  if (state.parent) CheckEnd(*state.parent);
  state.sums.CheckInvariants();
  if (state.initiated) CheckReads(state);
  EPIC_CHECK(state.next_child <= state.children.size());
  EPIC_CHECK(!state.sum_at || state.sums.Contains(*state.sum_at, 1));
  EPIC_CHECK(!state.sum_loaded || state.sum_at);
}

void CheckDirections(const Endpoint& endpoint) {
  endpoint.in.CheckInvariants();
  endpoint.out.CheckInvariants();
}

}  // namespace

void CheckInvariants(const Context& ctx) {
  if (ctx.hold.most_slots != 0) {
    EPIC_CHECK(ctx.config.window_messages <= ctx.hold.most_window && ctx.config.slots <= ctx.hold.most_slots);
  }
  if (ctx.terminated) return CheckTerminated(*ctx.terminated);  // its queue pairs have the rest
  CheckInvocations(ctx);
  for (const Endpoint& child : ctx.children) {
    CheckChild(ctx, child);
    CheckDirections(child);
  }
  if (!ctx.is_root()) CheckDirections(ctx.parent);
}

void Engine::CheckInvariants() const {
  arena_.CheckInvariants();
  if (pool_) pool_->CheckInvariants();
  size_t ends = 0, bearing = 0, owners = 0;
  for (const auto& [id, ctx] : groups_) {
    engine::CheckInvariants(ctx);
    EPIC_CHECK(ctx.config.group_id == id);
    if (FindMode(ctx.config.mode)->bears_hosts) ++bearing;
    const auto check_end = [&, group = id](const EndpointConfig& end, EndpointId endpoint) {
      const auto found = by_qpn_.find(Raw(end.local_qpn));
      EPIC_CHECK(found != by_qpn_.end());
      EPIC_CHECK(found->second.group_id == group && found->second.endpoint == endpoint);
      ++ends;
    };
    for (size_t c = 0; c < ctx.children.size(); ++c)
      check_end(ctx.children[c].config, EndpointId{static_cast<uint8_t>(c)});
    if (ctx.config.parent) check_end(*ctx.config.parent, kParent);
    if (ctx.config.server) check_end(*ctx.config.server, kServer);
    if (ctx.config.block == 0) {
      EPIC_CHECK(ctx.hold.has_memory);
      continue;
    }
    // The recorder says who has the memory, and so does he.
    const Block& block = blocks_.at(ctx.config.block);
    EPIC_CHECK(block.owners.contains(id));
    EPIC_CHECK(ctx.hold.has_memory == (block.holder == id));
    EPIC_CHECK(!ctx.hold.has_memory || ctx.arena_offset == block.offset);
    ++owners;
  }
  EPIC_CHECK(ends == by_qpn_.size() && bearing == bearing_groups_);
  for (const auto& [id, block] : blocks_) {
    EPIC_CHECK(!block.owners.empty() && (!block.holder || block.owners.contains(*block.holder)));
    owners -= block.owners.size();
  }
  EPIC_CHECK(owners == 0);
}

}  // namespace epic::engine
