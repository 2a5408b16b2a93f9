// What frame.cc and super_frame.cc share.
#pragma once

#include <cstddef>

#include "roce/frame.h"
#include "roce/view.h"

namespace epic::roce {

// Judges the IPv4 and UDP headers of what follows the Ethernet header. *ip_bytes, on kOk and on kTruncated
// for a packet that is longer than what there is, is the length of the IP packet: headers to ICRC, no
// Ethernet padding. Otherwise it stays as it is.
ParseResult FindDatagram(Bytes bytes, size_t* ip_bytes);

// Reads BTH, extension headers and payload; transport is what lies between the UDP header and the ICRC.
ParseResult ParseTransport(Bytes transport, Packet* out);

// What the headers before the BTH say of a packet.
void SetAddresses(const Ipv4View& ip, const UdpView& udp, Packet* out);

}  // namespace epic::roce
