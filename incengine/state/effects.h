// What a protocol core asks of the world around it. The daemon, the simulator and the tests each implement
// this once.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "roce/packet.h"

namespace epic::engine {

// Why a packet was not used. A counter each; never a log line, never a Status.
enum class DropReason : uint8_t {
  kUnknownQpn,  // no endpoint has this destination QPN
  kStranger,    // right QPN, but not from the endpoint's remote address
  kWrongPort,   // and from that address, but not by the port of the edge
  kBadPkey,
  kUnexpectedOpcode,  // an opcode that this mode or position does not allow
  kBadLength,         // payload length differs from what the segment demands
  kBadControl,        // where a control packet is due there is none, or one for another invocation
  kGap,               // ahead of the next expected packet of its endpoint
  kAboveWindow,       // beyond the slots that the group has
  kDuplicate,         // already counted; answered where an answer is due
  kTooEarly,          // data whose receivers may not have called yet
  kStaleSlot,         // asks for a slot that a newer index holds
  kUnexpectedResult,  // a result for an index to which this switch has not contributed
  kAckBeyond,         // acknowledges what was never sent
  kGroupFailed,       // the group is stopped
  kRemoteAccess,      // a host's NIC refuses what the switch reads or writes in its memory
  kCount,
};

// The reason's name as counters and tables show it, for example "unknown_qpn".
const char* Name(DropReason reason);

// A packet to put on the wire. payload views the core's memory or the packet being processed and is valid
// only during the call.
struct OutPacket {
  roce::MacAddress dst_mac{};
  uint16_t ip_id = 0;
  // The payload is that of the Send before this one in the same call: its part of the ICRC can be used again.
  bool same_payload = false;
  // The remote endpoint takes super-frames: the packet may share one with its neighbours.
  bool super_frames = false;
  roce::Packet packet;
};

// Identifies a timer of the core; setting one that is set moves it.
enum class TimerId : uint64_t {};

class Effects {
 public:
  virtual void Send(PortId port, const OutPacket& packet) = 0;
  // Asks for Engine::OnTimer(now, id) at or soon after the deadline.
  virtual void SetTimer(TimerId id, Nanos deadline) = 0;
  virtual void Drop(PortId port, DropReason reason) = 0;

 protected:
  ~Effects() = default;
};

}  // namespace epic::engine
