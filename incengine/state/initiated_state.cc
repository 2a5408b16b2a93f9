#include "incengine/state/initiated_state.h"

#include <algorithm>

#include "incengine/state/terminated_state.h"

namespace epic::engine {

uint8_t MostReads(const GroupConfig& config) {
  constexpr uint32_t kMostOfANic = 128;
  return static_cast<uint8_t>(std::min(config.window_messages, kMostOfANic));
}

InitiatedState MakeInitiatedState(const GroupConfig& config, uint64_t at) {
  InitiatedState state{.hosts = {}, .owed_reply = {}};
  for (size_t c = 0; c < config.children.size(); ++c) {
    std::optional<PulledHost>& host = state.hosts.emplace_back();
    if (!config.children[c].is_host) continue;
    const size_t bytes = ReadRingBytes(ShapeOf(config));
    host = PulledHost{.read = MessageRing(at, bytes, RingMessages(config)), .next = {}, .descriptors = {}};
    at += bytes;
    state.pulled |= uint64_t{1} << c;
  }
  return state;
}

}  // namespace epic::engine
