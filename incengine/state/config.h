// What the control plane installs on a switch for one group: plain values, checked once (Validate), then
// trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/psn.h"
#include "base/status.h"
#include "base/types.h"
#include "protocol/abilities.h"
#include "protocol/bounds.h"
#include "protocol/context_memory.h"
#include "protocol/group_parameters.h"
#include "protocol/modes.h"
#include "roce/packet.h"

namespace epic::engine {

using epic::Mode;

// One of the two ends of a tree edge: the end at this switch (EPIC paper, section 3.1).
struct EndpointConfig {
  Qpn local_qpn{};
  Ipv4 remote_ip{};
  Qpn remote_qpn{};
  // The address that this switch bears at this edge, another host's: what the remote endpoint takes for its
  // peer's. 0: the switch's own.
  Ipv4 borne_ip{};
  roce::MacAddress remote_mac{};  // next hop towards remote_ip
  PortId port = kNoPort;          // by which packets to it leave
  PortId ingress_port = kNoPort;  // by which its packets come in; kNoPort: the same
  Psn in_psn;                     // first PSN from the remote endpoint
  Psn out_psn;                    // first PSN to the remote endpoint
  bool is_host = false;
  bool super_frames = false;    // the remote endpoint takes them, and so does whatever is on the way
  std::vector<uint32_t> ranks;  // of a child: those below it, ascending; of a host its own; of a parent none
};

// The only port by which packets of the remote endpoint count.
constexpr PortId IngressPort(const EndpointConfig& endpoint) {
  return endpoint.ingress_port == kNoPort ? endpoint.port : endpoint.ingress_port;
}

// The address of this end of the edge, at a switch whose own is given.
constexpr Ipv4 LocalAddress(const EndpointConfig& endpoint, Ipv4 own) {
  return endpoint.borne_ip == Ipv4{} ? own : endpoint.borne_ip;
}

struct GroupConfig : GroupParameters {
  std::optional<EndpointConfig> parent;  // none at the root
  std::vector<EndpointConfig> children;
  // Of a group whose payloads lie in this switch's pool: the end of the leg to its fallback server
  // (docs/PROTOCOL-MODE-V.md). None: they lie in its own slots.
  std::optional<EndpointConfig> server;
  Abilities abilities = Abilities::All();  // of this switch: calls that need others are refused (UNSUPPORTED)
};

// What its arena bytes depend on.
inline ContextShape ShapeOf(const GroupConfig& config) {
  return {.mode = config.mode,
          .reproducible = config.reproducible,
          .accumulator_mtus = config.accumulator_mtus,
          .path_mtu = config.path_mtu,
          .message_packets = config.message_packets,
          .window_messages = config.window_messages,
          .slots = config.slots,
          .children = static_cast<uint32_t>(config.children.size()),
          .has_parent = config.parent.has_value()};
}

// Its region of the arena.
inline ContextMemory MemoryOf(const GroupConfig& config) { return epic::MemoryOf(ShapeOf(config)); }
inline size_t ArenaBytes(const GroupConfig& config) { return MemoryOf(config).bytes(); }

// Of the longest message: MU.
constexpr uint64_t MessageBytes(const GroupConfig& config) {
  return uint64_t{config.message_packets} * config.path_mtu;
}

// What the group's calls may need: what this switch has, and has room for while it is combined.
inline Abilities AbilitiesOf(const GroupConfig& config) {
  return config.abilities.Within(config.accumulator_mtus);
}

// Bytes for the sum of a packet while it is built.
size_t AccumulatorRoom(const GroupConfig& config);

// OK, or INVALID_ARGUMENT with a message that names the field: sizes out of range, N not a power of two or
// below 2MW, a QPN used twice, a port that the switch does not have (port_count ports), a block in a mode
// whose memory nobody else can have in between, or with less room than one message needs, a server of a group
// that cannot have its payloads in a pool.
Status Validate(const GroupConfig& config, size_t port_count);

}  // namespace epic::engine
