#include "roce/super_frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "roce/icrc.h"
#include "roce/parse.h"
#include "roce/view.h"
#include "roce/view_ib.h"

namespace epic::roce {
namespace {

constexpr size_t kIp = EthernetView::kBytes;
constexpr size_t kUdp = kIp + Ipv4View::kBytes;
constexpr size_t kBth = kUdp + UdpView::kBytes;
static_assert(kBth == kSuperFrameHeadBytes);
constexpr size_t kDestinationQpn = kBth + 4, kPsn = kBth + 8;
constexpr size_t kMinSegmentBytes = BthView::kBytes + kIcrcBytes;

uint16_t IpId(std::span<const uint8_t> frame) { return LoadBe16(&frame[kIp + 4]); }

}  // namespace

ParseResult SuperFrameView::Of(std::span<const uint8_t> frame, size_t segment_bytes, SuperFrameView* out) {
  const auto ethernet = EthernetView::Of(frame);
  if (!ethernet) return ParseResult::kTruncated;
  if (ethernet->ether_type() != kEtherTypeIpv4 || ethernet->vlan()) return ParseResult::kNotRoce;
  size_t ip_bytes = 0;
  const ParseResult result = FindDatagram(ethernet->payload(), &ip_bytes);
  const bool cut = result == ParseResult::kTruncated && ip_bytes > ethernet->payload().size();
  if (result != ParseResult::kOk && !cut) return result;
  const auto udp = UdpView::Of(frame.subspan(kUdp));
  EPIC_CHECK(udp.has_value());
  if (udp->length() + Ipv4View::kBytes != ip_bytes || ip_bytes < kIcrcHeaderBytes + kIcrcBytes)
    return ParseResult::kBadLength;
  const size_t payload = udp->length() - UdpView::kBytes;
  if (segment_bytes < kMinSegmentBytes || segment_bytes > payload) return ParseResult::kBadLength;
  out->frame_ = frame;
  out->segment_bytes_ = segment_bytes;
  out->payload_bytes_ = payload;
  out->packets_ = (payload + segment_bytes - 1) / segment_bytes;
  return ParseResult::kOk;
}

bool SuperFrameView::whole() const {
  const bool bounded = packets_ > 1 && packets_ <= kMaxSuperFramePackets &&
                       kSuperFrameHeadBytes + payload_bytes_ <= kMaxSuperFrameBytes;
  return bounded && !Segment(packets_ - 1).empty();
}

std::span<const uint8_t> SuperFrameView::Segment(size_t k) const {
  const size_t begin = k * segment_bytes_;
  if (begin >= payload_bytes_) return {};
  const size_t bytes = std::min(segment_bytes_, payload_bytes_ - begin);
  if (kBth + begin + bytes > frame_.size() || bytes < kMinSegmentBytes) return {};
  return frame_.subspan(kBth + begin, bytes);
}

void SuperFrameView::WriteHeaders(size_t k, size_t segment, uint8_t* out) const {
  uint8_t* const udp = out + Ipv4View::kBytes;
  std::copy_n(&frame_[kIp], Ipv4View::kBytes + UdpView::kBytes, out);
  StoreBe16(static_cast<uint16_t>(Ipv4View::kBytes + UdpView::kBytes + segment), out + 2);
  StoreBe16(static_cast<uint16_t>(IpId(frame_) + k), out + 4);
  StoreBe16(0, out + 10);
  StoreBe16(InternetChecksum({out, Ipv4View::kBytes}), out + 10);
  StoreBe16(static_cast<uint16_t>(UdpView::kBytes + segment), udp + 4);
  StoreBe16(0, udp + 6);  // none: the kernel's covered what were segments of a longer datagram
}

ParseResult SuperFrameView::Parse(size_t k, FrameAddress* address, Packet* out, bool check_icrc) const {
  const Bytes segment = Segment(k);
  if (segment.empty()) return ParseResult::kTruncated;
  std::array<uint8_t, kIcrcHeaderBytes> headers;
  WriteHeaders(k, segment.size(), headers.data());
  std::copy_n(segment.begin(), BthView::kBytes, &headers[Ipv4View::kBytes + UdpView::kBytes]);
  *out = Packet{};
  const Bytes transport = segment.first(segment.size() - kIcrcBytes);
  if (const ParseResult result = ParseTransport(transport, out); result != ParseResult::kOk) return result;
  if (check_icrc) {
    const uint32_t icrc = Crc32(IcrcOfHeaders(headers), transport.subspan(BthView::kBytes));
    if (LoadLe32(&segment[segment.size() - kIcrcBytes]) != icrc) return ParseResult::kBadIcrc;
  }

  const auto ethernet = EthernetView::Of(frame_);
  const auto ip = Ipv4View::Of(headers);
  const auto udp = UdpView::Of(Bytes(headers).subspan(Ipv4View::kBytes));
  EPIC_CHECK(ethernet.has_value() && ip.has_value() && udp.has_value());
  SetAddresses(*ip, *udp, out);
  *address = {ethernet->dst(), ethernet->src(), ip->id(), {}};
  return ParseResult::kOk;
}

size_t SuperFrameView::Write(size_t k, std::span<uint8_t> out) const {
  const Bytes segment = Segment(k);
  if (segment.empty() || out.size() < kBth + segment.size()) return 0;
  std::copy_n(frame_.begin(), kIp, out.begin());
  WriteHeaders(k, segment.size(), &out[kIp]);
  std::ranges::copy(segment, out.begin() + kBth);
  return kBth + segment.size();
}

bool SameSuperFrame(std::span<const uint8_t> first, std::span<const uint8_t> next, size_t packets) {
  const auto same = [&](size_t begin, size_t end) {
    return std::memcmp(&first[begin], &next[begin], end - begin) == 0;
  };
  return static_cast<uint16_t>(IpId(first) + packets) == IpId(next) &&  //
         same(0, kIp + 2) &&           // Ethernet, IP version and type of service
         same(kIp + 6, kIp + 10) &&    // fragments, time to live, protocol
         same(kIp + 12, kUdp + 4) &&   // IP addresses, UDP ports
         same(kDestinationQpn, kPsn);  // with the bits before it, which the ICRC leaves out
}

bool JoinsSuperFrame(const OpenSuperFrame& frame, std::span<const uint8_t> next, size_t next_bytes) {
  const size_t packet_bytes = next_bytes - kSuperFrameHeadBytes;
  const bool none_shorter = frame.bytes == kSuperFrameHeadBytes + frame.packets * frame.packet_bytes;
  return none_shorter && packet_bytes <= frame.packet_bytes && frame.packets < kMaxSuperFramePackets &&
         frame.bytes + packet_bytes <= kMaxSuperFrameBytes &&
         SameSuperFrame(frame.first, next, frame.packets);
}

void MakeSuperFrameHead(size_t payload_bytes, std::span<uint8_t> head) {
  const auto udp_bytes = static_cast<uint16_t>(UdpView::kBytes + payload_bytes);
  uint8_t* const ip = &head[kIp];
  StoreBe16(static_cast<uint16_t>(Ipv4View::kBytes + udp_bytes), ip + 2);
  StoreBe16(0, ip + 10);
  StoreBe16(InternetChecksum({ip, Ipv4View::kBytes}), ip + 10);
  StoreBe16(udp_bytes, &head[kUdp + 4]);
  // The pseudo header of RFC 768: addresses, protocol, length.
  std::array<uint8_t, 12> pseudo{};
  std::copy_n(ip + 12, 8, pseudo.begin());
  pseudo[9] = kIpProtocolUdp;
  StoreBe16(udp_bytes, &pseudo[10]);
  StoreBe16(static_cast<uint16_t>(~InternetChecksum(pseudo)), &head[kUdp + 6]);
}

}  // namespace epic::roce
