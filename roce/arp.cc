#include "roce/arp.h"

#include <algorithm>

#include "base/check.h"
#include "roce/view.h"

namespace epic::roce {

std::optional<Arp> ParseArp(std::span<const uint8_t> frame) {
  const auto ethernet = EthernetView::Of(frame);
  if (!ethernet || ethernet->ether_type() != kEtherTypeArp) return std::nullopt;
  const auto arp = ArpView::Of(ethernet->payload());
  if (!arp) return std::nullopt;
  const auto op = ArpOp{arp->op()};
  if (op != ArpOp::kRequest && op != ArpOp::kReply) return std::nullopt;
  return Arp{.dst = ethernet->dst(),
             .src = ethernet->src(),
             .vlan = ethernet->vlan(),
             .op = op,
             .sender_mac = arp->sender_mac(),
             .sender_ip = arp->sender_ip(),
             .target_mac = arp->target_mac(),
             .target_ip = arp->target_ip()};
}

size_t WriteArp(const Arp& arp, std::span<uint8_t> out) {
  EPIC_CHECK(out.size() >= kMaxArpFrameBytes);
  const EthernetHeader ethernet = {arp.dst, arp.src, arp.vlan, kEtherTypeArp};
  ethernet.Write(out.data());
  uint8_t* const packet = out.data() + ethernet.header_bytes();
  ArpView::WriteKind(packet);
  StoreBe16(static_cast<uint16_t>(arp.op), packet + 6);
  std::copy(arp.sender_mac.begin(), arp.sender_mac.end(), packet + 8);
  StoreBe32(Raw(arp.sender_ip), packet + 14);
  std::copy(arp.target_mac.begin(), arp.target_mac.end(), packet + 18);
  StoreBe32(Raw(arp.target_ip), packet + 24);
  return ethernet.header_bytes() + ArpView::kBytes;
}

Arp ArpReplyTo(const Arp& request, MacAddress mac) {
  return {.dst = request.sender_mac,
          .src = mac,
          .vlan = request.vlan,
          .op = ArpOp::kReply,
          .sender_mac = mac,
          .sender_ip = request.target_ip,
          .target_mac = request.sender_mac,
          .target_ip = request.sender_ip};
}

}  // namespace epic::roce
