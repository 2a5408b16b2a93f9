// From a tree and the ranks that joined to what every switch is given and every rank is told: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"
#include "incmanager/groups/qpn_pool.h"
#include "incmanager/policies/borne.h"
#include "incmanager/policies/modes.h"
#include "incmanager/policies/reach.h"
#include "incmanager/policies/tree.h"
#include "incmanager/result.h"
#include "incmanager/topology.h"
#include "protocol/abilities.h"
#include "protocol/group_parameters.h"

namespace epic::manager {

// Which way a group's data go; the numbers are those of Path in proto/manager.proto (asserted in
// rpc/convert.cc).
enum class Path : uint8_t { kUnspecified = 0, kAuto = 1, kNetwork = 2, kHosts = 3 };
inline bool IsPath(Path path) { return path >= Path::kAuto && path <= Path::kHosts; }
// "auto", "network", "hosts".
const char* Name(Path path);

// Whose multicast datagrams reach a rank; the numbers are those of DatagramReach in proto/manager.proto.
enum class DatagramReach : uint8_t { kNobodys = 0, kRemote = 1, kAll = 2 };

// What a rank says when it joins; see Join in proto/manager.proto.
struct JoinRequest {
  std::string group;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  Ipv4 ip{};
  uint32_t qpn = 0;
  uint32_t max_path_mtu = 0;
  uint32_t max_outstanding = 0;
  std::string host_name;
  int64_t pid = 0;
  uint32_t join_timeout_ms = 0;
  Mode mode = Mode::kUnspecified;
  bool super_frames = false;
  Path path = Path::kUnspecified;
  uint64_t max_bytes = 0;  // as in GroupSpec, like these
  Abilities needs;         // types alone
  float scale = 0;
  bool int8 = false;
  bool tells_calls = false;
  uint32_t datagram_qpn = 0;  // 0: it neither asks for multicast nor would take it
  DatagramReach datagram_reach = DatagramReach::kNobodys;
  bool datagrams_offered = false;  // it would take it, and does not ask
  uint32_t datagram_receives = 0;  // for so many datagrams it has receives; 0: an earlier library
  bool rejoins = false;            // it comes back when its manager has been away
  uint64_t nonce = 0;              // random, of this join; 0: an earlier library
  std::string wrong;

  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};

// A type or an operation that not all switches of a group have.
struct Lack {
  std::string what;   // "operation product"
  std::string where;  // one of those that lack it, "leaf1 (version 0.1.0)"
};

// The multicast group of a group's ranks; see MulticastGroup there.
struct MulticastGroup {
  struct End {
    Ipv4 ip{};
    uint32_t qpn = 0;
  };
  Ipv4 address{};
  uint32_t qkey = 0;
  std::vector<End> ends;  // by rank
  bool super_frames = false;
  uint32_t receives = 0;  // the fewest of a rank
};

// What it is told when the group runs; see Joined there.
struct JoinedReply {
  uint64_t group_id = 0;
  uint32_t generation = 0;
  Mode mode = kDefaultMode;  // of the group; single switches may differ
  Ipv4 remote_ip{};
  std::string remote_name;  // whose that is, where it is another host's, "h2, for switch leaf1"; else empty
  uint32_t remote_qpn = 0;
  uint32_t send_psn = 0;
  uint32_t recv_psn = 0;
  uint32_t path_mtu = 0;
  uint32_t message_packets = 0;
  uint32_t window_messages = 0;
  uint32_t inline_bytes = 0;
  bool super_frames = false;
  uint32_t start_messages = 0;
  Abilities abilities = Abilities::All();  // that all switches have
  std::vector<Lack> lacks;                 // of all others
  Path path = Path::kNetwork;              // that the group takes
  std::string path_reason;                 // why it goes by the hosts, or why no call may
  bool hosts_reach = false;                // by the network's path: calls may go by the hosts
  float scale = 0;                         // as in GroupSpec
  bool int8 = false;                       // the same
  uint32_t levels = 0;                     // of switches, in its tree
  bool asks = false;                       // its memory in switches is in blocks: calls with data ask for it
  std::optional<MulticastGroup> multicast;
  Failure no_multicast;  // why none, if some rank asks for it or would take it
  std::string secret;    // with which it may come back; empty: it may not
  bool durable = false;  // also to the next manager
};

// One end of a tree edge as its switch sees it; see EndpointConfig in proto/switch.proto.
struct EndpointPlan {
  uint32_t local_qpn = 0;
  Ipv4 remote_ip{};
  uint32_t remote_qpn = 0;
  Ipv4 borne_ip{};  // that its switch bears at it, another host's; 0: the switch's own
  Mac remote_mac{};
  std::string port;
  std::string ingress_port;
  uint32_t in_psn = 0;
  uint32_t out_psn = 0;
  bool is_host = false;
  bool super_frames = false;
  std::vector<uint32_t> ranks;
  double rate_gbps = 0;  // of a child: of the slowest link that the edge crosses (TellRates)
};

// The fallback server of a group whose payloads lie in a pool.
struct GroupServer {
  NodeId host = kNoNode;
  uint64_t bytes = 0;      // that it takes of the host's memory
  bool of_a_rank = false;  // the host is one of the group's
  bool made = false;       // the host has it
  Footprint footprint;     // of the leg
};

// One switch's context.
struct ContextPlan : GroupParameters {
  NodeId node = kNoNode;
  NodeId parent_node = kNoNode;  // at the root: none
  uint32_t start_messages = 0;   // for the ranks: switches have room for W
  uint32_t inline_bytes = 0;     // for the ranks: switches go by what headers say
  std::optional<EndpointPlan> parent;
  std::vector<EndpointPlan> children;
  // Of a group whose payloads lie in a pool: the leg. Its remote QPN is the host's answer.
  std::optional<EndpointPlan> server;
  uint64_t arena_bytes = 0;  // as the switch answered; 0 until then
  PaperBuffer paper;         // what the paper asks for instead
};

struct GroupPlan {
  std::vector<ContextPlan> contexts;  // the root first
  std::vector<JoinedReply> replies;   // by rank
  // Edges whose one end takes super-frames and the other does not: "leaf1:swp3 does, h0 does not".
  std::vector<std::string> half_super_frames;
};

// What the plan crosses. tables: ComputeForwarding.
Footprint FootprintOf(const Topology& topology, const std::vector<Forwarding>& tables, const GroupPlan& plan);

// What the leg between a switch and a server crosses.
Footprint FootprintOfLeg(const Topology& topology, const std::vector<Forwarding>& tables, NodeId node,
                         const EndpointPlan& server);

// The QPNs at a context's switch that are its: of the parent, the children and the server, as far as there
// are any, in this order.
std::vector<uint32_t> LocalQpnsOf(const ContextPlan& context);

// Sets the rate of each edge.
void TellRates(const Topology& topology, const std::vector<Forwarding>& tables, GroupPlan* plan);

// Sets in the replies what is each rank's own: the end of its edge at its switch. Those of a group by the
// hosts have none.
void TellEnds(const Topology& topology, GroupPlan* plan);

// Switches that a result passes on its way from the farthest rank to the root, that included.
uint32_t LevelsOf(const GroupPlan& plan);

// The modes of single switches, where they differ from their group's.
using SwitchModes = std::map<NodeId, Mode>;

// The ends of links at switches whose ports carry super-frames.
using SuperFramePorts = std::set<LinkEnd>;

// The low bytes of QPNs at switches where they are not free to choose.
using LowBytes = std::map<NodeId, uint8_t>;

// The low byte of a context's QPNs.
uint8_t LowByteOf(const ContextPlan& context);

// Gives every edge its two QPNs, those of one switch with the same low byte, and a PSN per direction: random,
// or start_psn for all. `common` carries what
// all contexts share, but for the modes of switch_modes; a server of it gets a QPN and PSNs like a child, of
// the same low byte. borne: what ChooseBorne says of the tree; where switches bear addresses, their QPNs are
// from the pool's range for that. Super-frames are for edges that are one link, without a router, with a port
// that carries them at each switch, and a rank that says so at the host. Errors: kNoResource naming a switch
// whose QPNs are used up (those taken are given back).
Result<GroupPlan> MakePlan(const Topology& topology, const Tree& tree, const ContextPlan& common,
                           const SwitchModes& switch_modes, const std::vector<JoinRequest>& ranks,
                           const std::vector<Borne>& borne, const SuperFramePorts& super_frame_ports,
                           const LowBytes& low_bytes, std::optional<uint32_t> start_psn, Nanos now,
                           std::mt19937_64* random, QpnPool* qpns);

// Gives the QPNs of a plan back; they rest in quarantine before they are used again.
void ReleasePlan(const GroupPlan& plan, Nanos now, QpnPool* qpns);

}  // namespace epic::manager
