// The source guard of a host's port: whether a frame is the host's own, by the addresses that it bears.
//
//   frame          must bear
//   any            the host's MAC address as Ethernet source
//   ARP            the host's MAC and IPv4 address as sender
//   IPv4           the host's address as source
//
//   a second VLAN tag, or a service tag (802.1ad): not its own, since nobody has looked at what is behind it
//
// 0.0.0.0 is nobody's, and stands for the host's own address where it may not have one yet: ARP probes (RFC
// 5227), IGMP reports (RFC 3376, 4.2.13). Frames of other protocols, IPv6 among them, bear no address that is
// known.
#pragma once

#include "incengine/core/forwarding.h"
#include "roce/view.h"

namespace epic::engine {

// True also if host is null: nobody is guarded. An entry without an address is held to its MAC address only.
bool BearsSourceOf(const ForwardingEntry* host, const roce::EthernetView& frame);

}  // namespace epic::engine
