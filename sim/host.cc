#include "sim/host.h"

#include <utility>

#include "base/check.h"

namespace epic::sim {

Host::Host(const NicConfig& nic, uint32_t path_mtu, uint32_t message_packets, uint32_t window_messages)
    : nic_(nic),
      core_({.path_mtu = path_mtu, .message_packets = message_packets, .window_messages = window_messages}) {}

int Host::Start(const ControlHeader& header, std::span<const uint8_t> send, std::span<uint8_t> recv) {
  const OpId op = core_.Post(header);
  EPIC_CHECK(op == static_cast<OpId>(calls_.size()));
  calls_.push_back({.send = send, .recv = recv});
  ++unfinished_;
  wants_poll_ = true;
  return static_cast<int>(op);
}

int Host::AllReduce(DataType type, std::span<const uint8_t> send, std::span<uint8_t> recv) {
  return Start({.collective = Collective::kAllReduce,
                .op = ReduceOp::kSum,
                .type = type,
                .count = send.size() / ElementBytes(type)},
               send, recv);
}

int Host::Barrier() { return Start({.collective = Collective::kBarrier}, {}, {}); }

void Host::Poll(Nanos now) {
  wants_poll_ = false;
  while (!nic_.completions().empty()) {
    const Completion c = nic_.completions().front();
    nic_.completions().pop_front();
    if (!c.is_recv) {
      core_.OnSendComplete(c.wr_id);
      continue;
    }
    std::span<const uint8_t> control;
    if (core_.IsControl(c.wr_id))
      control = control_in_[static_cast<size_t>(ControlSlot(core_.OpOf(c.wr_id)))];
    core_.OnRecvComplete(c.wr_id, c.bytes, c.imm, control);
  }
  WorkRequest wr;
  while (core_.NextWorkRequest(&wr)) {
    const auto slot = static_cast<size_t>(ControlSlot(wr.op));
    const Call& call = calls_[static_cast<size_t>(wr.op)];
    if (wr.is_recv) {
      nic_.PostRecv(wr.wr_id, wr.is_control ? std::span<uint8_t>(control_in_[slot])
                                            : call.recv.subspan(wr.offset, wr.length));
    } else if (wr.is_control) {
      Encode(wr.header, control_out_[slot]);
      nic_.PostSend(wr.wr_id, control_out_[slot], wr.imm);
    } else {
      nic_.PostSend(wr.wr_id, call.send.subspan(wr.offset, wr.length), std::nullopt);
    }
  }
  if (core_.failed()) core_.OnDrained();
  while (const auto finished = core_.NextFinished()) {
    Call& call = calls_[static_cast<size_t>(finished->op)];
    call.state = finished->outcome == Outcome::kOk ? CallState::kDone : CallState::kFailed;
    call.reply = finished->reply;
    call.finished_at = now;
    --unfinished_;
  }
  nic_.Poll(now);
}

std::vector<roce::Packet> Host::TakePackets() { return std::exchange(nic_.out(), {}); }

}  // namespace epic::sim
