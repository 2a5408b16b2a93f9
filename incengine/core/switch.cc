#include "incengine/core/switch.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/path_mtu.h"
#include "incengine/core/announcement.h"
#include "incengine/core/echo.h"
#include "incengine/core/source_guard.h"
#include "roce/arp.h"
#include "roce/lldp.h"
#include "roce/super_frame.h"
#include "roce/view.h"

namespace epic::engine {
namespace {

constexpr uint16_t kVlanIdMask = 0x0fff;

// The place in Switch::shifts_ for a payload of this many bytes, or none: only whole-MTU payloads are worth a
// table.
size_t ShiftIndex(size_t payload) {
  if (!std::has_single_bit(payload) || payload < kMinPathMtu) return SIZE_MAX;
  return static_cast<size_t>(std::countr_zero(payload) - std::countr_zero(kMinPathMtu));
}

// A priority tag (VLAN 0) is no VLAN.
bool OnVlan(const roce::FrameAddress& address) { return (address.vlan.value_or(0) & kVlanIdMask) != 0; }

bool IsHello(const roce::EthernetView& frame) {
  return frame.ether_type() == roce::kEtherTypeLldp && !frame.vlan() && roce::IsLldpAddress(frame.dst());
}

}  // namespace

const char* Name(FrameDrop reason) {
  switch (reason) {
    case FrameDrop::kRunt:
      return "runt";
    case FrameDrop::kOwnSource:
      return "own_source";
    case FrameDrop::kTaggedRoce:
      return "tagged_roce";
    case FrameDrop::kNotForSwitch:
      return "not_for_switch";
    case FrameDrop::kCount:
      break;
  }
  return "unknown";
}

void FrameSink::SendPacket(PortId port, const roce::FramePieces& packet, bool) {
  Send(port, roce::Join(packet));
}

bool FrameSink::SendSuperFrame(PortId, const roce::SuperFrameView&) { return false; }

// The engine's effects as frames.
class Switch::EngineWorld final : public Effects {
 public:
  EngineWorld(Switch& owner, FrameSink& sink) : owner_(owner), sink_(sink) {}
  void Send(PortId port, const OutPacket& packet) override { owner_.SendPacket(port, packet, sink_); }
  void SetTimer(TimerId id, Nanos deadline) override { sink_.SetTimer(id, deadline); }
  void Drop(PortId, DropReason reason) override {
    ++owner_.counters_.engine_drops[static_cast<size_t>(reason)];
  }

 private:
  Switch& owner_;
  FrameSink& sink_;
};

Switch::Switch(const SwitchConfig& config)
    : config_(config),
      engine_(config.address, config.port_count, config.arena_bytes),
      forwarding_(config.forwarding, config.port_count),
      neighbours_(config.hello, config.mac, config.address, config.port_count),
      port_counters_(config.port_count),
      announced_(config.port_count),
      cut_(roce::MaxFrameBytes(kMaxPathMtu)) {
  for (const uint32_t mtu : kPathMtus) shifts_.emplace_back(mtu);
  if (config.pool) EPIC_CHECK(engine_.MakePool(*config.pool).ok());
}

void Switch::OnFrame(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  EPIC_CHECK(port < config_.port_count);
  CountFrame(port, 1, frame.size());
  OnCountedFrame(now, port, frame, sink);
}

void Switch::OnCountedFrame(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  const auto ethernet = roce::EthernetView::Of(frame);
  if (!ethernet) return Count(FrameDrop::kRunt);
  if (ethernet->src() == config_.mac) {
    if (IsHello(*ethernet)) neighbours_.OnOwnHello(port);
    return Count(FrameDrop::kOwnSource);
  }
  const bool own = ethernet->dst() == config_.mac;
  // Hellos are heard also where a host is guarded: whoever takes its place is to be found.
  if (!own && IsHello(*ethernet)) return OnHello(now, port, frame, sink);
  // What is for this switch goes no further, and whose it is the engine decides.
  if (!own && !BearsSourceOf(forwarding_.GuardedHost(port), *ethernet))
    return Count(ForwardDrop::kForgedSource);
  if (ethernet->ether_type() == roce::kEtherTypeArp && OnArp(now, port, frame, sink)) return;
  if (own) return OnOwnFrame(now, port, frame, sink);
  if (engine_.bears_any() && BearsAddressOf(frame)) return OnOwnFrame(now, port, frame, sink);
  Forward(now, port, frame, sink);
}

void Switch::OnSuperFrame(Nanos now, PortId port, std::span<const uint8_t> frame, size_t segment_bytes,
                          FrameSink& sink) {
  EPIC_CHECK(port < config_.port_count);
  roce::SuperFrameView view;
  const roce::ParseResult whole = roce::SuperFrameView::Of(frame, segment_bytes, &view);
  if (whole != roce::ParseResult::kOk) return CountFrame(port, 1, frame.size()), CountBad(whole);
  const auto ethernet = roce::EthernetView::Of(frame);
  EPIC_CHECK(ethernet.has_value());
  const bool own = ethernet->dst() == config_.mac && ethernet->src() != config_.mac;
  if (!own && engine_.bears_any() && BearsAddressOf(view)) return OnBorneSuperFrame(now, port, view, sink);
  if (!own && view.whole() && ForwardWhole(now, port, view, sink)) return;
  if (own) CountFrame(port, view.packets(), frame.size());
  for (size_t k = 0; k < view.packets(); ++k) {
    if (!own) {
      const size_t bytes = view.Write(k, cut_);
      bytes > 0 ? OnFrame(now, port, std::span(cut_).first(bytes), sink)
                : CountBad(roce::ParseResult::kTruncated);
      continue;
    }
    roce::FrameAddress address;
    roce::Packet packet;
    const roce::ParseResult result = view.Parse(k, &address, &packet);
    result == roce::ParseResult::kOk ? OnOwnPacket(now, port, address, packet, sink) : CountBad(result);
  }
}

// Whatever else is in it, or is damaged, meets what it would meet in a frame of its own.
void Switch::OnBorneSuperFrame(Nanos now, PortId port, const roce::SuperFrameView& frame, FrameSink& sink) {
  CountFrame(port, frame.packets(), frame.bytes().size());
  const auto ethernet = roce::EthernetView::Of(frame.bytes());
  const bool guarded =
      ethernet->src() == config_.mac || !BearsSourceOf(forwarding_.GuardedHost(port), *ethernet);
  for (size_t k = 0; k < frame.packets(); ++k) {
    roce::FrameAddress address;
    roce::Packet packet;
    if (!guarded && frame.Parse(k, &address, &packet) == roce::ParseResult::kOk && engine_.Bears(packet)) {
      OnOwnPacket(now, port, address, packet, sink);
      continue;
    }
    const size_t bytes = frame.Write(k, cut_);
    bytes > 0 ? OnCountedFrame(now, port, std::span(cut_).first(bytes), sink)
              : CountBad(roce::ParseResult::kTruncated);
  }
}

void Switch::OnTimer(Nanos now, TimerId id, FrameSink& sink) {
  EngineWorld world(*this, sink);
  engine_.OnTimer(now, id, world);
}

ProbeAnswer Switch::Probe(const ProbeTarget& target, FrameSink& sink) {
  EPIC_CHECK(target.port < config_.port_count);
  const ProbeAnswer answer = prober_.Ask(target, config_.address, config_.mac, &echo_);
  Send(target.port, echo_, sink);
  return answer;
}

void Switch::OnOwnFrame(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  roce::FrameAddress address;
  roce::Packet packet;
  const roce::ParseResult result = roce::ParseFrame(frame, &address, &packet);
  if (result == roce::ParseResult::kNotRoce) {
    if (prober_.OnFrame(port, frame, config_.address)) return;
    if (!EchoReply(frame, config_.address, &echo_)) return Count(FrameDrop::kNotForSwitch);
    ++counters_.echo_replies;
    return Send(port, echo_, sink);
  }
  if (result != roce::ParseResult::kOk) return CountBad(result);
  OnOwnPacket(now, port, address, packet, sink);
}

// Whose a packet is is asked before its ICRC: what is forwarded, which is most, costs no checksum. One on a
// VLAN is no endpoint's.
bool Switch::BearsAddressOf(std::span<const uint8_t> frame) const {
  roce::FrameAddress address;
  roce::Packet packet;
  return roce::ParseFrame(frame, &address, &packet, false) == roce::ParseResult::kOk && !OnVlan(address) &&
         engine_.Bears(packet);
}

// All packets of a super-frame are of one queue pair, as far as they are right.
bool Switch::BearsAddressOf(const roce::SuperFrameView& frame) const {
  roce::FrameAddress address;
  roce::Packet packet;
  return frame.Parse(0, &address, &packet, false) == roce::ParseResult::kOk && engine_.Bears(packet);
}

void Switch::OnOwnPacket(Nanos now, PortId port, const roce::FrameAddress& address,
                         const roce::Packet& packet, FrameSink& sink) {
  if (packet.dst_ip != config_.address && !engine_.Bears(packet)) return Count(FrameDrop::kNotForSwitch);
  if (OnVlan(address)) return Count(FrameDrop::kTaggedRoce);
  ++counters_.roce_packets;
  EngineWorld world(*this, sink);
  engine_.OnPacket(now, port, packet, world);
}

void Switch::OnHello(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  ++port_counters_[port].rx_hellos;
  bool answer = false;
  if (neighbours_.OnHello(now, port, frame, &answer)) sink.NeighboursChanged();
  if (answer) SayHello(port, sink);
}

void Switch::SayHello(PortId port, FrameSink& sink) {
  if (!neighbours_.Speaks(port)) return;
  std::array<uint8_t, roce::kMaxLldpFrameBytes> hello;
  for (const roce::MacAddress& dst : {roce::kLldpMac, roce::kHelloMac}) {
    ++port_counters_[port].tx_hellos;
    Send(port, std::span(hello).first(neighbours_.WriteHello(port, dst, hello)), sink);
  }
}

void Switch::OnHelloTime(Nanos now, FrameSink& sink) {
  if (neighbours_.OnTime(now)) sink.NeighboursChanged();
  for (size_t i = 0; i < config_.port_count; ++i) {
    const auto port = static_cast<PortId>(i);
    SayHello(port, sink);
    AnnounceNodes(port, sink);
  }
}

void Switch::Announce(PortId port, const roce::MacAddress& node, FrameSink& sink) {
  ++port_counters_[port].tx_hellos;
  Send(port, WriteAnnouncement(node), sink);
}

// Those that are not behind the port itself, in turn; nor the switch there, which has other links, too.
void Switch::AnnounceNodes(PortId port, FrameSink& sink) {
  const std::vector<ForwardingEntry>& entries = forwarding_.table().entries;
  if (!neighbours_.BridgedSwitch(port)) return;
  for (size_t i = 0; i < std::min(entries.size(), kMostAnnounced); ++i) {
    announced_[port] = (announced_[port] + 1) % entries.size();
    const ForwardingEntry& entry = entries[announced_[port]];
    if (entry.port != port && !neighbours_.Hears(port, entry.mac)) Announce(port, entry.mac, sink);
  }
}

// What is flooded may come by another way than what goes back to its source.
void Switch::PutRight(PortId port, const roce::MacAddress& flooded, FrameSink& sink) {
  if (!neighbours_.BridgedSwitch(port)) return;
  const PortId back = forwarding_.TablePort(flooded);
  if (back != kNoPort && back != port) Announce(port, flooded, sink);
}

void Switch::OnPort(Nanos now, PortId port, bool up, FrameSink& sink) {
  EPIC_CHECK(port < config_.port_count);
  if (neighbours_.OnPort(now, port, up)) sink.NeighboursChanged();
  SayHello(port, sink);
}

bool Switch::Locate(Nanos now, Ipv4 ip, FrameSink& sink) {
  if (!neighbours_.MayLocate(now)) return false;
  std::array<uint8_t, roce::kMaxArpFrameBytes> request;
  const size_t bytes = roce::WriteArp({.dst = roce::kBroadcastMac,
                                       .src = config_.mac,
                                       .vlan = {},
                                       .op = roce::ArpOp::kRequest,
                                       .sender_mac = config_.mac,
                                       .sender_ip = config_.address,
                                       .target_mac = {},
                                       .target_ip = ip},
                                      request);
  for (size_t i = 0; i < config_.port_count; ++i) {
    const auto port = static_cast<PortId>(i);
    if (neighbours_.Locates(port)) Send(port, std::span(request).first(bytes), sink);
  }
  return true;
}

// True if nobody else is to have the frame.
bool Switch::OnArp(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  const auto arp = roce::ParseArp(frame);
  if (!arp) return false;
  if (neighbours_.OnArp(now, port, *arp)) sink.NeighboursChanged();
  prober_.OnArp(port, *arp);
  if (arp->op == roce::ArpOp::kRequest) return AnswerArp(port, *arp, sink);
  return arp->dst == config_.mac && arp->target_ip == config_.address;  // what Locate has asked for
}

bool Switch::AnswerArp(PortId port, const roce::Arp& arp, FrameSink& sink) {
  roce::MacAddress answer = config_.mac;
  if (arp.target_ip != config_.address) {
    const ForwardingEntry* entry = forwarding_.FindIp(arp.target_ip);
    // Whoever sits on the asker's own port answers for itself (and may be the asker, probing its address).
    if (entry == nullptr || entry->port == port) return false;
    answer = entry->mac;
  }
  std::array<uint8_t, roce::kMaxArpFrameBytes> reply;
  const size_t bytes = roce::WriteArp(roce::ArpReplyTo(arp, answer), reply);
  ++counters_.arp_replies;
  Send(port, std::span(reply).first(bytes), sink);
  return true;
}

void Switch::Forward(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  const auto ethernet = roce::EthernetView::Of(frame);
  if (roce::IsGroup(ethernet->dst())) {
    if (IsAnnouncement(*ethernet)) return void(++port_counters_[port].rx_hellos);
    PutRight(port, ethernet->src(), sink);
  }
  ForwardDrop drop = ForwardDrop::kCount;
  const auto ports = forwarding_.Route(now, port, ethernet->src(), ethernet->dst(), &drop);
  if (ports.empty()) return Count(drop);
  ++counters_.forwarded_frames;
  if (ports.size() > 1) ++counters_.flooded_frames;
  for (const PortId out : ports) Send(out, frame, sink);
}

// By each port whole that carries it, and packet by packet by the others. False, and nothing is done or
// counted, of one that is to leave by none: whatever its packets meet with, they meet with one by one.
bool Switch::ForwardWhole(Nanos now, PortId port, const roce::SuperFrameView& frame, FrameSink& sink) {
  const auto ethernet = roce::EthernetView::Of(frame.bytes());
  if (ethernet->src() == config_.mac || !BearsSourceOf(forwarding_.GuardedHost(port), *ethernet))
    return false;
  ForwardDrop drop = ForwardDrop::kCount;
  const auto ports = forwarding_.Route(now, port, ethernet->src(), ethernet->dst(), &drop);
  if (ports.empty()) return false;
  CountFrame(port, frame.packets(), frame.bytes().size());
  counters_.forwarded_frames += frame.packets();
  if (ports.size() > 1) counters_.flooded_frames += frame.packets();
  for (const PortId out : ports) {
    if (sink.SendSuperFrame(out, frame)) {
      port_counters_[out].tx_frames += frame.packets();
      port_counters_[out].tx_bytes += frame.bytes().size();
      continue;
    }
    for (size_t k = 0; k < frame.packets(); ++k) {
      const size_t bytes = frame.Write(k, cut_);
      bytes > 0 ? Send(out, std::span(cut_).first(bytes), sink) : CountBad(roce::ParseResult::kTruncated);
    }
  }
  if (roce::IsGroup(ethernet->dst())) PutRight(port, ethernet->src(), sink);
  return true;
}

void Switch::Send(PortId port, std::span<const uint8_t> frame, FrameSink& sink) {
  ++port_counters_[port].tx_frames;
  port_counters_[port].tx_bytes += frame.size();
  sink.Send(port, frame);
}

void Switch::SendPacket(PortId port, const OutPacket& out, FrameSink& sink) {
  const roce::FrameAddress address{.dst = out.dst_mac, .src = config_.mac, .ip_id = out.ip_id, .vlan = {}};
  const std::span<const uint8_t> payload = out.packet.payload;
  const size_t shift = ShiftIndex(payload.size());
  roce::FramePieces pieces;
  if (shift < shifts_.size()) {
    if (!out.same_payload) payload_crc_ = roce::Crc32(0, payload);
    const roce::PayloadCrc crc{&shifts_[shift], payload_crc_};
    roce::WritePieces(address, out.packet, &crc, &pieces);
  } else {
    roce::WritePieces(address, out.packet, nullptr, &pieces);
  }
  ++port_counters_[port].tx_frames;
  port_counters_[port].tx_bytes += pieces.size();
  sink.SendPacket(port, pieces, out.super_frames);
}

}  // namespace epic::engine
