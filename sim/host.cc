#include "sim/host.h"

#include <utility>

#include "base/check.h"
#include "sim/own_memory.h"

namespace epic::sim {
namespace {

// Of what the first call lets other ranks read; the next call's is one more, and so on.
constexpr uint32_t kFirstReadKey = 0x1000;

// The explorer looks at what always holds after each step (check/host_node.cc), a run of seeds after each so
// many calls.
constexpr CallNumber kCallsPerCheck = 8;

// Of so many bytes that travel, those where the caller has them.
uint64_t CalledOf(const ControlHeader& header, uint64_t bytes) {
  return IsInBlocks(header) ? bytes / (header.count * kBlockBytes) * CalledBytes(header) : bytes;
}

roce::QueuePair Connected(const HostConfig& config) {
  roce::Policy policy = roce::RxeLike();
  policy.retry_7_is_forever = !config.retries_end;
  if (config.most_outstanding > 0) policy.max_outstanding = config.most_outstanding;
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
      ack_delay_(config.ack_delay),
      wake_(config.wake),
      qp_(Connected(config)),
      group_{.network = {.path_mtu = config.path_mtu,
                         .message_packets = config.message_packets,
                         .window_messages = config.window_messages,
                         .rank = config.rank,
                         .world_size = config.world_size,
                         .inline_bytes = config.inline_bytes,
                         .turns = true},
             .agreements_alone = true,
             .asks = config.asks,
             .invocation_bytes = config.invocation_bytes},
      core_(config.bounce_bytes, config.inline_bytes) {
  core_.SetConfig(group_);
}

void Host::AddHosts(const HostPathConfig& config, PostToPeer post) {
  EPIC_CHECK(calls_.empty());
  group_.by_hosts = config.agrees_by_exchange;
  core_.SetConfig(group_);
  core_.AddHosts(config);
  post_to_peer_ = std::move(post);
}

int Host::Start(const ControlHeader& header, std::span<const uint8_t> send, std::span<uint8_t> recv,
                bool registered) {
  EPIC_CHECK(!stopped_ && alive());
  if (!IsRequest(header)) {
    const bool own_broadcast = header.collective == Collective::kBroadcast && rank_ == header.root;
    EPIC_CHECK(send.size() == CalledOf(header, SendBytes(header, rank_)));
    EPIC_CHECK(recv.size() == CalledOf(header, RecvBytes(header, rank_)) || (own_broadcast && recv.empty()));
    CopyOwnPart(header, rank_, send.data(), recv.data());
  }
  const bool direct = !IsQuantised(header) && (registered || !core_.Fits(header));
  const Way way = direct ? Way::kDirect : Way::kBounce;
  const uint32_t rkey = core_.NeedsReads(header) ? kFirstReadKey + static_cast<uint32_t>(calls_.size()) : 0;
  CallRecord& own = calls_.emplace_back();
  if (IsInBlocks(header)) own.blocks.resize(CallBytes(header));
  const CallNumber call = core_.Make(header, send.data(), recv.data(), way, rkey, own.blocks.data());
  EPIC_CHECK(call + 1 == static_cast<CallNumber>(calls_.size()));
  ++unfinished_;
  WantPoll();
  return static_cast<int>(call);
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
  OwnMemory memory(/*peers=*/nullptr);
  qp_.OnPacket(now, packet, memory);
  EPIC_CHECK(qp_.counters().ack_beyond == 0 && qp_.counters().not_ours == 0);
  EPIC_CHECK(qp_.state() == roce::QpState::kRts);
}

void Host::Post(const GroupCalls::Request& request) {
  if (request.connection != GroupCalls::kSwitch) return post_to_peer_(request);
  if (request.is_recv) {
    EPIC_CHECK(qp_.PostRecv({.wr_id = request.wr_id, .sges = SgesOf(request.address, request.length)}) ==
               roce::PostResult::kOk);
    return;
  }
  roce::SendWr send{.wr_id = request.wr_id, .sges = SgesOf(request.address, request.length)};
  if (request.has_imm) {
    send.opcode = roce::WrOpcode::kSendImm;
    send.imm = request.imm;
  }
  EPIC_CHECK(qp_.PostSend(send) == roce::PostResult::kOk);
}

void Host::SetStopped(bool stopped) {
  stopped_ = stopped;
  WantPoll();
}

void Host::SetSendWindow(uint32_t messages) {
  core_.SetSendWindow(messages);
  WantPoll();
}

void Host::WantPoll() {
  wants_poll_ = true;
  if (wake_ != nullptr) *wake_ = true;
}

void Host::RunProcess(Nanos now) {
  wants_poll_ = false;
  for (roce::Completion c; qp_.NextCompletion(&c);)
    core_.OnComplete(GroupCalls::kSwitch, c.wr_id, c.bytes, c.has_imm ? std::optional(c.imm) : std::nullopt);
  TakeEnded(now);
  GroupCalls::Request request;
  while (core_.NextRequest(&request)) Post(request);
  if (ack_delay_ > 0) qp_.ShareAcks(static_cast<int>(core_.shared_acks()), ack_delay_);
  if (!core_.failed()) return;
  EndFailed();
  TakeEnded(now);
}

// What is posted to the switch is in nobody's way.
void Host::EndFailed() {
  if (core_.posted_to_hosts() == 0) core_.OnDrained();
}

void Host::TakeEnded(Nanos now) {
  bool checks = false;
  while (const auto ended = core_.NextEnded()) {
    CallRecord& call = calls_[static_cast<size_t>(ended->call)];
    const bool ok = ended->outcome == Outcome::kOk || ended->outcome == Outcome::kBusy;
    call.state = ok ? CallState::kDone : CallState::kFailed;
    call.outcome = ended->outcome;
    if (!ok) call.reply = core_.failure().reply;
    call.finished_at = now;
    call.by_hosts = ended->by_hosts;
    --unfinished_;
    checks = checks || ended->call % kCallsPerCheck == 0;
  }
  if (checks) core_.CheckInvariants();
}

bool Host::LetsRead(uint32_t rkey) const {
  const uint64_t call = uint64_t{rkey} - kFirstReadKey;
  return call < calls_.size() && calls_[call].state == CallState::kRunning;
}

void Host::Act(Nanos now) {
  RunProcess(now);
  if (alive() && qp_.next_deadline() <= now) WantPoll();
}

void Host::Abort(Nanos now) {
  EPIC_CHECK(alive());
  life_ = RankLife::kAborted;
  wants_poll_ = false;
  core_.Abort();
  EPIC_CHECK(qp_.Modify({.state = roce::QpState::kErr}) == roce::ModifyResult::kOk);
  for (roce::Completion c; qp_.NextCompletion(&c);) core_.OnFlushed(GroupCalls::kSwitch);
  EPIC_CHECK(core_.posted() == core_.posted_to_hosts());
  EndFailed();
  TakeEnded(now);
  EPIC_CHECK(unfinished_ == 0 || core_.posted_to_hosts() > 0);
}

void Host::Kill() {
  if (alive() || !all_done()) life_ = RankLife::kKilled;
  gone_ = true;
  wants_poll_ = false;
  unfinished_ = 0;
}

void Host::Poll(Nanos now, roce::PacketSink& sink, int budget) {
  if (!stopped_) RunProcess(now);
  OwnMemory memory(/*peers=*/nullptr);
  qp_.Poll(now, memory, sink, budget);
}

}  // namespace epic::sim
