// For tests of neighbours: a switch in virtual time with what it sends, and what hosts say.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "incengine/core/neighbours.h"
#include "incengine/core/switch.h"
#include "incengine/core/switch_testing.h"

namespace epic::engine::testing {

using namespace std::string_view_literals;

inline constexpr roce::MacAddress kHostMac = {0x52, 0x54, 0, 0, 0, 7};
inline constexpr Ipv4 kHostIp{0x0a000007};

inline roce::MacAddress SwitchMac(uint8_t number) { return {0x02, 0xe1, 0, 0, 0, number}; }
inline Ipv4 SwitchIp(uint8_t number) { return Ipv4{0x0a00ff00u + number}; }

inline Bytes Written(const roce::Lldp& lldp) {
  Bytes frame(roce::kMaxLldpFrameBytes);
  frame.resize(roce::WriteLldp(lldp, frame));
  return frame;
}

// What lldpd says on a host.
inline roce::Lldp HostLldp(std::string_view name = "h7"sv, uint16_t ttl_s = 120) {
  return {.dst = roce::kLldpMac,
          .src = kHostMac,
          .chassis_kind = roce::ChassisKind::kMac,
          .chassis = "\x52\x54\x00\x00\x00\x07"sv,
          .port_kind = roce::PortKind::kMac,
          .port = "\x52\x54\x00\x00\x00\x07"sv,
          .ttl_s = ttl_s,
          .port_description = "eth0"sv,
          .system_name = name,
          .system_description = "Debian"sv,
          .capabilities = roce::LldpCapabilities{roce::kCapabilityStation, roce::kCapabilityStation},
          .management = kHostIp,
          .role = {},
          .version = {}};
}

inline roce::Arp HostArp(Ipv4 ip = kHostIp, const roce::MacAddress& mac = kHostMac) {
  return {.dst = roce::kBroadcastMac,
          .src = mac,
          .vlan = {},
          .op = roce::ArpOp::kRequest,
          .sender_mac = mac,
          .sender_ip = ip,
          .target_mac = {},
          .target_ip = Ipv4{0x0a0000fe}};
}

inline Bytes Written(const roce::Arp& arp) {
  Bytes frame(roce::kMaxArpFrameBytes);
  frame.resize(roce::WriteArp(arp, frame));
  return frame;
}

// A switch with three ports, all of them up, and what it has sent since the last look.
class Station final : public FrameSink {
 public:
  explicit Station(uint8_t number, ForwardingMode forwarding = ForwardingMode::kLearning)
      : switch_({.address = SwitchIp(number),
                 .mac = SwitchMac(number),
                 .port_count = 3,
                 .arena_bytes = 4096,
                 .forwarding = forwarding,
                 .hello = {"s" + std::to_string(number), "1.2.3", {"p0", "p1", "p2"}}}) {
    for (PortId port = 0; port < 3; ++port) switch_.OnPort(0, port, true, *this);
  }
  void Send(PortId port, std::span<const uint8_t> frame) override {
    sent_.push_back({port, Bytes(frame.begin(), frame.end())});
  }
  void SetTimer(TimerId, Nanos) override {}
  void NeighboursChanged() override { ++changes_; }

  std::vector<Sent> Take() { return std::exchange(sent_, {}); }
  // Once a second until then; what the last one has sent.
  std::vector<Sent> Tick(Nanos now) {
    for (; ticked_ + kSecond < now; ticked_ += kSecond) switch_.OnHelloTime(ticked_ + kSecond, *this);
    return TickLate(now);
  }
  // After all the time since the last one.
  std::vector<Sent> TickLate(Nanos now) {
    sent_.clear();
    switch_.OnHelloTime(ticked_ = now, *this);
    return Take();
  }
  // What is sent because of it.
  std::vector<Sent> Hear(Nanos now, PortId port, const Bytes& frame) {
    sent_.clear();
    switch_.OnFrame(now, port, frame, *this);
    return Take();
  }
  std::vector<Neighbour> At(PortId port) const { return switch_.neighbours().At(port); }
  uint64_t Counted(PortId port, HelloCount what) const {
    return switch_.neighbours().counts(port)[static_cast<size_t>(what)];
  }
  // Changes since the last look.
  int Changes() { return std::exchange(changes_, 0); }
  Switch& core() { return switch_; }

 private:
  std::vector<Sent> sent_;
  int changes_ = 0;
  Nanos ticked_ = 0;
  Switch switch_;
};

inline Neighbour SwitchAt(uint8_t number, const std::string& port, HeardBy heard_by) {
  return {.kind = NeighbourKind::kSwitch,
          .name = "s" + std::to_string(number),
          .port = port,
          .ip = SwitchIp(number),
          .mac = SwitchMac(number),
          .version = "1.2.3",
          .heard_by = heard_by};
}

inline const Neighbour kHostByLldp = {.kind = NeighbourKind::kHost,
                                      .name = "h7",
                                      .port = "eth0",
                                      .ip = kHostIp,
                                      .mac = kHostMac,
                                      .version = "",
                                      .heard_by = HeardBy::kLldp};
inline const Neighbour kHostByArp = {.kind = NeighbourKind::kHost,
                                     .name = "",
                                     .port = "",
                                     .ip = kHostIp,
                                     .mac = kHostMac,
                                     .version = "",
                                     .heard_by = HeardBy::kArp};

// Link a.p1 to b.p2; `second_only`: something that bridges is on it, which takes LLDP's own.
inline void Exchange(Nanos now, Station* a, Station* b, bool second_only = false) {
  const auto pass = [&](std::vector<Sent> frames, PortId from, Station* to, PortId port) {
    std::vector<Sent> answers;
    for (const Sent& sent : frames) {
      if (sent.port != from) continue;
      if (second_only && std::equal(sent.frame.begin(), sent.frame.begin() + 6, roce::kLldpMac.begin()))
        continue;
      const auto more = to->Hear(now, port, sent.frame);
      answers.insert(answers.end(), more.begin(), more.end());
    }
    return answers;
  };
  auto answers = pass(a->Tick(now), 1, b, 2);
  pass(std::move(answers), 2, a, 1);
  pass(b->Tick(now), 2, a, 1);
}

}  // namespace epic::engine::testing
