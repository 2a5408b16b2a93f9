// The links of the virtual-time world: each direction has a rate and a delay, keeps the order of its packets,
// and does to them what the fault rule says. Where both ends of a link take super-frames, packets of one flow
// that a node sends within one event travel in one, by the rule of real ports (roce/super_frame.h): as one
// they are late, lost, repeated or cut short.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "roce/frame.h"
#include "sim/choices.h"
#include "sim/clock.h"
#include "sim/event_queue.h"

namespace epic::sim {

// A packet on a link, as fault rules see it.
struct LinkPacket {
  int64_t number = 0;  // counts all packets of the world from 0
  int from = 0;        // node: switches first, then hosts
  int to = 0;
  int group = 0;  // that it belongs to, by its QPN: of groups with the same QPNs the newest
  const roce::Packet* packet = nullptr;
  int64_t frame =
      0;  // the number of the first packet of its frame: its own, but behind others in a super-frame
  int packets = 1;  // of its frame
};

enum class Fate {
  kDeliver,
  kDrop,
  kDuplicate,
  kDelay,
  kCorrupt,  // bits changed on the way: its ICRC is wrong, and whoever receives it throws it away. Of a
             // super-frame any one packet
  kCut,      // the end of a super-frame is lost, from any of its packets on; of a packet alone all of it
  kLinger,   // delivered, and a copy that was held up somewhere comes much later
  kHold,     // held up, and what follows on its link behind it: the order stays
  kFlip,     // a bit of its payload changed and its ICRC made to fit, which no link does: what arrives is a
             // wrong value, for tests that must see one. Of a super-frame the first packet
};

// Which links carry super-frames.
enum class SuperFrameLinks : uint8_t { kNone, kAll, kSwitches, kHosts };
// "none", "all", "switches" (links between switches), "hosts" (links to hosts); nothing for another name.
std::optional<SuperFrameLinks> SuperFrameLinksNamed(std::string_view name);

// What a packet takes of a link, with all headers and the gap between frames. On a wire there are no
// super-frames: each of their packets takes this.
inline int64_t WireBytes(const roce::Packet& packet) {
  return static_cast<int64_t>(packet.payload.size()) + 80;
}

// Several packets under way as one, or one alone.
class LinkFrame {
 public:
  PortId to_port() const { return to_port_; }
  int to() const { return packets_[0].seen.to; }
  // Calls `take` with each packet that arrives, in order; valid as long as the frame is under way.
  template <typename Take>
  void ForEach(const Take& take) const {
    for (size_t k = 0; k < count_; ++k) {
      if (packets_[k].arrives) take(packets_[k].seen);
    }
  }

 private:
  friend class Links;
  struct Part {
    LinkPacket seen;  // its packet is the one below
    roce::Packet packet;
    std::vector<uint8_t> payload;
    bool arrives = true;
  };
  const LinkPacket& first() const { return packets_[0].seen; }

  std::vector<Part> packets_;  // the first count_; the others are kept for their memory
  size_t count_ = 0;
  PortId to_port_ = 0;
  int arrivals_ = 0;  // still to come
};

class Links {
 public:
  struct Config {
    Nanos delay_ns = 0;
    int64_t bits_per_second = 0;
    Nanos packet_life_ns = 0;  // longest time by which a copy that lingers comes late
  };
  using FaultRule = std::function<Fate(const LinkPacket&)>;
  using SendWatch = std::function<void(const LinkPacket&, Fate)>;

  // Borrows the choices and the queue.
  Links(const Config& config, int nodes, Choices& choices, EventQueue& events);

  // Joins two nodes by the next port of each; returns the parent's.
  PortId Connect(int child, int parent, bool super_frames);
  size_t ports(int node) const { return links_[static_cast<size_t>(node)].size(); }
  int peer(int node, PortId port) const { return links_[static_cast<size_t>(node)][port].peer; }
  PortId peer_port(int node, PortId port) const { return links_[static_cast<size_t>(node)][port].peer_port; }
  // When all that was put on the link at a node's port has left it, but for what waits for others to join.
  Picos free_at(int node, PortId port) const {
    return links_[static_cast<size_t>(node)][port].clock.free_at();
  }
  bool TakesSuperFrames(int node, PortId port) const {
    return links_[static_cast<size_t>(node)][port].super_frames;
  }

  // Asked once for everything that is put on a link: of a super-frame for its first packet.
  void SetFaultRule(FaultRule rule) { rule_ = std::move(rule); }
  // Told of every packet that is put on a link, and what becomes of it there. Of a super-frame that is cut or
  // corrupted, which packets are.
  void SetSendWatch(SendWatch watch) { send_watch_ = std::move(watch); }

  // Puts a packet on the link at a node's port. joins: it may share a super-frame with others, only where the
  // link takes them; it leaves at the next Flush then.
  struct Outgoing {
    const roce::Packet& packet;  // copied
    uint16_t ip_id = 0;
    int group = 0;
    bool joins = false;
  };
  void Send(Picos now, int node, PortId port, const Outgoing& out);
  // The event is over: what waits for others to join leaves.
  void Flush(Picos now);

  // Of a packet event that was popped from the queue; when it has been taken, Arrived.
  const LinkFrame& frame(uint32_t number) { return frames_[number]; }
  void Arrived(uint32_t number);

  int64_t packets() const { return packets_; }
  // Of two packets or more.
  int64_t super_frames() const { return super_frames_; }

 private:
  // One direction.
  struct Link {
    int peer = 0;
    PortId peer_port = 0;
    bool super_frames = false;
    LinkClock clock;
    Picos last_arrival = 0;
    std::optional<uint32_t> open;  // the frame that others may join
    roce::FramePieces first;       // its first packet's head
    size_t open_bytes = 0;         // as it would be on a real port
    size_t first_bytes = 0;
  };

  uint32_t Begin(const Link& link);
  void Add(uint32_t number, int node, int peer, const Outgoing& out);
  bool Joins(const Link& link, const roce::FramePieces& head, size_t bytes);
  Fate Decide(LinkFrame& frame);
  void ShareOut(Fate fate, LinkFrame& frame);
  void Launch(Picos now, Link& link, uint32_t number);

  const Config config_;
  Choices& choices_;
  EventQueue& events_;
  std::vector<std::vector<Link>> links_;            // by node and port
  std::vector<std::pair<int, PortId>> collecting_;  // links that may have an open frame
  Pool<LinkFrame> frames_;
  FaultRule rule_;
  SendWatch send_watch_;
  int64_t packets_ = 0;
  int64_t super_frames_ = 0;
};

}  // namespace epic::sim
