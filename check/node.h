// A node of the explored system: the one live core of its kind, into which any of its states is loaded, a
// step made, and the state after it saved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "check/blobs.h"
#include "check/invariant.h"
#include "check/packets.h"
#include "check/system.h"

namespace epic::check {

struct Sent {
  PortId port = 0;
  PacketId packet = 0;
};

// What a step did beside changing the state.
struct Effects {
  std::vector<Sent> sent;
  std::optional<Breach> breach;  // the first that the node's own state and packets show
};

// What the invariants of the whole system and the explorer ask of a state of a node.
struct Facts {
  int64_t acknowledged = 0;  // hosts: packets of its own, in order
  int64_t received = 0;      // hosts: packets, in order
  size_t calls = 0;          // hosts: so many have been made
  size_t ended = 0;          // and so many of them have ended
  // Switches in modes II and III, by port: the index before which everything has been acknowledged by the
  // child there; 0 at the parent's.
  std::vector<Index> heard;
  // Hosts of several groups: a bit for each request that has been answered, by the number of its invocation.
  uint64_t granted = 0;
  uint64_t busy = 0;
  bool holds = false;     // switches: a group has their block, or something in their pool
  uint8_t summing = 0;    // switches: so many sums may lose their places in the pool
  bool failed = false;    // the control plane has ended its part of the group, or it has crashed
  bool may_call = false;  // hosts: a call can be made now
  bool done = true;       // all calls have been made and have ended, and what was sent is acknowledged
  Nanos timer_in = kNever;
};

// A node's time when a state has been loaded.
inline constexpr Nanos kLoadedAt = 10 * kSecond;

// Each step is made in the state that was loaded last.
class Node {
 public:
  virtual ~Node() = default;

  virtual void Load(std::string_view state) = 0;
  virtual void Save(std::string& out) = 0;
  virtual Facts Look() const = 0;

  virtual void Deliver(PortId port, const roce::Packet& packet, Effects& effects) = 0;
  // Time passes; a timer that becomes due runs out.
  virtual void Advance(Nanos time, Effects& effects) = 0;
  // Time passes; a timer that becomes due is late: it runs when Advance says so. (A host whose timer is late
  // looks at it when a packet comes, too, after the packet.)
  virtual void Wait(Nanos time) = 0;
  // Loads the state that this node has when the state is another node's and every node n becomes to[n]; that
  // other node becomes this one (check/symmetry.h).
  virtual void LoadRelabelled(std::string_view state, std::span<const int> to) = 0;

  // A host makes all its calls, or the next one (SystemConfig::calls_made).
  virtual void Start(Effects& effects) = 0;
  // A switch loses all state of the group.
  virtual void Crash() = 0;
  // At a switch the number-th of the sums that may lose their places does.
  virtual void Evict(uint32_t number, Effects& effects);
  // What the control plane does to a node when its group has failed, or another rank's call was refused.
  virtual void Fail(Effects& effects) = 0;
};

// At any other node nothing lies in a pool.
inline void Node::Evict(uint32_t, Effects&) { EPIC_CHECK(false); }

std::unique_ptr<Node> MakeSwitchNode(const System& system, int node, Packets& packets, Blobs& blobs);
std::unique_ptr<Node> MakeHostNode(const System& system, int node, Packets& packets, Blobs& blobs);
// A group's fallback server.
std::unique_ptr<Node> MakeServerNode(const System& system, int node, Packets& packets, Blobs& blobs);
// A host of a system without switches.
std::unique_ptr<Node> MakePathNode(const System& system, int node, Packets& packets, Blobs& blobs);
// One whose calls go by multicast.
std::unique_ptr<Node> MakeMulticastNode(const System& system, int node, Packets& packets, Blobs& blobs);
// As the system's node is one of these.
inline std::unique_ptr<Node> MakeNode(const System& system, int node, Packets& packets, Blobs& blobs) {
  const auto make = system.by_multicast()    ? MakeMulticastNode
                    : system.by_hosts()      ? MakePathNode
                    : system.is_server(node) ? MakeServerNode
                    : system.is_host(node)   ? MakeHostNode
                                             : MakeSwitchNode;
  return make(system, node, packets, blobs);
}

}  // namespace epic::check
