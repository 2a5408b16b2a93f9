// Many switches and hosts in one process in virtual time. The switches run the daemon's own engine, the hosts
// the host library's own core on the RC transport; links have rate and delay, and every packet on them can be
// lost, repeated or held back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "incengine/core/engine.h"
#include "sim/choices.h"
#include "sim/host.h"

namespace epic::sim {

// An IncTree: switch 0 is the root.
struct TreeSpec {
  std::vector<int> switch_parent;  // per switch; -1 for the root
  std::vector<int> rank_switch;    // per rank
};

TreeSpec Star(int ranks);
// Every inner node has `fan` children, `levels` levels of switches: Tree(2, 2) is the paper's Tree-3-2.
TreeSpec FullTree(int levels, int fan);

struct WorldConfig {
  engine::Mode mode = engine::Mode::kTranslated;  // of every switch
  TreeSpec tree = Star(4);
  uint32_t path_mtu = 1024;
  uint32_t message_packets = 8;
  uint32_t window_messages = 8;
  Nanos link_delay_ns = 1 * kMicrosecond;
  int64_t bits_per_second = 100'000'000'000;
  Nanos prompt_ns = 200 * kMicrosecond;
  uint8_t host_timeout = 18;          // exponent: 4.096 us * 2^18 is about a second
  std::optional<uint32_t> start_psn;  // of every direction; else chosen
  size_t arena_bytes = 1 << 20;
};

// A packet on a link, as fault rules see it.
struct LinkPacket {
  int64_t number = 0;  // counts all packets of the world from 0
  int from = 0;        // node: switches first, then ranks
  int to = 0;
  const roce::Packet* packet = nullptr;
};

enum class Fate { kDeliver, kDrop, kDuplicate, kDelay };

class World {
 public:
  using FaultRule = std::function<Fate(const LinkPacket&)>;

  World(const WorldConfig& config, uint64_t seed);

  Host& host(int rank) { return *hosts_[static_cast<size_t>(rank)]; }
  int ranks() const { return static_cast<int>(hosts_.size()); }
  int switches() const { return static_cast<int>(engines_.size()); }
  const engine::Context& context(int switch_number) const;
  Choices& choices() { return choices_; }
  Nanos now() const { return now_; }
  int64_t packets() const { return packets_; }
  int node_of_rank(int rank) const { return static_cast<int>(engines_.size()) + rank; }

  // Asked once for every packet that is put on a link.
  void SetFaultRule(FaultRule rule) { rule_ = std::move(rule); }

  // Runs `action` at a time.
  void At(Nanos time, std::function<void()> action);

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
  class SwitchEffects;
  class HostSink;

  void Install(const WorldConfig& config);
  void Transmit(int node, PortId port, const roce::Packet& packet);
  void Arrive(int node, PortId port, const roce::Packet& packet);
  void PollHost(int rank);

  WorldConfig config_;
  Choices choices_;
  std::vector<engine::Engine> engines_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::vector<Link>> links_;  // by node and port
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Nanos> switch_deadline_;  // of each switch's one timer
  std::vector<Nanos> host_deadline_;
  FaultRule rule_;
  Nanos now_ = 0;
  int64_t order_ = 0;
  int64_t packets_ = 0;
};

}  // namespace epic::sim
