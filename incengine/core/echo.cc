#include "incengine/core/echo.h"

#include <algorithm>

#include "roce/view.h"

namespace epic::engine {
namespace {

constexpr uint8_t kIpProtocolIcmp = 1;
constexpr size_t kIcmpHeaderBytes = 8;
constexpr uint8_t kEchoRequest = 8;
constexpr size_t kProtocolAt = 9;  // in the IP header

constexpr uint16_t kFirstUserPort = 1024;

// The bytes of the IP packet in the frame, without padding, if it is whole and for the address; else empty.
roce::Bytes FindPacket(const roce::EthernetView& ethernet, Ipv4 address) {
  if (ethernet.ether_type() != roce::kEtherTypeIpv4) return {};
  const auto ip = roce::Ipv4View::Of(ethernet.payload());
  if (!ip || ip->header_bytes() != roce::Ipv4View::kBytes || !ip->checksum_ok()) return {};
  if (ip->dst() != address || ip->more_fragments() || ip->fragment_offset() != 0) return {};
  if (ip->total_length() > ethernet.payload().size() || ip->total_length() < roce::Ipv4View::kBytes)
    return {};
  return ethernet.payload().first(ip->total_length());
}

bool IsIcmpRequest(roce::Bytes icmp) {
  return icmp.size() >= kIcmpHeaderBytes && icmp[0] == kEchoRequest && icmp[1] == 0;
}

bool IsUdpRequest(roce::Bytes datagram) {
  const auto udp = roce::UdpView::Of(datagram);
  return udp && udp->dst_port() == kUdpEchoPort && udp->src_port() >= kFirstUserPort &&
         udp->src_port() != roce::kUdpPort &&
         udp->length() >= roce::UdpView::kBytes && udp->length() <= datagram.size();
}

// RFC 1624: the checksum of a message in which the 16-bit word `before` has become `after`.
uint16_t UpdatedChecksum(uint16_t checksum, uint16_t before, uint16_t after) {
  uint32_t sum =
      static_cast<uint16_t>(~checksum) + static_cast<uint32_t>(static_cast<uint16_t>(~before)) + after;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

}  // namespace

bool EchoReply(std::span<const uint8_t> frame, Ipv4 address, std::vector<uint8_t>* reply) {
  const auto ethernet = roce::EthernetView::Of(frame);
  if (!ethernet) return false;
  const roce::Bytes packet = FindPacket(*ethernet, address);
  if (packet.empty()) return false;
  const uint8_t protocol = packet[kProtocolAt];
  const roce::Bytes message = packet.subspan(roce::Ipv4View::kBytes);
  const bool is_icmp = protocol == kIpProtocolIcmp && IsIcmpRequest(message);
  if (!is_icmp && !(protocol == roce::kIpProtocolUdp && IsUdpRequest(message))) return false;

  const size_t ip_at = ethernet->header_bytes();
  reply->assign(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(ip_at + packet.size()));
  const auto at = reply->begin();
  std::swap_ranges(at, at + 6, at + 6);
  const auto ip = at + static_cast<std::ptrdiff_t>(ip_at);
  // Swapping the addresses and changing neither length nor time to live leaves the IP checksum right; with
  // the ports swapped too, that of UDP.
  std::swap_ranges(ip + 12, ip + 16, ip + 16);
  uint8_t* const body = reply->data() + ip_at + roce::Ipv4View::kBytes;
  if (is_icmp) {
    body[0] = 0;
    roce::StoreBe16(UpdatedChecksum(roce::LoadBe16(body + 2), kEchoRequest << 8, 0), body + 2);
  } else {
    std::swap_ranges(body, body + 2, body + 2);
  }
  return true;
}

}  // namespace epic::engine
