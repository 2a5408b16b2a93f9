// What the kernel says of IPv6 routes and neighbours, by rtnetlink (rtnetlink(7)), and how it is asked to
// find a neighbour: IPv6 has no table in /proc as ARP has. None of it needs a privilege.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip.h"
#include "roce/packet.h"

namespace epic::io {

// Who on the interface gets a packet for `to`: itself, or a gateway. Nothing if the interface has no route
// there, or the kernel cannot be asked.
std::optional<Ip> Ipv6NextHop(uint32_t interface_index, Ip to);

struct Ipv6Neighbour {
  roce::MacAddress mac{};
  // The kernel has heard of it lately, was told by hand, or is asking. Otherwise it may have changed.
  bool fresh = false;
};
// Nothing if the kernel does not know its hardware address.
std::optional<Ipv6Neighbour> KernelIpv6Neighbour(uint32_t interface_index, Ip ip);

// Makes the kernel look for the neighbour on the interface, or see whether it is still there, by an empty
// datagram to the UDP port "discard" (RFC 863), which leaves when it has been found. Not to RoCE's: rdma_rxe
// of Linux 6.1 takes what is too short for a BTH to have a queue pair, and the machine stops. udp_fd: an IPv6
// UDP socket. What cannot be sent is lost.
void AskForIpv6Neighbour(int udp_fd, uint32_t interface_index, Ip ip);

}  // namespace epic::io
