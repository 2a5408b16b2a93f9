// What the switches of a world do with packets that are not for themselves: they forward them, by the
// daemon's own code (incengine/core/switch.h) and by the tables that the manager computes
// (incmanager/policies/forwarding.h). Each switch is a whole one here, of which nothing but its forwarding is
// used: collectives go to the engines of the world, which need no frames.
#pragma once

#include <span>
#include <vector>

#include "incengine/core/switch.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/group_ports.h"
#include "sim/links.h"

namespace epic::sim {

// Of a node of a world, by its number.
inline Ipv4 AddressOf(int node) { return Ipv4{0x0a000001u + static_cast<uint32_t>(node)}; }

class Fabric {
 public:
  // The switches are the first nodes of the links; no switch is joined to another by two links. Every switch
  // has its table, and guards the sources of its hosts.
  Fabric(const Links& links, int switches, int nodes);

  // The ports by which a packet leaves that came to switch s by `ingress` and is for another node, or for a
  // multicast group: those of the flooding tree, or the group's own. None, and a counter of the switch says
  // why, if it is dropped. Valid until the next call.
  std::span<const PortId> Route(Nanos now, int s, PortId ingress, const roce::Packet& packet);

  // What is sent to a multicast group from now on leaves by the ports that the manager gives it: of the
  // flooding tree those between these nodes, its members' hosts. Or, with another number than 0, of a tree
  // that grows from another switch without hosts: number t from the one that is t-th of these, and again from
  // the first behind the last. That the manager does not do.
  void SetGroupPorts(Ipv4 address, const std::vector<int>& hosts, int tree = 0);

  // The nodes that a packet crosses by the tables, both ends included.
  std::vector<int> Path(int from, int to) const;
  // As the tables were computed for it.
  const manager::Topology& topology() const { return topology_; }
  const engine::SwitchCounters& counters(int s) const { return switches_[static_cast<size_t>(s)].counters(); }

 private:
  manager::Topology topology_;
  std::vector<manager::Forwarding> tables_;
  std::vector<engine::Switch> switches_;
  std::vector<PortId> out_;
};

}  // namespace epic::sim
