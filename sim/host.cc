#include "sim/host.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace epic::sim {
namespace {

constexpr uint32_t kLkey = 1;

// The simulating process' own memory at its own addresses; nobody writes to it from afar.
class OwnMemory final : public roce::Memory {
 public:
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const bool local = access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite;
    if (!local || key != kLkey) return std::nullopt;
    return std::span(std::bit_cast<uint8_t*>(address), length);
  }
};

roce::SgeList SgesOf(std::span<const uint8_t> buffer) {
  roce::SgeList list;
  list.count = 1;
  list.sge[0] = {std::bit_cast<uint64_t>(buffer.data()), static_cast<uint32_t>(buffer.size()), kLkey};
  return list;
}

roce::QueuePair Connected(const HostConfig& config) {
  roce::Policy policy = roce::RxeLike();
  policy.retry_7_is_forever = !config.retries_end;
  const uint32_t window_packets = config.message_packets * config.window_messages;
  roce::QueuePair qp({.local_ip = config.local_ip,
                      .local_qpn = config.local_qpn,
                      .send_depth = MaxSendRequests(window_packets),
                      .recv_depth = MaxRecvRequests(window_packets),
                      .max_inline_bytes = 0,
                      .policy = policy});
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kInit}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRtr,
                        .remote_ip = config.remote_ip,
                        .remote_qpn = config.remote_qpn,
                        .path_mtu = config.path_mtu,
                        .rq_psn = config.recv_psn,
                        .max_dest_rd_atomic = 0,
                        .min_rnr_timer = 14}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRts,
                        .sq_psn = config.send_psn,
                        .timeout = config.timeout,
                        .retry_cnt = 7,
                        .rnr_retry = 7,
                        .max_rd_atomic = 0}) == roce::ModifyResult::kOk);
  return qp;
}

}  // namespace

Host::Host(const HostConfig& config)
    : rank_(config.rank),
      wake_(config.wake),
      qp_(Connected(config)),
      core_({.path_mtu = config.path_mtu,
             .message_packets = config.message_packets,
             .window_messages = config.window_messages,
             .rank = config.rank,
             .world_size = config.world_size}) {}

int Host::Start(const ControlHeader& header, std::span<const uint8_t> send, std::span<uint8_t> recv) {
  EPIC_CHECK(!stopped_ && alive());
  const bool own_broadcast = header.collective == Collective::kBroadcast && rank_ == header.root;
  EPIC_CHECK(send.size() == SendBytes(header, rank_));
  EPIC_CHECK(recv.size() == RecvBytes(header, rank_) || (own_broadcast && recv.empty()));
  if (header.collective == Collective::kAllGather && !send.empty()) {
    std::memmove(recv.data() + rank_ * send.size(), send.data(), send.size());
  } else if (own_broadcast && !send.empty() && !recv.empty()) {
    std::memmove(recv.data(), send.data(), send.size());
  }
  const OpId op = core_.Post(header);
  EPIC_CHECK(op == static_cast<OpId>(calls_.size()));
  calls_.push_back({.send = send, .recv = recv});
  ++unfinished_;
  WantPoll();
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

void Host::OnPacket(Nanos now, const roce::Packet& packet) {
  OwnMemory memory;
  qp_.OnPacket(now, packet, memory);
  EPIC_CHECK(qp_.counters().ack_beyond == 0 && qp_.counters().not_ours == 0);
  EPIC_CHECK(qp_.state() == roce::QpState::kRts);
}

void Host::Post(const WorkRequest& wr) {
  ++posted_;
  const auto slot = static_cast<size_t>(ControlSlot(wr.op));
  const Call& call = calls_[static_cast<size_t>(wr.op)];
  if (wr.is_recv) {
    const std::span<uint8_t> buffer =
        wr.is_control ? std::span<uint8_t>(control_in_[slot]) : call.recv.subspan(wr.offset, wr.length);
    EPIC_CHECK(qp_.PostRecv({.wr_id = wr.wr_id, .sges = SgesOf(buffer)}) == roce::PostResult::kOk);
    return;
  }
  roce::SendWr send{.wr_id = wr.wr_id};
  if (wr.is_control) {
    Encode(wr.header, control_out_[slot]);
    send.opcode = roce::WrOpcode::kSendImm;
    send.imm = wr.imm;
    send.sges = SgesOf(control_out_[slot]);
  } else {
    send.sges = SgesOf(call.send.subspan(wr.offset, wr.length));
  }
  EPIC_CHECK(qp_.PostSend(send) == roce::PostResult::kOk);
}

void Host::SetStopped(bool stopped) {
  stopped_ = stopped;
  WantPoll();
}

void Host::WantPoll() {
  wants_poll_ = true;
  if (wake_ != nullptr) *wake_ = true;
}

// What the library does: completions in, work requests and finished calls out.
void Host::RunProcess(Nanos now) {
  wants_poll_ = false;
  for (roce::Completion c; qp_.NextCompletion(&c);) {
    --posted_;
    if (!c.is_recv()) {
      core_.OnSendComplete(c.wr_id);
      continue;
    }
    std::span<const uint8_t> control;
    if (const auto op = core_.ControlOf(c.wr_id))
      control = control_in_[static_cast<size_t>(ControlSlot(*op))];
    core_.OnRecvComplete(c.wr_id, c.bytes, c.has_imm ? std::optional(c.imm) : std::nullopt, control);
  }
  WorkRequest wr;
  while (core_.NextWorkRequest(&wr)) Post(wr);
  if (core_.failed()) core_.OnDrained();
  TakeFinished(now);
}

void Host::TakeFinished(Nanos now) {
  while (const auto finished = core_.NextFinished()) {
    Call& call = calls_[static_cast<size_t>(finished->op)];
    call.state = finished->outcome == Outcome::kOk ? CallState::kDone : CallState::kFailed;
    call.outcome = finished->outcome;
    call.reply = finished->reply;
    call.finished_at = now;
    --unfinished_;
  }
}

void Host::Abort(Nanos now) {
  EPIC_CHECK(alive());
  life_ = RankLife::kAborted;
  wants_poll_ = false;
  core_.Abort();
  EPIC_CHECK(qp_.Modify({.state = roce::QpState::kErr}) == roce::ModifyResult::kOk);
  for (roce::Completion c; qp_.NextCompletion(&c);) --posted_;
  EPIC_CHECK(posted_ == 0);
  core_.OnDrained();
  TakeFinished(now);
  EPIC_CHECK(unfinished_ == 0);
}

void Host::Kill() {
  life_ = RankLife::kKilled;
  wants_poll_ = false;
  unfinished_ = 0;
}

void Host::Poll(Nanos now, roce::PacketSink& sink) {
  if (!stopped_) RunProcess(now);
  OwnMemory memory;
  qp_.Poll(now, memory, sink);
}

}  // namespace epic::sim
