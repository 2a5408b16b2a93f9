// The tree of a group for which one switch sums (docs/PROTOCOL-MODE-V.md): all others forward between that
// switch and the hosts. A pure function.
#pragma once

#include <optional>
#include <vector>

#include "incmanager/failure.h"
#include "incmanager/policies/forwarding.h"
#include "incmanager/policies/tree.h"
#include "incmanager/result.h"
#include "incmanager/topology.h"

namespace epic::manager {

// The tree of the lowest switch that all hosts reach: the one with the fewest links to the farthest host, of
// those that have what the group needs; of such the least loaded one, then by name (TreeCost). It takes part
// if each host reaches it, and is reached, by ordinary forwarding over usable switches; an edge of more than
// one link passes no router and no port security.
//
// Parameters as BuildTree. Errors: kNoTree naming two hosts that no single switch reaches, or what is lacking
// where; kNoResource naming a switch with more children than it takes.
Result<Tree> BuildOneSwitchTree(const Topology& topology, const std::vector<Forwarding>& tables,
                                const std::vector<SwitchOffer>& offers, const std::vector<NodeId>& rank_hosts,
                                std::vector<RootCandidate>* candidates = nullptr);

// The edge between a switch and a host by ordinary forwarding, as above; nothing if there is none.
struct HostEdge {
  std::string port;          // of the switch, towards the host
  std::string ingress_port;  // of the switch, by which the host's packets come
  uint32_t links = 0;        // from the switch to the host
  uint32_t down_links = 0;
  double delay_us = 0;  // one way
  double rate_gbps = 0;
};
std::optional<HostEdge> EdgeToHost(const Topology& topology, const std::vector<Forwarding>& tables,
                                   const std::vector<SwitchOffer>& offers, NodeId at, NodeId host);

}  // namespace epic::manager
