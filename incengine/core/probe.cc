#include "incengine/core/probe.h"

#include <algorithm>
#include <array>

#include "incengine/core/echo.h"
#include "roce/view.h"

namespace epic::engine {
namespace {

// Of the requests; not below 1024, because echo servers leave those ports without an answer.
constexpr uint16_t kProbePort = 49159;
constexpr std::array<uint8_t, 12> kText = {'E', 'P', 'I', 'C', ' ', 'p', 'r', 'o', 'b', 'e', ' ', ' '};
constexpr size_t kDataBytes = kText.size() + 4;

}  // namespace

ProbeAnswer Prober::Ask(const ProbeTarget& target, Ipv4 own_ip, const roce::MacAddress& own_mac,
                        std::vector<uint8_t>* frame) {
  const auto before = asked_.find(target.ip);
  const ProbeAnswer answer =
      before == asked_.end() ? ProbeAnswer{} : ProbeAnswer{true, before->second.requests.Answered()};
  if (before == asked_.end() && asked_.size() >= kMaxTargets) {
    asked_.erase(std::ranges::min_element(
        asked_, {}, [](const auto& entry) { return entry.second.requests.last_number(); }));
  }
  const uint32_t number = next_number_++;
  Asked& asked = asked_[target.ip];
  asked.requests.OnRequest(number);
  asked.port = target.port;
  asked.by_arp.reset();
  if (target.by_arp) {
    asked.by_arp = target.mac;
    frame->assign(roce::kMaxArpFrameBytes, 0);
    frame->resize(roce::WriteArp({.dst = target.mac,
                                  .src = own_mac,
                                  .vlan = {},
                                  .op = roce::ArpOp::kRequest,
                                  .sender_mac = own_mac,
                                  .sender_ip = own_ip,
                                  .target_mac = {},
                                  .target_ip = target.ip},
                                 *frame));
    return answer;
  }

  constexpr size_t kUdpBytes = roce::UdpView::kBytes + kDataBytes;
  constexpr size_t kIpBytes = roce::Ipv4View::kBytes + kUdpBytes;
  frame->assign(roce::EthernetView::kBytes + kIpBytes, 0);
  uint8_t* at = frame->data();
  roce::EthernetHeader{target.mac, own_mac, std::nullopt, roce::kEtherTypeIpv4}.Write(at);
  at += roce::EthernetView::kBytes;
  roce::Ipv4Header{.total_length = kIpBytes, .src = own_ip, .dst = target.ip}.Write(at);
  at += roce::Ipv4View::kBytes;
  roce::UdpHeader{.src_port = kProbePort, .dst_port = kUdpEchoPort, .length = kUdpBytes}.Write(at);
  at += roce::UdpView::kBytes;
  std::ranges::copy(kText, at);
  roce::StoreBe32(number, at + kText.size());
  return answer;
}

bool Prober::OnFrame(PortId port, std::span<const uint8_t> frame, Ipv4 own_ip) {
  const auto ethernet = roce::EthernetView::Of(frame);
  if (!ethernet || ethernet->ether_type() != roce::kEtherTypeIpv4) return false;
  const auto ip = roce::Ipv4View::Of(ethernet->payload());
  if (!ip || !ip->checksum_ok() || ip->dst() != own_ip || ip->protocol() != roce::kIpProtocolUdp)
    return false;
  if (ip->more_fragments() || ip->fragment_offset() != 0) return false;
  const auto udp = roce::UdpView::Of(ip->payload());
  if (!udp || udp->src_port() != kUdpEchoPort || udp->dst_port() != kProbePort) return false;
  const roce::Bytes data = udp->payload();
  if (data.size() < kDataBytes || !std::ranges::equal(kText, data.first(kText.size()))) return false;
  const auto asked = asked_.find(ip->src());
  if (asked == asked_.end() || asked->second.port != port || asked->second.by_arp) return false;
  return asked->second.requests.OnEcho(roce::LoadBe32(&data[kText.size()]));
}

void Prober::OnArp(PortId port, const roce::Arp& arp) {
  const auto asked = asked_.find(arp.sender_ip);
  if (arp.op != roce::ArpOp::kReply || asked == asked_.end()) return;
  Asked& of = asked->second;
  if (of.port != port || of.by_arp != arp.sender_mac || arp.src != arp.sender_mac) return;
  of.requests.OnEcho(of.requests.last_number());
}

}  // namespace epic::engine
