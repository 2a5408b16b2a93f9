#include "incengine/core/source_guard.h"

namespace epic::engine {
namespace {

constexpr uint16_t kEtherTypeServiceTag = 0x88a8;

}  // namespace

bool BearsSourceOf(const ForwardingEntry* host, const roce::EthernetView& frame) {
  if (host == nullptr) return true;
  if (frame.src() != host->mac) return false;
  const auto is_its_own = [host](Ipv4 ip) { return !host->ip || ip == *host->ip || Raw(ip) == 0; };
  if (frame.ether_type() == roce::kEtherTypeArp) {
    const auto arp = roce::ArpView::Of(frame.payload());
    return arp && arp->sender_mac() == host->mac && is_its_own(arp->sender_ip());
  }
  if (frame.ether_type() == roce::kEtherTypeVlan || frame.ether_type() == kEtherTypeServiceTag) return false;
  if (frame.ether_type() != roce::kEtherTypeIpv4) return true;
  const auto ip = roce::Ipv4View::Of(frame.payload());
  return ip && is_its_own(ip->src());
}

}  // namespace epic::engine
