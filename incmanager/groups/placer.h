// Where a group goes, in which sizes, and why it goes nowhere else: through switches, or between its hosts
// (docs/DEPLOY.md, "Which path a group takes", "Memory to fit" and "What a group would get"). Groups as
// values in, ways and reasons out.
//
// Always: nothing is changed, and nothing is kept beyond references to what it reads, so that the same
// question has the same answer until that changes. Each switch of a way through switches may take part, has
// what the group needs, and has room for its context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "incmanager/failure.h"
#include "incmanager/groups/group.h"
#include "incmanager/groups/lending.h"
#include "incmanager/groups/plan.h"
#include "incmanager/groups/switch_table.h"
#include "incmanager/policies/explain.h"
#include "incmanager/policies/one_switch.h"
#include "incmanager/policies/place.h"
#include "incmanager/policies/tenants.h"
#include "incmanager/policies/window.h"
#include "incmanager/result.h"
#include "incmanager/topology.h"

namespace epic::manager {

// Through switches, before anything is taken for it.
struct NetworkWay {
  Tree tree;
  SwitchModes modes;
  uint32_t path_mtu = 0;
  Window window;
  std::vector<Borne> borne;         // by rank, in modes whose switches bear hosts' addresses; else none
  std::vector<uint64_t> bytes;      // of each switch of the tree, by Tree::inner
  std::vector<BlockChoice> blocks;  // the same, of policy temporal; else none
  LowBytes low_bytes;               // of the blocks that it shares: a block is of one core
  SuperFramePorts super_frame_ports;
  std::optional<EndpointPlan> leg;    // to the server, without QPNs and PSNs
  std::optional<GroupServer> server;  // of a group whose payloads lie in a pool
  uint64_t width_kbps = 0;            // 0: not known
};

// Between the hosts.
struct HostsWay {
  Footprint footprint;
  uint32_t path_mtu = 0;
};

// What all switches of a plan have, and of all else one that lacks it.
struct Common {
  Abilities abilities;
  std::vector<Lack> lacks;
  std::vector<Lack> by_switch;  // all at once that each of them is the first to lack
};

// What a group would get if its ranks joined now.
struct Placement {
  std::vector<RootChoice> roots;   // every switch, by NodeId
  Path path = Path::kUnspecified;  // kNetwork or kHosts; else it would fail
  std::string path_reason;         // of kHosts
  NodeId root = kNoNode;           // of kNetwork, like this
  uint32_t switches = 0;           // that would aggregate
  Mode mode = Mode::kUnspecified;
  Policy policy = Policy::kUnspecified;
  NodeId server = kNoNode;  // of kNetwork in a mode with a pool: the host that would be the fallback server
  uint64_t server_bytes = 0;
  bool server_of_a_rank = false;
  Failure failure;
  std::string no_multicast;  // why its ranks could have no multicast if they asked for it; empty: they could
  std::string flooded;       // of kHosts: why they would have it only then; empty: also if they did not ask
};

// What a Placer reads from.
struct PlacerSources {
  const Topology& topology;
  const SwitchTable& switches;
  const std::vector<Forwarding>& tables;  // as the network forwards, by NodeId
  const Load& load;                       // what groups have
  const Lending& lending;                 // the same, of hosts' memory
  const Tenants& tenants;
  const GroupOptions& options;
};

// IPv4, UDP, BTH, immediate and ICRC around a packet's payload.
inline constexpr uint32_t kAroundPayload = 20 + 8 + 12 + 4 + 4;

// A port as its switch's engine has told of it. Both live as long as the switch table does not change.
struct SwitchPort {
  const EngineReport* engine = nullptr;
  const PortState* port = nullptr;
};

class Placer {
 public:
  // All of it outlives this.
  explicit Placer(const PlacerSources& from) : from_(from) {}

  // Of a group that goes neither way, since a rank's host is not where it is to be; with this code.
  Failure Misplaced(const Group& group, ErrorCode code) const;

  // choices: if given, what there is to say of each switch as the root is put there. Errors: those of
  // BuildTree, BuildOneSwitchTree or Place, ChooseBorne and ChooseWindow; kMtu; kNoResource naming a switch
  // with too little memory, or the tenant's limit; kUnsupported of a mode that policy temporal cannot have.
  Result<NetworkWay> WayOfNetwork(const Group& group, std::vector<RootChoice>* choices = nullptr) const;
  // Of policy temporal: why calls that find their memory taken could not go between the hosts with this path
  // MTU. Errors: those of WayOfHosts.
  Failure RefusesHosts(const Group& group, uint32_t path_mtu) const;
  Common CommonOf(const Group& group) const;

  // The way between the hosts, with this path MTU (0: the largest that it carries). Errors: kNoTree naming
  // two hosts and what is between them, kUnsupported (too many ranks), kMtu.
  Result<HostsWay> WayOfHosts(const Group& group, uint32_t path_mtu) const;
  // The way of a group that goes by the hosts. refused: why not through switches; ok if that was not tried.
  // Errors: those of WayOfHosts, behind the refusal.
  Result<HostsWay> ChooseHostsWay(const Group& group, const Failure& refused) const;
  // Of a group whose plan goes through switches, which may lack what a call needs: why its hosts may not do
  // that call, with the path MTU of all its connections. Empty if they may.
  std::string WhyNotByHosts(const Group& group) const;
  // Whether all ends of all links from one host to another carry super-frames, the hosts' own left aside:
  // those speak for themselves. On one and the same host nothing does.
  bool CarriesSuperFrames(NodeId from, NodeId to) const;

  // Why a group that has taken a path, and of whose ranks some ask for it, can have no multicast: what a NIC
  // does not receive, who does not ask, who has too few receives, or what is between the hosts. kUnsupported
  // naming rank or hosts; kMtu naming a link that datagrams of the group's path MTU do not pass. Where none
  // asks, and some would take it: the same, or two ranks on a host, or a switch that does not know of group
  // ports.
  Failure RefusesMulticast(const Group& group) const;
  // Whether its hosts, each of one rank, and all links by which they are sent multicast take super-frames.
  bool MulticastCarriesSuperFrames(const Group& group) const;

  // Of what a group that has been placed crosses: kLinkLost if one of its links is gone, or if its tree edges
  // have another way now though nothing is broken on the one that they were told. What is broken may come
  // back.
  Failure Moved(const Footprint& footprint) const;

  // Of a spec with defaults, and with a host for each rank. What only ranks and switches can say is not
  // known: the memory of switches that have not said it, their QPNs, and what the ranks' NICs carry.
  Placement Explain(const GroupSpec& spec) const;

 private:
  bool LinkCarriesSuperFrames(LinkEnd link) const;
  // As RefusesMulticast, of the hosts and what is between them alone.
  Failure RefusesMulticastAmong(const Group& group) const;
  // Why the frames of its multicast group would not leave all switches between its hosts by its members'
  // ports alone, or might not pass; empty if they would.
  std::string WhyFlooded(const Group& group) const;
  std::vector<SwitchOffer> Offers(const GroupSpec& spec, const SwitchModes& modes) const;
  std::string LacksBlocks(NodeId node, Mode mode) const;
  Result<NetworkWay> WayByShortest(const Group& group, std::vector<SwitchOffer> offers,
                                   std::vector<RootChoice>* choices) const;
  Result<NetworkWay> WayByTiers(const Group& group, const std::vector<SwitchOffer>& offers,
                                std::vector<RootChoice>* choices) const;
  // placer_pool.cc.
  Result<NetworkWay> WayByOneSwitch(const Group& group, std::vector<SwitchOffer> offers,
                                    std::vector<RootChoice>* choices) const;
  struct ServerAt {
    NodeId host = kNoNode;
    uint64_t bytes = 0;
    bool of_a_rank = false;
    HostEdge edge;  // from the switch that sums
  };
  Result<ServerAt> ServerOf(const Group& group, const NetworkWay& way,
                            const std::vector<SwitchOffer>& offers) const;
  Result<NetworkWay> SizesOf(const Group& group, Tree tree, const std::vector<SwitchOffer>& offers) const;
  Result<Window> WindowOf(const Group& group, const Tree& tree, uint32_t path_mtu) const;
  Result<uint32_t> PathMtuOf(const Group& group, const NetworkWay& way) const;
  Result<uint32_t> PathMtuOf(const Group& group, const Footprint& footprint, uint32_t wanted) const;
  // Of the links' ends those at switches; and of the links between a switch's port and a host.
  std::vector<SwitchPort> PortsOf(const Footprint& footprint) const;
  std::vector<SwitchPort> PortsTo(NodeId at, const std::string& port, NodeId host) const;

  const PlacerSources from_;
};

// That the switch has too little memory, in the engine's words (Engine::Install), as if it had been asked.
Failure NoRoom(const std::string& name, uint64_t needed, const SwitchOffer& offer);

}  // namespace epic::manager
