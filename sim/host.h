// A host of the virtual-time world: the host library's core on the simple RC NIC.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "commlib/core/rank_core.h"
#include "sim/rc_nic.h"

namespace epic::sim {

// How a call ended, or that it has not.
enum class CallState { kRunning, kDone, kFailed };

class Host {
 public:
  Host(const NicConfig& nic, uint32_t path_mtu, uint32_t message_packets, uint32_t window_messages);

  // Start a call; the number returned counts calls from 0. Buffers stay the caller's and must outlive the
  // call.
  int AllReduce(DataType type, std::span<const uint8_t> send, std::span<uint8_t> recv);
  int Barrier();

  CallState state(int call) const { return calls_[static_cast<size_t>(call)].state; }
  // Of a failed call.
  const ControlHeader& reply(int call) const { return calls_[static_cast<size_t>(call)].reply; }
  Nanos finished_at(int call) const { return calls_[static_cast<size_t>(call)].finished_at; }
  bool all_done() const { return unfinished_ == 0; }

  void OnPacket(Nanos now, const roce::Packet& packet) { nic_.OnPacket(now, packet); }
  void Poll(Nanos now);
  std::vector<roce::Packet> TakePackets();
  Nanos next_deadline() const { return nic_.next_deadline(); }
  // A call was started since the last Poll.
  bool wants_poll() const { return wants_poll_; }
  const RcNic& nic() const { return nic_; }

 private:
  struct Call {
    CallState state = CallState::kRunning;
    std::span<const uint8_t> send;
    std::span<uint8_t> recv;
    ControlHeader reply;
    Nanos finished_at = 0;
  };
  int Start(const ControlHeader& header, std::span<const uint8_t> send, std::span<uint8_t> recv);

  using ControlRing = std::array<std::array<uint8_t, kControlBytes>, kMaxOpenInvocations>;

  RcNic nic_;
  RankCore core_;
  std::vector<Call> calls_;
  size_t unfinished_ = 0;
  bool wants_poll_ = false;
  ControlRing control_out_{};
  ControlRing control_in_{};
};

}  // namespace epic::sim
