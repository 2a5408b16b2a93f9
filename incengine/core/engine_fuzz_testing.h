// Where the fuzzer of the engine hears what leaves: of the engine, and of a switch as frames.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/check.h"
#include "incengine/core/switch.h"
#include "incengine/state/effects.h"
#include "roce/super_frame.h"

namespace epic::engine {

// Also follows each endpoint's PSNs, as its peer would: mode I's queue pairs do not show theirs.
class Sink final : public Effects {
 public:
  // first: the PSN that each peer begins with, and that it is sent first.
  explicit Sink(Psn first) : next_in{first, first, first, first}, next_out(next_in) {}

  void Send(PortId port, const OutPacket& out) override {
    ++sends;
    // Touch every byte, so that AddressSanitizer sees what would be serialised.
    for (const uint8_t byte : out.packet.payload) sum = static_cast<uint8_t>(sum + byte);
    if (out.packet.bth.opcode == roce::Opcode::kRcAck) {
      next_in[port] = out.packet.bth.psn + (roce::IsAck(out.packet.aeth.syndrome) ? 1 : 0);
    } else if (out.packet.bth.psn.DistanceFrom(next_out[port]) >= 0) {
      next_out[port] = out.packet.bth.psn + 1;
    }
  }
  void SetTimer(TimerId, Nanos deadline) override { timer = std::min(timer, deadline); }
  void Drop(PortId, DropReason) override {}

  size_t sends = 0;
  uint8_t sum = 0;
  Nanos timer = kNever;
  std::array<Psn, 4> next_in;   // from the peer at the port
  std::array<Psn, 4> next_out;  // to it
};

// What a switch sends, as frames, and asks for, in order.
class Frames final : public FrameSink {
 public:
  void Send(PortId port, std::span<const uint8_t> frame) override {
    sent.push_back({port, false, {frame.begin(), frame.end()}});
  }
  void SendPacket(PortId port, const roce::FramePieces& packet, bool joins) override {
    sent.push_back({port, joins, roce::Join(packet)});
  }
  // Whole by every port: the same packets leave as if each had come alone.
  bool SendSuperFrame(PortId port, const roce::SuperFrameView& frame) override {
    std::vector<uint8_t> alone(frame.bytes().size());
    for (size_t k = 0; k < frame.packets(); ++k) {
      const size_t bytes = frame.Write(k, alone);
      EPIC_CHECK(bytes > 0);
      Send(port, std::span(alone).first(bytes));
    }
    return true;
  }
  void SetTimer(TimerId, Nanos deadline) override { timers.push_back(deadline); }

  struct Sent {
    PortId port;
    bool joins;
    std::vector<uint8_t> frame;
    friend bool operator==(const Sent&, const Sent&) = default;
  };
  std::vector<Sent> sent;
  std::vector<Nanos> timers;
};

}  // namespace epic::engine
