#include "roce/frame.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "roce/parse.h"
#include "roce/view.h"
#include "roce/view_ib.h"
#include "roce/view_ipv6.h"

namespace epic::roce {
namespace {

constexpr size_t kIpBytes = Ipv4View::kBytes;
constexpr size_t kUdpBytes = UdpView::kBytes;
constexpr size_t kBthBytes = BthView::kBytes;
static_assert(kIpBytes + kUdpBytes + kBthBytes == kIcrcHeaderBytes);
constexpr size_t kMaxIpBytes = 0xffff;

constexpr size_t Pad(size_t payload) { return (0 - payload) & 3; }

size_t IpHeaderBytes(const Packet& packet) {
  return packet.dst_ip.is_v4() ? kIpBytes : kIpBytes + kIpv6MoreBytes;
}

// The whole IP packet: headers, payload, pad and ICRC.
size_t IpBytes(const Packet& packet) {
  const size_t payload = packet.payload.size();
  return IpHeaderBytes(packet) + kUdpBytes + Info(packet.bth.opcode).header_bytes + payload + Pad(payload) +
         kIcrcBytes;
}

// Writes extension headers at `at`; returns the byte after them.
uint8_t* WriteExtensions(const Packet& packet, const OpcodeInfo& info, uint8_t* at) {
  if (info.reth) RethView::Write(packet.reth, at), at += RethView::kBytes;
  if (info.deth) DethView::Write(packet.deth, at), at += DethView::kBytes;
  if (info.atomic_eth) AtomicEthView::Write(packet.atomic, at), at += AtomicEthView::kBytes;
  if (info.aeth) AethView::Write(packet.aeth, at), at += AethView::kBytes;
  if (info.atomic_ack_eth) AtomicAckEthView::Write(packet.original, at), at += AtomicAckEthView::kBytes;
  if (info.imm) ImmDtView::Write(packet.imm, at), at += ImmDtView::kBytes;
  if (info.ieth) IethView::Write(packet.invalidate_rkey, at), at += IethView::kBytes;
  if (packet.bth.opcode == Opcode::kCnp) std::memset(at, 0, kCnpReservedBytes), at += kCnpReservedBytes;
  return at;
}

void CheckSane(const Packet& packet, size_t ip_bytes) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const size_t payload = packet.payload.size();
  EPIC_CHECK(info.known);
  EPIC_CHECK(info.payload || payload == 0);
  EPIC_CHECK(ip_bytes <= kMaxIpBytes);
}

void WriteIp(const FrameAddress& address, const Packet& packet, size_t ip_bytes, uint8_t* ip) {
  if (packet.dst_ip.is_v4()) {
    Ipv4Header{.tos = packet.tos,
               .total_length = static_cast<uint16_t>(ip_bytes),
               .id = address.ip_id,
               .ttl = packet.ttl,
               .protocol = kIpProtocolUdp,
               .src = packet.src_ip.v4(),
               .dst = packet.dst_ip.v4()}
        .Write(ip);
    return;
  }
  EPIC_CHECK(!packet.src_ip.is_v4());
  Ipv6Header{.traffic_class = packet.tos,
             .flow_label = packet.flow_label,
             .payload_length = static_cast<uint16_t>(ip_bytes - Ipv6View::kBytes),
             .hop_limit = packet.ttl,
             .src = packet.src_ip,
             .dst = packet.dst_ip}
      .Write(ip);
}

// Everything before the payload of a sane packet; ip_bytes: IpBytes. Returns its end; *ip is where the IP
// header begins. out has room for it.
uint8_t* WriteHead(const FrameAddress& address, const Packet& packet, size_t ip_bytes, uint8_t* out,
                   uint8_t** ip) {
  const OpcodeInfo& info = Info(packet.bth.opcode);
  const size_t ip_header = IpHeaderBytes(packet);
  const EthernetHeader ethernet = {address.dst, address.src, address.vlan,
                                   packet.dst_ip.is_v4() ? kEtherTypeIpv4 : kEtherTypeIpv6};
  *ip = out + ethernet.header_bytes();
  uint8_t* const udp = *ip + ip_header;
  uint8_t* const bth = udp + kUdpBytes;
  ethernet.Write(out);
  WriteIp(address, packet, ip_bytes, *ip);
  UdpHeader{packet.udp_src_port, kUdpPort, static_cast<uint16_t>(ip_bytes - ip_header)}.Write(udp);
  BthView::Write(packet.bth, Pad(packet.payload.size()), bth);
  uint8_t* const end = WriteExtensions(packet, info, bth + kBthBytes);
  EPIC_CHECK(end == bth + info.header_bytes);
  return end;
}

}  // namespace

const char* Name(ParseResult result) {
  switch (result) {
    case ParseResult::kOk:
      return "ok";
    case ParseResult::kNotRoce:
      return "not_roce";
    case ParseResult::kTruncated:
      return "truncated";
    case ParseResult::kBadIpHeader:
      return "bad_ip_header";
    case ParseResult::kBadIpChecksum:
      return "bad_ip_checksum";
    case ParseResult::kFragment:
      return "fragment";
    case ParseResult::kBadLength:
      return "bad_length";
    case ParseResult::kBadTver:
      return "bad_tver";
    case ParseResult::kUnknownOpcode:
      return "unknown_opcode";
    case ParseResult::kBadPad:
      return "bad_pad";
    case ParseResult::kBadIcrc:
      return "bad_icrc";
  }
  return "unknown";
}

ParseResult FindDatagram(Bytes bytes, size_t* ip_bytes) {
  if (bytes.size() < kIpBytes) return ParseResult::kTruncated;
  const auto ip = Ipv4View::Of(bytes);
  if (!ip) return ParseResult::kBadIpHeader;
  // Only the first fragment has ports; the others cannot be told from ordinary traffic.
  if (ip->protocol() != kIpProtocolUdp || ip->fragment_offset() != 0) return ParseResult::kNotRoce;
  const auto udp = UdpView::Of(ip->payload());
  if (!udp) return ParseResult::kTruncated;
  if (udp->dst_port() != kUdpPort) return ParseResult::kNotRoce;
  if (ip->header_bytes() != kIpBytes) return ParseResult::kBadIpHeader;  // RoCEv2 has no IP options (A17.3.1)
  if (!ip->checksum_ok()) return ParseResult::kBadIpChecksum;
  if (ip->more_fragments()) return ParseResult::kFragment;
  *ip_bytes = ip->total_length();
  if (*ip_bytes > bytes.size()) return ParseResult::kTruncated;
  if (*ip_bytes < kIcrcHeaderBytes + kIcrcBytes) return ParseResult::kBadLength;
  if (udp->length() + kIpBytes != *ip_bytes) return ParseResult::kBadLength;
  return ParseResult::kOk;
}

ParseResult ParseTransport(Bytes transport, Packet* out) {
  const auto bth = BthView::Of(transport);
  if (!bth) return ParseResult::kBadLength;
  if (bth->tver() != 0) return ParseResult::kBadTver;
  const OpcodeInfo& info = Info(bth->opcode());
  if (!info.known) return ParseResult::kUnknownOpcode;
  if (transport.size() < info.header_bytes) return ParseResult::kBadLength;
  const size_t padded = transport.size() - info.header_bytes;
  if (!info.payload && padded != 0) return ParseResult::kBadLength;
  if (padded % 4 != 0 || bth->pad() > padded) return ParseResult::kBadPad;

  out->bth = bth->Value();
  Bytes rest = transport.subspan(kBthBytes);
  // header_bytes covers all of these, so that no view below can lack its bytes.
  const auto take = [&rest]<typename View>(std::type_identity<View>) {
    const auto view = View::Of(rest);
    EPIC_CHECK(view.has_value());
    rest = rest.subspan(View::kBytes);
    return view->Value();
  };
  if (info.reth) out->reth = take(std::type_identity<RethView>{});
  if (info.deth) out->deth = take(std::type_identity<DethView>{});
  if (info.atomic_eth) out->atomic = take(std::type_identity<AtomicEthView>{});
  if (info.aeth) out->aeth = take(std::type_identity<AethView>{});
  if (info.atomic_ack_eth) out->original = take(std::type_identity<AtomicAckEthView>{});
  if (info.imm) out->imm = take(std::type_identity<ImmDtView>{});
  if (info.ieth) out->invalidate_rkey = take(std::type_identity<IethView>{});
  out->payload = transport.subspan(info.header_bytes, padded - bth->pad());
  return ParseResult::kOk;
}

void SetAddresses(const Ipv4View& ip, const UdpView& udp, Packet* out) {
  out->src_ip = ip.src();
  out->dst_ip = ip.dst();
  out->tos = ip.tos();
  out->ttl = ip.ttl();
  out->udp_src_port = udp.src_port();
}

ParseResult ParseFrame(Bytes frame, FrameAddress* address, Packet* out, bool check_icrc) {
  const auto ethernet = EthernetView::Of(frame);
  if (!ethernet) return ParseResult::kTruncated;
  if (ethernet->ether_type() != kEtherTypeIpv4) return ParseResult::kNotRoce;
  size_t ip_bytes = 0;
  if (const ParseResult result = FindDatagram(ethernet->payload(), &ip_bytes); result != ParseResult::kOk) {
    return result;
  }
  const Bytes ip_packet = ethernet->payload().first(ip_bytes);  // without Ethernet padding
  const size_t transport_bytes = ip_packet.size() - kIpBytes - kUdpBytes - kIcrcBytes;
  *out = Packet{};
  if (const ParseResult result =
          ParseTransport(ip_packet.subspan(kIpBytes + kUdpBytes, transport_bytes), out);
      result != ParseResult::kOk) {
    return result;
  }
  if (check_icrc && !IcrcOk(ip_packet)) return ParseResult::kBadIcrc;

  const auto ip = Ipv4View::Of(ip_packet);
  const auto udp = UdpView::Of(ip_packet.subspan(kIpBytes));
  EPIC_CHECK(ip.has_value() && udp.has_value());
  SetAddresses(*ip, *udp, out);
  *address = {ethernet->dst(), ethernet->src(), ip->id(), ethernet->vlan()};
  return ParseResult::kOk;
}

size_t FrameBytes(const Packet& packet, bool vlan) {
  return EthernetView::kBytes + (vlan ? EthernetView::kTagBytes : 0) + IpBytes(packet);
}

void WritePieces(const FrameAddress& address, const Packet& packet, const PayloadCrc* crc, FramePieces* out) {
  const size_t pad = Pad(packet.payload.size());
  const size_t ip_bytes = IpBytes(packet);
  CheckSane(packet, ip_bytes);
  uint8_t* ip;
  uint8_t* const end = WriteHead(address, packet, ip_bytes, out->head_bytes.data(), &ip);
  out->head_size = static_cast<size_t>(end - out->head_bytes.data());
  out->payload = packet.payload;
  out->tail_size = pad + kIcrcBytes;
  std::memset(out->tail_bytes.data(), 0, pad);
  const Bytes headers(ip, end);
  uint32_t icrc = Crc32(IcrcOfHeaders(headers), headers.subspan(IcrcHeaderBytes(headers)));
  if (crc != nullptr) {
    EPIC_CHECK(crc->shift->bytes() == packet.payload.size() + pad);
    icrc = crc->shift->Join(icrc, crc->crc);
  } else {
    icrc = Crc32(Crc32(icrc, packet.payload), out->tail().first(pad));
  }
  StoreLe32(icrc, &out->tail_bytes[pad]);
}

std::vector<uint8_t> Join(const FramePieces& pieces) {
  std::vector<uint8_t> frame(pieces.head().begin(), pieces.head().end());
  frame.insert(frame.end(), pieces.payload.begin(), pieces.payload.end());
  frame.insert(frame.end(), pieces.tail().begin(), pieces.tail().end());
  return frame;
}

}  // namespace epic::roce
