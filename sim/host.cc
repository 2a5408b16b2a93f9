#include "sim/host.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "sim/own_memory.h"

namespace epic::sim {
namespace {

// Of what the first call lets other ranks read; the next call's is one more, and so on.
constexpr uint32_t kFirstReadKey = 0x1000;

// Where the switch reads and writes: the rank's own memory, and two for each call from there on, of what is
// sent and of what is received. Addresses are these too, so that they are the same in every run.
constexpr uint32_t kOwnPulledKey = 0x7ffe;
constexpr uint32_t kFirstPulledKey = 0x8000;
constexpr RemoteMemory PulledAt(uint32_t key) { return {.address = uint64_t{key} << 32, .rkey = key}; }
constexpr uint32_t kMostReads = 128;

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
  const auto reads = static_cast<uint8_t>(config.pulled ? std::min(config.window_messages, kMostReads) : 0);
  roce::QueuePair qp({.local_ip = config.local_ip,
                      .local_qpn = config.local_qpn,
                      .send_depth = MaxSendRequests(window_packets),
                      .recv_depth = MaxRecvRequests(window_packets),
                      .max_inline_bytes = 0,
                      .max_rd_atomic = std::max(reads, roce::QpConfig{}.max_rd_atomic),
                      .policy = policy});
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kInit,
                        .remote_read = config.pulled,
                        .remote_write = config.pulled}) == roce::ModifyResult::kOk);
  EPIC_CHECK(qp.Modify({.state = roce::QpState::kRtr,
                        .remote_ip = config.remote_ip,
                        .remote_qpn = config.remote_qpn,
                        .path_mtu = config.path_mtu,
                        .rq_psn = config.recv_psn,
                        .max_dest_rd_atomic = reads,
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

std::optional<PlaceOfPulled> PlaceForSwitch(uint32_t key, uint64_t address) {
  if (key < kFirstPulledKey) return std::nullopt;
  const size_t number = key - kFirstPulledKey;
  return PlaceOfPulled{
      .call = number / 2, .receives = number % 2 == 1, .offset = address - PulledAt(key).address};
}

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
                         .turns = true,
                         .pulled = config.pulled},
             .agreements_alone = true,
             .asks = config.asks,
             .invocation_bytes = config.invocation_bytes},
      core_(config.bounce_bytes, config.inline_bytes) {
  core_.SetConfig(group_);
  if (config.pulled) core_.SetPulledMemory(PulledAt(kOwnPulledKey));
}

// The process' own memory for the queue pair itself, and what is registered for the switch. `arriving`: it is
// asked for by a request that has just come, not by one that is being answered.
class Host::Registered final : public roce::Memory {
 public:
  Registered(Host& host, bool arriving) : host_(host), arriving_(arriving) {}
  std::optional<std::span<uint8_t>> Map(roce::Access access, uint32_t key, uint64_t address,
                                        uint32_t length) override {
    const bool local = access == roce::Access::kLocalRead || access == roce::Access::kLocalWrite;
    if (local) return own_.Map(access, key, address, length);
    const auto there = host_.MapForSwitch(access, key, address, length);
    if (there || arriving_ || access != roce::Access::kRemoteRead) return there;
    // A copy of a Read's request that comes late is answered, with whatever is there: nobody takes it.
    static std::array<uint8_t, kMaxPathMtu> nothing{};
    return std::span(nothing).first(length);
  }

 private:
  Host& host_;
  bool arriving_;
  OwnMemory own_{/*peers=*/nullptr};
};

template <typename Action>
void Host::WithMemory(bool arriving, const Action& action) {
  if (group_.network.pulled) {
    Registered memory(*this, arriving);
    return action(memory);
  }
  OwnMemory memory(/*peers=*/nullptr);
  action(memory);
}

std::optional<std::span<uint8_t>> Host::MapForSwitch(roce::Access access, uint32_t key, uint64_t address,
                                                     uint32_t length) {
  const bool writes = access == roce::Access::kRemoteWrite;
  if (!group_.network.pulled || (!writes && access != roce::Access::kRemoteRead)) return std::nullopt;
  const uint64_t at = address - PulledAt(key).address;
  std::span<uint8_t> all = core_.memory();
  if (key != kOwnPulledKey) {
    const auto place = PlaceForSwitch(key, address);
    if (!place || place->call >= calls_.size() || writes != place->receives) return std::nullopt;
    const CallRecord& call = calls_[place->call];
    if (call.state != CallState::kRunning) return std::nullopt;
    // What is sent is only read.
    all = writes ? call.received : std::span(const_cast<uint8_t*>(call.sent.data()), call.sent.size());
  }
  if (at > all.size() || length > all.size() - at) return std::nullopt;
  return all.subspan(at, length);
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
  own.sent = send;
  own.received = recv;
  PulledBuffers pulled;
  if (group_.network.pulled && direct) {
    const uint32_t key = kFirstPulledKey + 2 * static_cast<uint32_t>(calls_.size() - 1);
    pulled = {.send = PulledAt(key), .recv = PulledAt(key + 1)};
  }
  const CallNumber call = core_.Make(header, send.data(), recv.data(), way, rkey, own.blocks.data(), pulled);
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
  WithMemory(/*arriving=*/true, [&](roce::Memory& memory) { qp_.OnPacket(now, packet, memory); });
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
  WithMemory(/*arriving=*/false, [&](roce::Memory& memory) { qp_.Poll(now, memory, sink, budget); });
}

}  // namespace epic::sim
