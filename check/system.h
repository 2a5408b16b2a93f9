// What is explored: a tree of switches and hosts in given modes, or hosts alone, and the calls that every
// rank makes; with it what every packet of a run must say, computed from the collectives' definitions and not
// by the cores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check/invariant.h"
#include "check/server.h"
#include "commlib/core/host_path.h"
#include "incengine/state/config.h"
#include "incengine/state/pool.h"
#include "protocol/flow.h"
#include "roce/packet.h"
#include "sim/host.h"
#include "sim/world.h"

namespace epic::check {

inline constexpr uint64_t kGroupId = 1;
// Of several.
constexpr uint64_t GroupId(int group) { return kGroupId + static_cast<uint64_t>(group); }
inline constexpr uint64_t kBlock = 1;
// The smallest path MTU that the cores take. Every data packet is full.
inline constexpr uint32_t kPathMtu = 256;

// When a host makes its calls.
enum class CallsMade : uint8_t {
  kTogether,      // all at one moment
  kApart,         // each at any time after the one before it was made
  kAfterResults,  // each at any time after the one before it has ended
};

// A rank that makes the last of the calls with another header than all others.
struct DifferentCall {
  uint32_t rank = 0;
  ControlHeader header;
};

// One for the only switch: payloads of all groups lie in it, and each has a fallback server.
struct PoolSpec {
  uint32_t places = 0;  // 0: there is none
  engine::PoolPolicy policy = engine::PoolPolicy::kPriority;
};

struct SystemConfig {
  // Without switches: calls go between the hosts.
  sim::TreeSpec tree;
  sim::ModeSpec mode = kDefaultMode;
  // With several each has hosts and queue pairs of its own in the same tree, and makes the same calls with
  // other data; in every switch their memory is one block (docs/PROTOCOL-BLOCKS.md), unless there is a pool.
  uint32_t groups = 1;
  PoolSpec pool;
  // Of every rank, in order; INT32 sums, count a multiple of full packets. Those with kInlinedFlag, and no
  // others, are so small that they travel in their control messages. With several groups those with data ask
  // for the block.
  std::vector<ControlHeader> calls;
  // Through switches: most data of an invocation, all parts together; longer calls are made in slices, each
  // of them full packets.
  uint64_t invocation_bytes = kMaxBytes;
  CallsMade calls_made = CallsMade::kTogether;
  uint32_t message_packets = 1;
  uint32_t window_messages = 2;
  // Each host's send window is a message shorter with every M packets acknowledged, down to one, and then W
  // again: so hosts have different ones at the same time. Else it is W.
  bool changes_windows = false;
  uint32_t first_psn = 0xfffffe;  // of every direction
  // Calls travel in the hosts' bounce buffers, as the library's small ones do: an AllReduce is received into
  // the bytes that it is sent from. Else each has buffers of its own.
  bool bounces = false;
  // Groups are made one after the other in the same place; this is which. Each has QPNs and data of its own;
  // with reuse_qpns, which no manager that keeps to the quarantine allows, only data.
  uint32_t life = 0;
  bool reuse_qpns = false;
  // Between the hosts: by which their calls go, all of them by ring, doubling or multicast.
  Algorithm algorithm = Algorithm::kRing;
  // By multicast: 0, and all datagrams are sent at once, or so many tokens hold them back.
  uint32_t tokens = 0;
  std::optional<DifferentCall> different;  // between the hosts
  // By which nothing is judged: a state or step that breaks one of them counts as right. A core that stops at
  // a check of its own cannot go on, so with kCore the step is the last of its branch.
  InvariantSet without;
};

// A packet that a direction of an edge carries: the one at this place in its order of PSNs.
struct Carried {
  Index index = 0;
  bool has_data = false;  // it takes a slot
  bool tracked = false;   // its senders learn of its arrival from acknowledgements of its receivers
  // At a host: its result is received into the bytes that it is sent from.
  bool shares_bytes = false;
  roce::Opcode opcode = roce::Opcode::kRcSendOnly;
  uint32_t imm = 0;
  std::vector<uint8_t> payload;  // what it must carry, whichever way it came about
  bool is_control = false;       // of a control message
  bool is_request = false;
  // Or this: of a request that a switch has found the block taken for, and of its reply. Else empty.
  std::vector<uint8_t> busy = {};
};

// A control packet that goes through the switches, with what follows it.
struct Invocation {
  size_t call = 0;
  ControlHeader header;  // as it is on the wire, but for its number
  uint64_t first = 0;    // of the call's elements in each part, that with which this slice begins
};

// An edge of the tree, numbered by its lower end: that of node n is n - 1; behind those of one group come
// those of the next. Between the hosts: a pair of peers, of which the lower rank counts as the parent, and
// the ranks below are none.
struct Edge {
  // By multicast there are several between two hosts: of the exchange, of the fetch ring, and of datagrams,
  // the only one on which something may go wrong.
  // kLeg: from the switch to a fallback server, which counts as a child without ranks.
  enum class Kind : uint8_t { kOnly, kFetchRing, kDatagrams, kLeg };
  Kind kind = Kind::kOnly;
  int group = 0;
  int child = 0;
  int parent = 0;
  PortId parent_port = 0;
  PortId child_port = 0;
  std::vector<uint32_t> ranks;  // below
  std::vector<Carried> up;
  std::vector<Carried> down;
};

class System {
 public:
  explicit System(const SystemConfig& config);

  const SystemConfig& config() const { return config_; }
  int switches() const { return static_cast<int>(config_.tree.switch_parent.size()); }
  int groups() const { return static_cast<int>(config_.groups); }
  // Of each group.
  int hosts() const { return static_cast<int>(config_.tree.rank_switch.size()); }
  // The switches, then each group's hosts, then the groups' servers.
  int nodes() const { return hosts_end() + (has_pool() ? groups() : 0); }
  int hosts_end() const { return switches() + groups() * hosts(); }
  bool has_pool() const { return config_.pool.places > 0; }
  const std::vector<Edge>& edges() const { return edges_; }
  bool is_host(int node) const { return node >= switches() && node < hosts_end(); }
  bool is_server(int node) const { return node >= hosts_end(); }
  // Of a host.
  int GroupAt(int node) const { return (node - switches()) / hosts(); }
  uint32_t RankAt(int node) const { return static_cast<uint32_t>((node - switches()) % hosts()); }
  // Calls go between the hosts: there is no switch.
  bool by_hosts() const { return switches() == 0; }
  bool by_multicast() const { return by_hosts() && config_.algorithm == Algorithm::kMulticast; }
  // Whether an edge has what happens to packets.
  bool HasFaults(const Edge& edge) const { return !by_multicast() || edge.kind == Edge::Kind::kDatagrams; }
  bool Judges(Invariant invariant) const { return !config_.without[static_cast<size_t>(invariant)]; }
  // "root", "leaf1", "host0"; with several groups "host0 of group 1".
  std::string NodeName(int node) const;

  // The edge at a node's port.
  const Edge& EdgeAt(int node, PortId port) const { return edges_[EdgeNumber(node, port)]; }
  size_t EdgeNumber(int node, PortId port) const {
    return static_cast<size_t>(ports_[static_cast<size_t>(node)][port]);
  }
  size_t ports(int node) const { return ports_[static_cast<size_t>(node)].size(); }
  // By which a packet comes to a node.
  PortId PortOf(int node, const roce::Packet& packet) const;

  // The call as a rank makes it.
  const ControlHeader& CallOf(size_t call, uint32_t rank) const {
    const auto& different = config_.different;
    const bool differs = different && different->rank == rank && call + 1 == config_.calls.size();
    return differs ? different->header : config_.calls[call];
  }
  // What the calls come to through switches, if each is granted what it asks for: in front of one that asks
  // its request, and all its slices.
  std::vector<Invocation> Invocations() const;
  // Whether the calls ask for the block.
  bool asks() const { return groups() > 1 && !has_pool(); }
  // With which every rank's call must be refused, between the hosts, since one rank's differs; empty if none
  // does.
  std::optional<ControlHeader> RefusalOf(size_t call) const;
  // What a rank gives to a call and what it must have after it.
  std::vector<uint8_t> SendBuffer(size_t call, uint32_t rank, int group = 0) const;
  std::vector<uint8_t> Expected(size_t call, uint32_t rank, int group = 0) const;

  // To be installed on a switch, and the host's end.
  engine::GroupConfig GroupOf(int node, int group = 0) const;
  sim::HostConfig HostOf(int node) const;
  // Of the switch, and a server's end of the leg to it.
  engine::PoolConfig PoolOf() const;
  Server ServerOf(int node) const;
  // The path between the hosts of a host whose call finds the block taken. Nobody ever connects it.
  HostPathConfig UnconnectedPathOf(int node) const;
  // A host's path to other hosts, and its queue pair to the one at a port, which can send and receive.
  HostPathConfig PathOf(int node) const;
  roce::QueuePair PeerQueuePair(int node, PortId port) const;
  // Of a group's endpoint at `node` of its edge to a neighbour.
  Qpn QpnAt(int node, int neighbour, int group = 0) const;
  // The other end of an edge, and the queue pair of it there.
  int PeerOf(int node, const Edge& edge) const { return edge.child == node ? edge.parent : edge.child; }
  Qpn QpnAtPeer(int node, const Edge& edge) const {
    return QpnAt(PeerOf(node, edge), node, edge.group + (by_hosts() ? static_cast<int>(edge.kind) : 0));
  }
  // The address under which its switch speaks to a host: the switch's, or that of another host.
  Ipv4 SwitchAddressAt(int host) const;
  Ipv4 AddressOf(int node) const { return Ipv4{0x0a000001u + static_cast<uint32_t>(node)}; }

  // What data become when ranks change places: node n becomes to[n].
  void Relabel(std::span<const int> to, std::span<uint8_t> data) const;

  // What is wrong with a data packet that a node sends by a port, from which it has taken so many packets in
  // order, if anything is.
  std::optional<Breach> JudgeData(int node, PortId port, const roce::Packet& packet, int64_t taken) const;
  // Whether the edge is one by which a switch reads and writes a host's memory.
  bool IsPulled(const Edge& edge) const;
  // What is wrong with an ACK or NAK of a node that has taken so many packets from that port in order.
  std::optional<Breach> JudgeAck(const roce::Packet& packet, int64_t taken) const;

 private:
  // An element of what is known of a part when these ranks' contributions are: reductions, or the root's
  // copy.
  uint64_t ElementOf(size_t call, int64_t part, uint64_t at, std::span<const uint32_t> ranks,
                     int group) const;
  std::vector<Carried> ControlMessage(const Invocation& invocation, std::span<const uint32_t> ranks,
                                      Index first, int group) const;
  uint64_t InlineBytes() const;
  size_t ElementBytes() const;
  uint64_t ElementsOfPacket() const { return kPathMtu / ElementBytes(); }
  uint64_t Element(size_t call, uint32_t rank, int64_t part, uint64_t at, int group) const;
  std::vector<uint8_t> Reduced(size_t call, int64_t part, int64_t packet, std::span<const uint32_t> ranks,
                               int group = 0) const;
  uint64_t BounceBytes() const;
  static std::vector<Carried> WithoutData(std::vector<Carried> carried);
  std::optional<Breach> JudgePulled(int node, const Edge& edge, const roce::Packet& packet) const;
  std::optional<Breach> JudgeWrite(const Edge& edge, const sim::PlaceOfPulled& place,
                                   const roce::Packet& packet) const;
  void LayOut(Edge& edge) const;
  void LayOutTree(int group);
  void LayOutServers();
  void LayOutHosts();
  void LayOutMulticast();
  void AddPorts(Edge& edge);
  ControlHeader SaidBy(size_t call, uint32_t begin, uint32_t end) const;
  std::optional<Carried> ExchangeMessage(size_t call, uint32_t from, uint32_t to) const;
  Carried RingMessage(size_t call, uint32_t from, int64_t step, int64_t piece) const;
  std::vector<Carried> Messages(uint32_t from, uint32_t to) const;
  std::vector<Carried> Direction(std::span<const Invocation> invocations, std::span<const uint32_t> ranks,
                                 bool up, int group) const;
  const Carried& ContentsAtHost(const Edge& edge, const Carried& sent, int64_t taken) const;

  SystemConfig config_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> ports_;  // by node and port: the edge
};

}  // namespace epic::check
