// For tests of a switch among hosts: their addresses, and what leaves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "incengine/core/switch.h"

namespace epic::engine::testing {

inline constexpr Ipv4 kSwitchIp{0x0a00ff01};
inline constexpr roce::MacAddress kSwitchMac = {0x02, 0, 0, 0, 0xff, 1};
inline Ipv4 HostIp(size_t n) { return Ipv4{static_cast<uint32_t>(0x0a000001 + n)}; }
inline roce::MacAddress HostMac(size_t n) { return {0x02, 0, 0, 0, 0, static_cast<uint8_t>(n)}; }

using Bytes = std::vector<uint8_t>;

struct Sent {
  PortId port;
  Bytes frame;
};

// Keeps frames and timers; takes super-frames whole where it is told to.
class Sink : public FrameSink {
 public:
  explicit Sink(bool takes_super_frames = false) : takes_super_frames_(takes_super_frames) {}
  void Send(PortId port, std::span<const uint8_t> frame) override {
    sent.push_back({port, Bytes(frame.begin(), frame.end())});
  }
  bool SendSuperFrame(PortId port, const roce::SuperFrameView& frame) override {
    if (takes_super_frames_) Send(port, frame.bytes());
    return takes_super_frames_;
  }
  void SetTimer(TimerId id, Nanos deadline) override { timers.emplace_back(id, deadline); }

  std::vector<Sent> sent;
  std::vector<std::pair<TimerId, Nanos>> timers;

 private:
  const bool takes_super_frames_;
};

}  // namespace epic::engine::testing
