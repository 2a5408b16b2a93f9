// Frames with IPv6, in.
#include "base/check.h"
#include "roce/frame.h"
#include "roce/parse.h"
#include "roce/view.h"
#include "roce/view_ib.h"
#include "roce/view_ipv6.h"

namespace epic::roce {
namespace {

constexpr size_t kIpBytes = Ipv6View::kBytes;
constexpr size_t kHeaderBytes = kIpBytes + UdpView::kBytes;
static_assert(kHeaderBytes + BthView::kBytes == kIcrcIpv6HeaderBytes);
static_assert(kIpBytes == Ipv4View::kBytes + kIpv6MoreBytes);

// As FindDatagram.
ParseResult FindIpv6Datagram(Bytes bytes, size_t* ip_bytes) {
  if (bytes.size() < kIpBytes) return ParseResult::kTruncated;
  const auto ip = Ipv6View::Of(bytes);
  if (!ip) return ParseResult::kBadIpHeader;
  // What has an extension header, such as every fragment, is ordinary traffic here.
  if (ip->next_header() != kIpProtocolUdp) return ParseResult::kNotRoce;
  const auto udp = UdpView::Of(ip->payload());
  if (!udp) return ParseResult::kTruncated;
  if (udp->dst_port() != kUdpPort) return ParseResult::kNotRoce;
  if (ip->src().is_v4() || ip->dst().is_v4()) return ParseResult::kBadIpHeader;
  *ip_bytes = kIpBytes + ip->payload_length();
  if (*ip_bytes > bytes.size()) return ParseResult::kTruncated;
  if (*ip_bytes < kIcrcIpv6HeaderBytes + kIcrcBytes) return ParseResult::kBadLength;
  if (udp->length() != ip->payload_length()) return ParseResult::kBadLength;
  return ParseResult::kOk;
}

}  // namespace

ParseResult ParseIpv6Frame(Bytes frame, FrameAddress* address, Packet* out, bool check_icrc) {
  const auto ethernet = EthernetView::Of(frame);
  if (!ethernet) return ParseResult::kTruncated;
  if (ethernet->ether_type() != kEtherTypeIpv6) return ParseResult::kNotRoce;
  size_t ip_bytes = 0;
  if (const ParseResult result = FindIpv6Datagram(ethernet->payload(), &ip_bytes);
      result != ParseResult::kOk) {
    return result;
  }
  const Bytes ip_packet = ethernet->payload().first(ip_bytes);  // without Ethernet padding
  *out = Packet{};
  if (const ParseResult result =
          ParseTransport(ip_packet.subspan(kHeaderBytes, ip_bytes - kHeaderBytes - kIcrcBytes), out);
      result != ParseResult::kOk) {
    return result;
  }
  if (check_icrc && !IcrcOk(ip_packet)) return ParseResult::kBadIcrc;

  const auto ip = Ipv6View::Of(ip_packet);
  const auto udp = UdpView::Of(ip_packet.subspan(kIpBytes));
  EPIC_CHECK(ip.has_value() && udp.has_value());
  out->src_ip = ip->src();
  out->dst_ip = ip->dst();
  out->tos = ip->traffic_class();
  out->ttl = ip->hop_limit();
  out->flow_label = ip->flow_label();
  out->udp_src_port = udp->src_port();
  *address = {ethernet->dst(), ethernet->src(), 0, ethernet->vlan()};
  return ParseResult::kOk;
}

}  // namespace epic::roce
