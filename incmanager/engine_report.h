// What a switch says of itself, its ports and who is at them, as values: what agents report, and what the
// graph, the groups and the manager's replies are made of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "incmanager/policies/modes.h"
#include "incmanager/topology.h"
#include "protocol/abilities.h"

namespace epic::manager {

enum class NeighbourKind : uint8_t { kUnknown, kSwitch, kHost, kBridge };
enum class HeardBy : uint8_t { kUnknown, kLldp, kSecondAddress, kArp };

// What is at a switch's port, as it says of itself: unjudged. See Neighbour in proto/switch.proto.
struct Neighbour {
  NeighbourKind kind = NeighbourKind::kUnknown;
  std::string name;  // empty if not told, as are the others
  std::string port;
  Ipv4 ip{};
  Mac mac{};
  std::string version;
  HeardBy heard_by = HeardBy::kUnknown;

  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// More than any switch has; sums of it stay numbers.
inline constexpr uint64_t kMostArenaBytes = uint64_t{1} << 40;

struct PortState {
  std::string name;
  uint32_t mtu = 0;
  bool up = false;            // with a carrier
  bool super_frames = false;  // it takes them, and sends them in one piece
  std::vector<Neighbour> neighbours;
  uint32_t rate_mbps = 0;  // 0 if it is not known
};

// An endpoint whose packets are all refused; see RefusedEndpoint in proto/switch.proto.
struct RefusedReport {
  uint64_t group_id = 0;
  uint32_t generation = 0;
  uint32_t local_qpn = 0;
  std::string reason;
  std::string port;  // by which the last came in
  Ipv4 source{};
  uint32_t packets = 0;
  Nanos time = 0;  // from the first to the last
};

// Why the leg to a group's fallback server has ended; the numbers are those of LegEnd in proto/switch.proto.
// One that only a later version knows is kOther.
enum class LegEnd : uint8_t { kNone, kMessage, kRefused, kOverrun, kOther };

// A context that a switch says it has.
struct ContextReport {
  std::optional<uint32_t> generation;  // if it says so
  bool stopped = false;                // by SwitchTable.Fail
  LegEnd leg_end = LegEnd::kNone;      // of a group with a fallback server: why the leg has ended
  std::string leg_message;             // the same, for people
};
// By the ids of their groups.
using ContextReports = std::map<uint64_t, ContextReport>;

// The parts of an engine's description that decisions depend on; see EngineInfo in proto/switch.proto.
struct EngineReport {
  std::string name;
  Ipv4 address{};
  Mac mac{};
  uint64_t boot_id = 0;
  uint32_t max_path_mtu = 0;
  uint32_t max_children = 0;
  ModeSet modes;  // that it offers
  std::vector<PortState> ports;
  bool repeated = false;                   // the engine is slow to answer: this is what it said before
  Abilities abilities = Abilities::All();  // that it states
  std::string version;                     // of the engine
  bool by_hosts = true;  // calls of which the ranks only agree there may pass it, their data go by the hosts
  uint64_t arena_bytes = 0;  // of its memory, but for its pool; 0: it does not say
  bool blocks = true;        // of which several groups may own a part (docs/PROTOCOL-BLOCKS.md)
  bool group_ports =
      true;  // it sends frames to a multicast group by the ports that it is told, else it floods
  std::vector<RefusedReport> refused;
  uint32_t pool_buffer_bytes = 0;  // of each buffer of its pool; 0: it has none
};

}  // namespace epic::manager
