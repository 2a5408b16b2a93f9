#include "sim/path_rank.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "sim/own_memory.h"

namespace epic::sim {

PathRank::PathRank(const HostPathConfig& config, Host& host, Asks asks)
    : host_(host), asks_(std::move(asks)) {
  host_.AddHosts(config, [this](const GroupCalls::Request& request) { Post(request); });
}

void PathRank::SetConnected(int peer) {
  host_.core().SetConnected(static_cast<uint32_t>(peer));
  untold_.push_back(peer);
}

void PathRank::OnCompletion(Nanos, int peer, const roce::Completion& c) {
  const auto connection = static_cast<uint32_t>(peer);
  if (!c.ok()) {
    // A connection that fails before its group has: nobody else ends it.
    host_.core().Abort();
    return host_.core().OnFlushed(connection);
  }
  host_.core().OnComplete(connection, c.wr_id, c.bytes, c.has_imm ? std::optional(c.imm) : std::nullopt);
}

void PathRank::Poll(Nanos now, Peers& peers) {
  host_.Act(now);
  if (host_.core().failed()) {
    if (!std::exchange(closed_, true)) peers.Close();
    return;
  }
  Ask();
}

// The queue pair stands in line when the world has run the rank's peers.
void PathRank::Post(const GroupCalls::Request& request) {
  const auto sges = SgesOf(request.address, request.length);
  const auto peer = static_cast<int>(request.connection);
  const auto result = request.is_recv ? peers_->PostRecv(peer, {.wr_id = request.wr_id, .sges = sges})
                                      : peers_->PostSend(peer, {.wr_id = request.wr_id,
                                                                .opcode = roce::WrOpcode::kSendImm,
                                                                .sges = sges,
                                                                .imm = request.imm});
  EPIC_CHECK(result == roce::PostResult::kOk);
}

void PathRank::Ask() {
  for (const uint32_t peer : host_.core().TakeWanted()) {
    if (std::ranges::find(asked_, peer) != asked_.end()) continue;
    asked_.push_back(peer);
    asks_.connect(static_cast<int>(peer));
  }
  for (const int peer : std::exchange(untold_, {})) asks_.tell(peer);
}

}  // namespace epic::sim
