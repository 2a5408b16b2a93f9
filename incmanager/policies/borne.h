// Whose addresses the switches of a tree bear to hosts, in modes that do so (docs/PROTOCOL-MODE-IV.md, section
// 3). Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/tree.h"
#include "incmanager/result.h"
#include "incmanager/topology.h"

namespace epic::manager {

// Of the QPNs of groups whose switches do so: frames that are not to a switch's own address are core 0's.
inline constexpr uint8_t kBorneLowByte = 0;

// What the switch at which a rank's host hangs bears to it.
struct Borne {
  NodeId host = kNoNode;     // whose address
  std::string ingress_port;  // of that switch, by which frames of the rank's host to it come in
};

// By rank; ranks of one host have the same. Hosts at one switch of the tree are paired in the order of their
// first ranks, then those that are left over; a host whose frames to its partner do not pass its switch gets
// the first host of the group to which they do. Nothing for a mode whose switches bear their own addresses.
//
// rank_hosts: the host of each rank. tables: ComputeForwarding. Errors, all kNoTree: ranks on one host only;
// a host whose frames to none of the others pass its switch, with the switch; port security on the way
// between a host and its switch, with the link.
Result<std::vector<Borne>> ChooseBorne(const Topology& topology, const std::vector<Forwarding>& tables,
                                       const Tree& tree, Mode mode, const std::vector<NodeId>& rank_hosts);

}  // namespace epic::manager
