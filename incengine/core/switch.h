// A whole switch as a sans-IO core: Ethernet frames and time in, frames out. It tells what is for the switch
// itself (RoCE packets to the collective engine, ARP and ping to its own address) from ordinary traffic,
// which it forwards.
//
// Frames are parsed one at a time from spans, so that a frame may come alone or cut from a larger buffer; the
// sink may collect what is sent until the end of a batch.
//
// A broken frame is a counter, never a log line and never an error. Values only: a copy is a snapshot. Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/counter_table.h"
#include "base/path_mtu.h"
#include "base/types.h"
#include "incengine/core/engine.h"
#include "incengine/core/forwarding.h"
#include "incengine/core/neighbours.h"
#include "incengine/core/probe.h"
#include "roce/frame.h"
#include "roce/super_frame.h"

namespace epic::engine {

// What a switch asks of the world around it.
class FrameSink {
 public:
  // A whole Ethernet frame, valid only during the call. Order per port is kept, also with SendPacket.
  virtual void Send(PortId port, std::span<const uint8_t> frame) = 0;
  // The frame of a RoCE packet of the engine's, in pieces. The payload lies in the arena, in the frame that
  // is being processed, or elsewhere; only in the first case does it stay beyond the call, though not
  // unchanged for ever: a sink that still reads it when its slot is used again sends what its ICRC unmasks.
  // joins: it may share a super-frame with its neighbours. Without more ado: Send.
  virtual void SendPacket(PortId port, const roce::FramePieces& packet, bool joins);
  // A super-frame on its way to another, whole: the receiver takes it, or it would not have been sent
  // (docs/PROTOCOL.md, section 9). Its bytes lie in the frame that is being processed. False, and nothing is
  // sent, by a port that carries none: its packets are then sent by Send.
  virtual bool SendSuperFrame(PortId port, const roce::SuperFrameView& frame);
  // Asks for Switch::OnTimer(now, id) at or soon after the deadline; setting a timer that is set moves it.
  virtual void SetTimer(TimerId id, Nanos deadline) = 0;
  // What Neighbours::At says of some port is no longer what it was.
  virtual void NeighboursChanged() {}

 protected:
  ~FrameSink() = default;
};

// Why a frame for the switch itself is not used, beside what ParseFrame and the engine refuse.
enum class FrameDrop : uint8_t {
  kRunt,          // too short for Ethernet
  kOwnSource,     // its source is this switch: it has come round a loop
  kTaggedRoce,    // RoCE to the switch in a VLAN: endpoints speak untagged
  kNotForSwitch,  // to the switch's MAC address, but nothing that it answers
  kCount,
};

// The reason's name as counters show it, for example "own_source".
const char* Name(FrameDrop reason);

struct SwitchConfig {
  Ipv4 address{};  // endpoint address; also answers ARP and ping
  roce::MacAddress mac{};
  size_t port_count = 0;
  size_t arena_bytes = 0;
  ForwardingMode forwarding = ForwardingMode::kLearning;
  Abilities abilities = Abilities::All();  // that it states, and that its groups have
  HelloIdentity hello;                     // what it says of itself by its ports; without names nothing
  std::optional<PoolConfig> pool;          // of the arena, valid there (Validate); none: no mode V
  uint32_t max_payload = kMaxPathMtu;  // the largest path MTU that its groups may have, which it states too
};

// A super-frame counts as many frames as it has packets.
struct SwitchPortCounters {
  uint64_t rx_frames = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_frames = 0;  // handed to the sink
  uint64_t tx_bytes = 0;
  uint64_t rx_hellos = 0;  // of these frames, hellos and what else is LLDP, and announcements
  uint64_t tx_hellos = 0;
};

inline constexpr auto kSwitchPortCounters = std::to_array<CounterRow<SwitchPortCounters>>({
    {"rx_frames", &SwitchPortCounters::rx_frames},
    {"rx_bytes", &SwitchPortCounters::rx_bytes},
    {"tx_frames", &SwitchPortCounters::tx_frames},
    {"tx_bytes", &SwitchPortCounters::tx_bytes},
    {"rx_hellos", &SwitchPortCounters::rx_hellos},
    {"tx_hellos", &SwitchPortCounters::tx_hellos},
});
static_assert(HasEach(kSwitchPortCounters));

struct SwitchCounters {
  uint64_t roce_packets = 0;      // to the engine
  uint64_t forwarded_frames = 0;  // ordinary frames that left by at least one port
  uint64_t flooded_frames = 0;    // of these, by more than one
  uint64_t arp_replies = 0;
  uint64_t echo_replies = 0;
  // RoCE frames to the switch that ParseFrame refused, by result; [kOk] and [kNotRoce] stay 0.
  std::array<uint64_t, roce::kParseResults> bad_roce{};
  std::array<uint64_t, static_cast<size_t>(DropReason::kCount)> engine_drops{};
  std::array<uint64_t, static_cast<size_t>(ForwardDrop::kCount)> forward_drops{};
  std::array<uint64_t, static_cast<size_t>(FrameDrop::kCount)> frame_drops{};
};

inline constexpr auto kSwitchCounters = std::to_array<CounterRow<SwitchCounters>>({
    {"roce_packets", &SwitchCounters::roce_packets},
    {"forwarded_frames", &SwitchCounters::forwarded_frames},
    {"flooded_frames", &SwitchCounters::flooded_frames},
    {"arp_replies", &SwitchCounters::arp_replies},
    {"echo_replies", &SwitchCounters::echo_replies},
});
static_assert(HasEach(kSwitchCounters,
                      sizeof(SwitchCounters::bad_roce) + sizeof(SwitchCounters::engine_drops) +
                          sizeof(SwitchCounters::forward_drops) + sizeof(SwitchCounters::frame_drops)));

class Switch {
 public:
  explicit Switch(const SwitchConfig& config);

  void OnFrame(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  // A super-frame (roce/super_frame.h) whose packets but the last have segment_bytes. Its packets are taken
  // as if each had come in a frame of its own; those that are not for the switch itself leave together by
  // each port that carries super-frames, else in frames of their own.
  void OnSuperFrame(Nanos now, PortId port, std::span<const uint8_t> frame, size_t segment_bytes,
                    FrameSink& sink);
  void OnTimer(Nanos now, TimerId id, FrameSink& sink);
  // Says hello by all ports, tells bridges in front of other switches where nodes are (announcement.h), at
  // most kMostAnnounced of them by a port, and forgets neighbours that are silent: to be called every
  // Neighbours::kHelloInterval.
  static constexpr size_t kMostAnnounced = 256;
  void OnHelloTime(Nanos now, FrameSink& sink);
  // A port has come up or gone down: what its neighbours are is known only of ports that are said to be up.
  void OnPort(Nanos now, PortId port, bool up, FrameSink& sink);

  // For the control plane. Probe asks another switch for an echo and says what became of the requests
  // before this one.
  ProbeAnswer Probe(const ProbeTarget& target, FrameSink& sink);
  // Asks by ARP, at ports without a switch, who has the address; who answers is a neighbour soon. False, and
  // nothing is sent, if too much has been asked for lately.
  bool Locate(Nanos now, Ipv4 ip, FrameSink& sink);
  Engine& engine() { return engine_; }
  Forwarding& forwarding() { return forwarding_; }
  const Neighbours& neighbours() const { return neighbours_; }

  const SwitchConfig& config() const { return config_; }
  const SwitchCounters& counters() const { return counters_; }
  const std::vector<SwitchPortCounters>& port_counters() const { return port_counters_; }

 private:
  class EngineWorld;

  void OnCountedFrame(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  void OnOwnFrame(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  // Of an endpoint that bears an address, as far as its first packet says.
  void OnBorneSuperFrame(Nanos now, PortId port, const roce::SuperFrameView& frame, FrameSink& sink);
  // Whether a frame to another's MAC address is of one of the engine's endpoints that bear an address.
  bool BearsAddressOf(std::span<const uint8_t> frame) const;
  bool BearsAddressOf(const roce::SuperFrameView& frame) const;
  void OnOwnPacket(Nanos now, PortId port, const roce::FrameAddress& address, const roce::Packet& packet,
                   FrameSink& sink);
  void OnHello(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  void SayHello(PortId port, FrameSink& sink);
  void Announce(PortId port, const roce::MacAddress& node, FrameSink& sink);
  void AnnounceNodes(PortId port, FrameSink& sink);
  void PutRight(PortId port, const roce::MacAddress& flooded, FrameSink& sink);
  bool OnArp(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  bool AnswerArp(PortId port, const roce::Arp& arp, FrameSink& sink);
  void Forward(Nanos now, PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  bool ForwardWhole(Nanos now, PortId port, const roce::SuperFrameView& frame, FrameSink& sink);
  void Send(PortId port, std::span<const uint8_t> frame, FrameSink& sink);
  void SendPacket(PortId port, const OutPacket& out, FrameSink& sink);
  void CountFrame(PortId port, size_t packets, size_t bytes) {
    port_counters_[port].rx_frames += packets;
    port_counters_[port].rx_bytes += bytes;
  }
  void CountBad(roce::ParseResult result) { ++counters_.bad_roce[static_cast<size_t>(result)]; }
  void Count(FrameDrop reason) { ++counters_.frame_drops[static_cast<size_t>(reason)]; }
  void Count(ForwardDrop reason) { ++counters_.forward_drops[static_cast<size_t>(reason)]; }

  SwitchConfig config_;
  Engine engine_;
  Forwarding forwarding_;
  Prober prober_;
  Neighbours neighbours_;
  SwitchCounters counters_;
  std::vector<SwitchPortCounters> port_counters_;
  std::vector<size_t> announced_;       // by port, the last one's place in the forwarding table
  std::vector<uint8_t> cut_;            // a packet of a super-frame that is not for the switch
  std::vector<uint8_t> echo_;           // the echo request or reply being made
  std::vector<roce::CrcShift> shifts_;  // for payloads of each path MTU, smallest first
  uint32_t payload_crc_ = 0;            // of the last payload sent, for OutPacket::same_payload
};

}  // namespace epic::engine
