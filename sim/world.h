// Many switches and hosts in one process in virtual time. The switches run the daemon's own engine, the hosts
// the host library's own core on the RC transport; links have rate and delay, and every packet on them can be
// lost, repeated or held back (sim/links.h). All groups of a world share its switches, hosts and links. Ranks
// may also speak to each other (sim/peers.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "incengine/core/engine.h"
#include "sim/choices.h"
#include "sim/event_queue.h"
#include "sim/fabric.h"
#include "sim/fallback_server.h"
#include "sim/host.h"
#include "sim/links.h"
#include "sim/nic.h"
#include "sim/peers.h"
#include "sim/qpns.h"
#include "sim/tree.h"

namespace epic::sim {

// The realisation of a group: one mode for every switch, or one for each.
struct ModeSpec {
  ModeSpec(engine::Mode mode) : all(mode) {}  // NOLINT: a mode is a specification
  ModeSpec(std::vector<engine::Mode> by_switch) : each(std::move(by_switch)) {}  // NOLINT
  engine::Mode At(size_t s) const { return each.empty() ? all : each[s]; }

  engine::Mode all = kDefaultMode;
  std::vector<engine::Mode> each;
};

// A group beside the first one.
struct GroupSpec {
  ModeSpec mode = kDefaultMode;
  std::vector<int> rank_host;  // per rank; several may be on one host
  // The block of QPNs that it takes, below kQpnBlocks, free of any other group; else a block that none had.
  std::optional<int> qpns = std::nullopt;
  // Its memory in every switch is this block; 0: its own.
  uint64_t block = 0;
  size_t block_bytes = 0;
  // Its payloads lie in the pool of the one switch that its hosts are below, and this host is its fallback
  // server, as no rank's.
  std::optional<int> server_host = std::nullopt;
  // Its ranks call each other alone: no switch has a context of it, and none of their calls may go by one.
  bool by_hosts_alone = false;
};

// A group that somebody else plans and installs on the world's engines: what the world makes are its ranks.
struct PlannedGroup {
  uint64_t id = 0;               // that its contexts have
  int qpns = 0;                  // as GroupSpec's; its ranks have World::QpnOfRank of it
  bool asks = false;             // its memory in switches is in blocks
  std::vector<int> rank_host;    // as GroupSpec's
  std::vector<HostConfig> ends;  // by rank; what all ranks of a world have alike is filled in
};

struct WorldConfig;
// Arena bytes that a group takes of the switch of the world on which it takes most.
size_t ArenaBytesOf(const GroupSpec& spec, const WorldConfig& config);
// With a rank on every host.
GroupSpec FirstGroupOf(const WorldConfig& config);

// What the first group is, with a rank on every host, and what all groups share.
struct WorldConfig {
  ModeSpec mode = kDefaultMode;
  TreeSpec tree = Star(4);
  bool first_group = true;  // there is one from the beginning
  uint32_t path_mtu = 1024;
  uint32_t message_packets = 8;
  uint32_t window_messages = 8;
  Nanos link_delay_ns = 1 * kMicrosecond;
  int64_t bits_per_second = 100'000'000'000;
  Nanos prompt_ns = 200 * kMicrosecond;
  uint8_t host_timeout = 18;          // exponent: 4.096 us * 2^18 is about a second
  bool host_retries_end = false;      // after seven, as the specification has it; rdma_rxe's have no end
  int32_t host_most_outstanding = 0;  // as HostConfig's
  Nanos host_ack_delay_ns = 0;        // if more: hosts share acknowledgements, which wait so long at most
  std::optional<uint32_t> start_psn;  // of every direction; else chosen
  uint64_t bounce_bytes = 4096;       // of the ranks' own buffers, for each open call
  uint64_t inline_bytes = 0;          // most data of a call that travel in its control message
  uint32_t accumulator_mtus = 2;      // at switches, for the sum of a packet
  uint64_t invocation_bytes = kMaxBytes;  // most data of an invocation: longer calls are made in slices
  Nanos packet_life_ns = 0;           // longest time by which a copy that lingers comes late
  size_t arena_bytes = 1 << 20;
  std::optional<engine::PoolConfig> pool;  // of each switch
  SuperFrameLinks super_frames = SuperFrameLinks::kNone;
  // If more: each timer of a switch or a rank runs late by up to so much, half of them; packets do not wait
  // for it. So a machine does that is busy with something else.
  Nanos late_timers_ns = 0;
  // The ranks' queue pairs to their switches stand in line at their hosts' NICs, as those to other ranks
  // always do, and no host sends super-frames. Else what they may send is put on the link at once.
  bool ranks_take_turns = false;
  // A NIC gives what it sends to a group to the members on its own host as well, to the sender too, as
  // softnic's does; that of rdma_rxe gives it to none of them.
  bool returns_multicast = true;
};

// A rank's queue pair for datagrams to the members of groups.
struct DatagramConfig {
  std::vector<Ip> addresses;  // of groups that it is a member of
  uint32_t qkey = 0;
  uint32_t send_depth = 64;
  uint32_t recv_depth = 64;
};

class World {
 public:
  using FaultRule = Links::FaultRule;

  World(const WorldConfig& config, uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Adds a group and returns its number; the first is 0. Its tree is the world's, without switches that have
  // none of its ranks below them.
  int AddGroup(const GroupSpec& spec);
  // Adds the ranks of a group whose contexts are Install's and Remove's to see to; returns its number.
  int AddRanks(const PlannedGroup& planned);
  // At the host, of its queue pair to the switch; qpns: as GroupSpec's.
  Qpn QpnOfRank(int rank, int qpns) const {
    return Qpn{static_cast<uint32_t>(qpns) * kGroupQpns + kLowerQpn +
               static_cast<uint32_t>(switches() + rank)};
  }
  // Its calls with data ask for its memory in switches.
  bool asks(int group) const { return Of(group).asks; }
  // As it was added; `qpns` is there.
  const GroupSpec& spec(int group) const { return Of(group).spec; }

  // The end of a rank, whichever host it is on.
  Host& host(int rank, int group = 0) { return *Of(group).ranks[static_cast<size_t>(rank)]; }
  int ranks(int group = 0) const { return static_cast<int>(Of(group).ranks.size()); }
  int groups() const { return static_cast<int>(groups_.size()); }
  int switches() const { return static_cast<int>(engines_.size()); }

  // Gives a rank queue pairs to other ranks and who drives them; the driver is borrowed.
  Peers& AddPeers(int rank, PeerDriver& driver, const PeerConfig& config = {}, int group = 0);
  // Joins a rank of a group with another by a connection of this number (sim/peers.h): a queue pair at each,
  // in RTS. At any time; of ranks that are alive and have been given peers.
  void ConnectPeers(int rank, int connection, int group = 0);
  // The rank, which has been given peers, sends and receives datagrams. Returns their queue pair's number.
  Qpn AddDatagrams(int rank, const DatagramConfig& config, int group = 0);
  // Switches forward what is sent to the groups of all datagrams added so far by ports of the groups' own, a
  // rank's k-th address by tree k (Fabric::SetGroupPorts). Else they flood it.
  void GiveGroupPorts();
  Peers& peers(int rank, int group = 0) { return *Of(group).peers[static_cast<size_t>(rank)].peers; }
  // Switches forward what is not for themselves, from now on or the first AddPeers.
  const Fabric& Forwards();
  // What they forward, since then.
  const Fabric& fabric() const { return *fabric_; }
  // Whether the link at a node's port carries super-frames.
  bool TakesSuperFrames(int node, PortId port) const { return links_.TakesSuperFrames(node, port); }
  // Packets that came to a host for a queue pair between ranks that it has not.
  int64_t unclaimed() const { return unclaimed_; }

  // Of a group whose payloads lie in a pool.
  const FallbackServer& server(int group) const { return *Of(group).server; }

  // No call of the group is running, and all that its ranks have sent is acknowledged.
  bool AllDone(int group = 0) const;
  // Of a switch that has ranks of the group below it.
  const engine::Context& context(int switch_number, int group = 0) const;
  bool HasContext(int switch_number, int group) const;
  const engine::Engine& engine(int switch_number) const {
    return engines_[static_cast<size_t>(switch_number)];
  }
  uint32_t path_mtu() const { return config_.path_mtu; }
  // For who plans groups: to install, fail and remove their contexts.
  engine::Engine& engine(int switch_number) { return engines_[static_cast<size_t>(switch_number)]; }
  // The tree of such a group has the switch.
  bool IsInTree(int switch_number, const GroupSpec& spec) const;
  Choices& choices() { return choices_; }
  Nanos now() const { return now_; }
  // The same time, not cut.
  Picos clock() const { return clock_; }
  // Put on links so far, and super-frames of them.
  int64_t packets() const { return links_.packets(); }
  int64_t super_frames() const { return links_.super_frames(); }
  // Timers that were set so far and are late.
  int64_t late_timers() const { return late_timers_; }
  int node_of_host(int host) const { return static_cast<int>(engines_.size()) + host; }
  // Of the first group.
  int node_of_rank(int rank) const { return node_of_host(rank); }

  // As of Links.
  void SetFaultRule(FaultRule rule) { links_.SetFaultRule(std::move(rule)); }
  void SetSendWatch(Links::SendWatch watch) { links_.SetSendWatch(std::move(watch)); }

  // Told of every packet that reaches the end of a link, before it acts there; not heard: by a host that
  // stands still, or what is down.
  using ArrivalWatch = std::function<void(const LinkPacket&, bool heard)>;
  void SetArrivalWatch(ArrivalWatch watch) { arrival_watch_ = std::move(watch); }

  // Runs `action` at a time.
  void At(Nanos time, EventQueue::Action action);

  // The host, NIC and all, stands still until then: what arrives is lost, its timers fire late.
  void Freeze(int host, Nanos until);

  // The switch's engine loses all its groups and hears nothing until then, when the manager has told it again
  // where ordinary traffic goes.
  void CrashEngine(int s, Nanos until);
  // The host is gone with the processes of all its ranks, until then; it comes back without them.
  void KillHost(int host, Nanos until);
  // From when on the switch (host) hears and speaks, if nothing else happens to it.
  Nanos switch_up_at(int s) const { return down_until_[static_cast<size_t>(s)]; }
  Nanos host_up_at(int host) const { return down_until_[static_cast<size_t>(node_of_host(host))]; }

  // What the manager does to a group: its context on a switch is stopped, or removed, if it is there.
  void FailContext(int s, int group);
  // And to a rank, which is alive: on both of its ways (Host::Abort, Peers::WantPoll).
  void AbortRank(int rank, int group);
  void RemoveContext(int s, int group);
  // A rank's process ends, and its queue pairs are gone with it.
  void EndRank(int rank, int group);

  // Advances until done() or until nothing can happen before `limit`. True if done.
  bool RunUntil(const std::function<bool()>& done, Nanos limit);

 private:
  // A rank's queue pair to its switch, at the NIC.
  struct RankTurn final : TurnTaker {
    RankTurn(int its_group, int its_rank, Host& its_host) : TurnTaker(its_group, its_rank), host(its_host) {}
    void TakeTurn(Nanos now, roce::PacketSink& sink) override {
      if (host.alive()) host.Poll(now, sink, /*budget=*/1);
    }
    Host& host;
  };
  struct RankPeers {
    std::unique_ptr<Peers> peers;  // of a rank that has been given some
    Nanos deadline = kNever;       // of their one timer
  };
  struct Group {
    GroupSpec spec;
    uint64_t id = 0;  // that its contexts have
    bool asks = false;
    std::vector<std::unique_ptr<Host>> ranks;
    std::vector<Nanos> deadline;  // of each rank's one timer
    std::vector<std::unique_ptr<RankTurn>> turns;
    std::vector<RankPeers> peers;
    std::unique_ptr<FallbackServer> server;  // of a group in a pool
    Nanos server_deadline = kNever;          // of its one timer
    uint32_t peer_qpns = 0;  // given out
  };
  struct Members {
    int number = 0;                          // of the address, among those of a rank
    std::vector<std::pair<int, int>> ranks;  // group and rank
  };
  struct Edge {
    int child_switch = -1;  // or
    int rank = -1;
    int parent = 0;  // switch
  };
  class SwitchEffects;
  class HostSink;
  class NicSink;

  Group& Of(int group) { return groups_[static_cast<size_t>(group)]; }
  const Group& Of(int group) const { return groups_[static_cast<size_t>(group)]; }
  int HostOf(int rank, int group) const { return Of(group).spec.rank_host[static_cast<size_t>(rank)]; }
  bool IsDown(int node) const { return now_ < down_until_[static_cast<size_t>(node)]; }
  // Whether a timer that is armed for a time must be set anew to be there at the deadline.
  bool IsNews(Nanos deadline, Nanos armed) const {
    return deadline != kNever && (armed <= now_ || armed > deadline);
  }
  void Connect(int child, int parent);
  bool LinkTakesSuperFrames(int child) const;
  Ipv4 BorneTo(const Edge& edge, const GroupSpec& spec);
  HostConfig ConnectGroup(const Edge& edge, const GroupSpec& spec, std::vector<engine::GroupConfig>& configs);
  void ConnectServer(const GroupSpec& spec, std::vector<engine::GroupConfig>& configs);
  HostConfig WithOwn(HostConfig end);
  int AddRanks(const GroupSpec& spec, const PlannedGroup& planned);
  void Transmit(int node, PortId port, const roce::Packet& packet, uint16_t ip_id, bool joins);
  void Arrive(const LinkFrame& frame);
  void PollRank(int group, int rank);
  void SettleRank(int group, int rank);
  void PollServer(int group);
  bool WantsPoll(int group, int rank) const;
  void PollRanks(bool all);
  Nanos RunsAt(Nanos deadline);
  // Traffic between hosts.
  void Forward(int s, PortId ingress, const LinkPacket& packet);
  void TakeAtHost(int host, const roce::Packet& packet);
  void TakeMulticast(int host, const roce::Packet& packet);
  int GroupOf(const roce::Packet& packet) const;
  // Of a queue pair of a rank that it has beside that to its switch.
  Qpn NextPeerQpn(int rank, int group);
  Psn FirstPsn();
  void LoopBack(int host, const roce::Packet& packet);
  void RunPeers(int group, int rank);
  void RunNic(int host);

  WorldConfig config_;
  Choices choices_;
  Choices timer_choices_;  // apart, so that all other choices are the same whether timers are late
  std::vector<engine::Engine> engines_;
  EventQueue events_;
  Links links_;                      // port 0 of a node leads to the parent
  std::vector<PortId> parent_port_;  // by node: the port of its parent that leads to it
  std::vector<uint16_t> ip_id_;      // by node: the next packet's of a host
  std::vector<Group> groups_;
  std::vector<int> group_of_block_;  // by block of QPNs: the newest group, or -1
  int fresh_block_ = 0;              // none behind it has had a group
  std::vector<Nic> nics_;            // by host
  std::unique_ptr<Fabric> fabric_;
  std::map<Qpn, std::pair<int, int>> rank_of_peer_qpn_;               // group and rank
  std::map<Ip, Members> members_;                                     // by the address of a multicast group
  std::vector<Nanos> down_until_;                                     // by node: standing still, or gone
  std::map<std::pair<int, engine::TimerId>, Nanos> switch_deadline_;  // by node
  uint64_t switch_timers_ = 0;                                        // that have run
  ArrivalWatch arrival_watch_;
  Picos clock_ = 0;
  Nanos now_ = 0;         // the same, as cores are told it
  bool wanting_ = false;  // some rank may want a poll
  int64_t late_timers_ = 0;
  int64_t unclaimed_ = 0;
};

}  // namespace epic::sim
