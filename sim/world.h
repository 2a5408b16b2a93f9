// Many switches and hosts in one process in virtual time. The switches run the daemon's own engine, the hosts
// the host library's own core on the RC transport; links have rate and delay, and every packet on them can be
// lost, repeated or held back. All groups of a world share its switches, hosts and links.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "incengine/core/engine.h"
#include "sim/choices.h"
#include "sim/host.h"

namespace epic::sim {

// Switches and hosts, and the IncTree of a group with rank r on host r: switch 0 is the root.
struct TreeSpec {
  std::vector<int> switch_parent;  // per switch; -1 for the root
  std::vector<int> rank_switch;    // per host
};

TreeSpec Star(int ranks);
// Every inner node has `fan` children, `levels` levels of switches: Tree(2, 2) is the paper's Tree-3-2.
TreeSpec FullTree(int levels, int fan);
// Three switches in a chain with one, one and three ranks.
TreeSpec UnevenTree();
// Two leaves with the ranks on them by turns.
TreeSpec InterleavedTree();

// The realisation of a group: one mode for every switch, or one for each.
struct ModeSpec {
  ModeSpec(engine::Mode mode) : all(mode) {}  // NOLINT: a mode is a specification
  ModeSpec(std::vector<engine::Mode> by_switch) : each(std::move(by_switch)) {}  // NOLINT
  engine::Mode At(size_t s) const { return each.empty() ? all : each[s]; }

  engine::Mode all = engine::Mode::kTranslated;
  std::vector<engine::Mode> each;
};

// A group beside the first one.
struct GroupSpec {
  ModeSpec mode = engine::Mode::kTranslated;
  std::vector<int> rank_host;  // per rank; several may be on one host
};

// What the first group is, with a rank on every host, and what all groups share.
struct WorldConfig {
  ModeSpec mode = engine::Mode::kTranslated;
  TreeSpec tree = Star(4);
  uint32_t path_mtu = 1024;
  uint32_t message_packets = 8;
  uint32_t window_messages = 8;
  Nanos link_delay_ns = 1 * kMicrosecond;
  int64_t bits_per_second = 100'000'000'000;
  Nanos prompt_ns = 200 * kMicrosecond;
  uint8_t host_timeout = 18;          // exponent: 4.096 us * 2^18 is about a second
  bool host_retries_end = false;      // after seven, as the specification has it; rdma_rxe's have no end
  std::optional<uint32_t> start_psn;  // of every direction; else chosen
  size_t arena_bytes = 1 << 20;
};

// A packet on a link, as fault rules see it.
struct LinkPacket {
  int64_t number = 0;  // counts all packets of the world from 0
  int from = 0;        // node: switches first, then hosts
  int to = 0;
  int group = 0;  // that it belongs to
  const roce::Packet* packet = nullptr;
};

enum class Fate {
  kDeliver,
  kDrop,
  kDuplicate,
  kDelay,
  kCorrupt,  // bits changed on the way: its ICRC is wrong, and whoever receives it throws it away
  kFlip,     // a bit of its payload changed and its ICRC made to fit, which no link does: what arrives is a
             // wrong value, for tests that must see one
};

class World {
 public:
  using FaultRule = std::function<Fate(const LinkPacket&)>;

  World(const WorldConfig& config, uint64_t seed);

  // Adds a group and returns its number; the first is 0. Its tree is the world's, without switches that have
  // none of its ranks below them.
  int AddGroup(const GroupSpec& spec);

  // The end of a rank, whichever host it is on.
  Host& host(int rank, int group = 0) { return *Of(group).ranks[static_cast<size_t>(rank)]; }
  int ranks(int group = 0) const { return static_cast<int>(Of(group).ranks.size()); }
  int groups() const { return static_cast<int>(groups_.size()); }
  int switches() const { return static_cast<int>(engines_.size()); }
  // No call of the group is running.
  bool AllDone(int group = 0) const;
  // Of a switch that has ranks of the group below it.
  const engine::Context& context(int switch_number, int group = 0) const;
  bool HasContext(int switch_number, int group) const;
  Choices& choices() { return choices_; }
  Nanos now() const { return now_; }
  int64_t packets() const { return packets_; }
  int node_of_host(int host) const { return static_cast<int>(engines_.size()) + host; }
  // Of the first group.
  int node_of_rank(int rank) const { return node_of_host(rank); }

  // What a packet takes of a link, with all headers and the gap between frames.
  static int64_t WireBytes(const roce::Packet& packet) {
    return static_cast<int64_t>(packet.payload.size()) + 80;
  }

  // Asked once for every packet that is put on a link.
  void SetFaultRule(FaultRule rule) { rule_ = std::move(rule); }

  // Told of every packet that reaches the end of a link, before it acts there; false: a host that stands
  // still ignores it.
  using ArrivalWatch = std::function<void(const LinkPacket&, bool heard)>;
  void SetArrivalWatch(ArrivalWatch watch) { arrival_watch_ = std::move(watch); }

  // Runs `action` at a time.
  void At(Nanos time, std::function<void()> action);

  // The host, NIC and all, stands still until then: what arrives is lost, its timers fire late.
  void Freeze(int host, Nanos until);

  // Advances until done() or until nothing can happen before `limit`. True if done.
  bool RunUntil(const std::function<bool()>& done, Nanos limit);

 private:
  struct Event {
    Nanos time;
    int64_t order;
    std::function<void()> action;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Link {
    int peer = 0;
    PortId peer_port = 0;
    Nanos free_at = 0;
    Nanos last_arrival = 0;
  };
  struct Group {
    std::vector<int> rank_host;
    std::vector<std::unique_ptr<Host>> ranks;
    std::vector<Nanos> deadline;  // of each rank's one timer
  };
  struct Edge {
    int child_switch = -1;  // or
    int rank = -1;
    int parent = 0;  // switch
  };
  class SwitchEffects;
  class HostSink;

  Group& Of(int group) { return groups_[static_cast<size_t>(group)]; }
  const Group& Of(int group) const { return groups_[static_cast<size_t>(group)]; }
  void Connect(int child, int parent);
  std::vector<uint32_t> RanksBelow(int s, const GroupSpec& spec) const;
  HostConfig ConnectGroup(const Edge& edge, int group, const GroupSpec& spec,
                          std::vector<engine::GroupConfig>& configs);
  void Transmit(int node, PortId port, const roce::Packet& packet);
  void Arrive(const LinkPacket& seen, PortId port);
  void PollRank(int group, int rank);

  WorldConfig config_;
  Choices choices_;
  std::vector<engine::Engine> engines_;
  std::vector<std::vector<Link>> links_;  // by node and port; port 0 leads to the parent
  std::vector<PortId> parent_port_;       // by node: the port of its parent that leads to it
  std::vector<Group> groups_;
  std::vector<Nanos> frozen_until_;  // by host
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<std::pair<int, engine::TimerId>, Nanos> switch_deadline_;  // by node
  FaultRule rule_;
  ArrivalWatch arrival_watch_;
  Nanos now_ = 0;
  int64_t order_ = 0;
  int64_t packets_ = 0;
};

}  // namespace epic::sim
