#include "incengine/core/echo.h"

#include <algorithm>

#include "roce/view.h"

namespace epic::engine {
namespace {

constexpr uint8_t kIpProtocolIcmp = 1;
constexpr size_t kIcmpHeaderBytes = 8;
constexpr uint8_t kEchoRequest = 8;

// The echo request's ICMP message (header and data) within the frame; empty if it is none.
roce::Bytes FindEchoRequest(const roce::EthernetView& ethernet, Ipv4 address) {
  if (ethernet.ether_type() != roce::kEtherTypeIpv4) return {};
  const auto ip = roce::Ipv4View::Of(ethernet.payload());
  if (!ip || ip->header_bytes() != roce::Ipv4View::kBytes || !ip->checksum_ok()) return {};
  if (ip->dst() != address || ip->protocol() != kIpProtocolIcmp) return {};
  if (ip->more_fragments() || ip->fragment_offset() != 0) return {};
  if (ip->total_length() > ethernet.payload().size()) return {};
  if (ip->total_length() < roce::Ipv4View::kBytes + kIcmpHeaderBytes) return {};
  const roce::Bytes icmp = ip->payload().first(ip->total_length() - roce::Ipv4View::kBytes);
  return icmp[0] == kEchoRequest && icmp[1] == 0 ? icmp : roce::Bytes{};
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
  const roce::Bytes request = FindEchoRequest(*ethernet, address);
  if (request.empty()) return false;

  const size_t ip_at = ethernet->header_bytes();
  const size_t icmp_at = ip_at + roce::Ipv4View::kBytes;
  reply->assign(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(icmp_at + request.size()));
  const auto at = reply->begin();
  std::swap_ranges(at, at + 6, at + 6);
  const auto ip = at + static_cast<std::ptrdiff_t>(ip_at);
  // Swapping the addresses and changing neither length nor time to live leaves the IP checksum right.
  std::swap_ranges(ip + 12, ip + 16, ip + 16);
  uint8_t* const icmp = reply->data() + icmp_at;
  icmp[0] = 0;
  roce::StoreBe16(UpdatedChecksum(roce::LoadBe16(icmp + 2), kEchoRequest << 8, 0), icmp + 2);
  return true;
}

}  // namespace epic::engine
