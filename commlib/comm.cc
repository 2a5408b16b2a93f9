#include "commlib/comm.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/fork.h"
#include "commlib/arguments.h"
#include "commlib/comm_slices.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "commlib/progress.h"

namespace epic::internal {
namespace {

// Larger data is registered for the call; smaller data is copied, which costs less.
constexpr uint64_t kBounceBytes = 64 * 1024;
constexpr size_t kMaxCalls = 1024;
constexpr size_t kBatch = 16;
constexpr auto kDrainTimeout = std::chrono::seconds(2);

}  // namespace

Comm::Comm(const Options& options)
    : fork_depth_(ForkDepth()),
      options_(options),
      alone_(options.size == 1),
      core_(kBounceBytes, kMaxInlineBytes) {}

Error Comm::Post(const ControlHeader& header, const void* send, void* recv, bool wait_follows,
                 std::shared_ptr<Call>* out) {
  if (InChild()) return ForkedError();
  auto call = std::make_shared<Call>();
  call->header = header;
  call->send = static_cast<const uint8_t*>(send);
  call->recv = static_cast<uint8_t*>(recv);
  CopyOwnPart(header, static_cast<uint32_t>(options_.rank), call->send, call->recv);
  Way way = Way::kDirect;
  std::string refusal;
  if (IsQuantised(header)) {
    if (Error e = PrepareQuantised(call.get(), &refusal); !e.ok()) return e;
  }
  std::unique_lock lock(mutex_);
  if (!error_.ok()) return error_;
  if (open_calls_ >= kMaxCalls) {
    return {ErrorCode::kNoResource,
            fmt::format("{} calls are outstanding on this communicator: wait for some", kMaxCalls)};
  }
  if (!refusal.empty() || !held_.empty()) return Hold(std::move(call), refusal, wait_follows, out);
  if (alone_) {
    lock.unlock();
    RunAlone(*call);
    call->done = true;  // nobody else has it yet
    *out = std::move(call);
    return {};
  }
  const bool by_hosts = GoesByHosts(header);
  const bool asks = Asks(header);
  if (by_hosts || asks) {
    if (Error e = EnsureHosts(); !e.ok()) return e;
    if (Error e = hosts_->CheckLength(header); !e.ok()) return e;
  }
  if (Error e = PrepareBuffers(call.get(), by_hosts, &way, lock); !e.ok()) return e;
  if (asks) {
    Way ignored;
    if (Error e = PrepareBuffers(call.get(), true, &ignored, lock); !e.ok()) return e;
  }
  if (!error_.ok()) return error_;  // registering let go of the mutex
  SetDeadline(call.get());
  ++open_calls_;
  saturation_.inputs += call->saturated_inputs;
  behind_.push_back({call, way});
  BeginNext();
  *out = std::move(call);
  MakeProgress();
  if (!wait_follows) PassOn();
  return {};
}

void Comm::StartByNetwork(const std::shared_ptr<Call>& call, Way way) {
  Slice(call.get(), MostByNetwork(call->header),
        [&](const ControlHeader& header, uint64_t offset, uint64_t part_stride) {
          const Invocation invocation = {call, header, offset, part_stride, way, std::nullopt};
          waiting_.empty() ? StartInvocation(invocation) : waiting_.push_back(invocation);
        });
}

void Comm::StartInvocation(const Invocation& invocation) {
  const ControlHeader& header = invocation.header;
  const Call& call = *invocation.call;
  calls_.push_back(invocation.call);
  KeepAcks(header);
  const OpId op = core_.Post(header, At(call.send, invocation.offset), At(call.recv, invocation.offset),
                             invocation.way, invocation.part_stride);
  if (IsRequest(header)) request_ = op;
  windows_.Posted(op, LayoutOf(header, path_mtu_, 1).packets(), /*alone=*/calls_.size() == 1);
  KeepWindow();
}

Error Comm::PrepareBuffers(Call* call, bool by_hosts, Way* way, Lock& lock) {
  const auto rank = static_cast<uint32_t>(options_.rank);
  const uint64_t send_bytes = SendBytes(call->header, rank);
  const uint64_t recv_bytes = NetworkRecvBytes(call->header, rank);
  const bool sends = send_bytes > 0;
  const bool receives = recv_bytes > 0 && (!by_hosts || RingReceivesResults(call->header.collective));
  if (by_hosts ? !hosts_->NeedsBuffers(call->header) : core_.Inlines(call->header)) return {};
  if (!by_hosts && IsQuantised(call->header)) {
    *way = Way::kBounce;
    return {};
  }
  if (sends && !call->send_memory) call->send_memory = FindRegion(call->send, send_bytes);
  if (receives && !call->recv_memory) call->recv_memory = FindRegion(call->recv, recv_bytes);
  if ((!sends || call->send_memory) && (!receives || call->recv_memory)) return {};
  if (!by_hosts && core_.Fits(call->header)) {
    // Half a call through the bounce buffer would save nothing.
    *way = Way::kBounce;
    call->send_memory = call->recv_memory = nullptr;
    return {};
  }
  lock.unlock();
  Error error;
  if (receives && !call->recv_memory)
    error = verbs::Memory::Register(device_, call->recv, recv_bytes, true, &call->recv_memory);
  if (error.ok() && sends && !call->send_memory) {
    const bool in_place = call->recv_memory && call->recv_memory->Contains(call->send, send_bytes);
    if (in_place) {
      call->send_memory = call->recv_memory;
    } else {
      error = verbs::Memory::Register(device_, call->send, send_bytes, false, &call->send_memory);
    }
  }
  lock.lock();
  return error;
}

std::shared_ptr<verbs::Memory> Comm::FindRegion(const void* base, uint64_t bytes) const {
  for (const auto& region : regions_) {
    if (region->memory()->Contains(base, bytes)) return region->memory();
  }
  return nullptr;
}

void Comm::MakeProgress() {
  if (phase_ == Phase::kDrained || !cq_) return;
  do {
    if (core_.failed()) Fail(CoreError(), core_.failure() != Outcome::kRefused);
    DeliverFinished();
    if (hosts_) ProgressHosts();
    PostWork();
  } while (PollCompletions());
  if (phase_ == Phase::kDraining && posted() == 0) EndDrain();
}

bool Comm::PollCompletions() {
  std::array<ibv_wc, kBatch> completions;
  const int count = cq_->Poll(completions);
  if (count < 0) {
    Fail({ErrorCode::kTransport, "the completion queue is broken"}, true);
    EndDrain();  // no flush can be seen
    return false;
  }
  completions_ += static_cast<uint64_t>(count);
  for (int i = 0; i < count; ++i) HandleCompletion(completions[static_cast<size_t>(i)]);
  if (windows_.awaits_reply() && core_.HasReply(*windows_.measured()))
    windows_.Replied(SinceStart(Clock::now()));
  return count > 0;
}

void Comm::HandleCompletion(const ibv_wc& completion) {
  if (hosts_) {
    Error error;
    if (hosts_->OnCompletion(completion, &error)) {
      if (!error.ok()) Fail(error, true);
      return;
    }
  }
  if (completion.status == IBV_WC_SUCCESS) {
    std::optional<uint32_t> imm;
    if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) imm = ntohl(completion.imm_data);
    return core_.OnComplete(completion.wr_id, completion.byte_len, imm);
  }
  core_.OnFlushed();
  if (core_.failed()) return;
  Fail({ErrorCode::kTransport,
        fmt::format("the queue pair failed: {} of message {}: {}",
                    RankCalls::IsRecv(completion.wr_id) ? "receive" : "send",
                    RankCalls::MessageOf(completion.wr_id), ibv_wc_status_str(completion.status))},
       true);
}

ibv_sge Comm::SgeOf(const RankCalls::Request& request) const {
  const verbs::Memory* memory = own_memory_.get();
  if (!request.is_own_memory) {
    const Call& call = CallOf(request.op);
    memory = (request.is_recv ? call.recv_memory : call.send_memory).get();
  }
  return {
      .addr = reinterpret_cast<uintptr_t>(request.address), .length = request.length, .lkey = memory->lkey()};
}

int Comm::PostChains(ibv_recv_wr** recvs, ibv_send_wr** sends) {
  int error = 0;
  if (*recvs != nullptr) error = qp_->PostRecvs(*recvs, recvs);
  if (error != 0) return error;
  *recvs = nullptr;
  return *sends != nullptr ? qp_->PostSends(*sends, sends) : 0;
}

void Comm::PostWork() {
  std::array<ibv_send_wr, kBatch> sends;
  std::array<ibv_recv_wr, kBatch> recvs;
  std::array<ibv_sge, 2 * kBatch> sges;
  RankCalls::Request request;
  while (true) {
    size_t send_count = 0, recv_count = 0;
    while (send_count < kBatch && recv_count < kBatch && core_.NextRequest(&request)) {
      ibv_sge* sge = &sges[send_count + recv_count];
      *sge = SgeOf(request);
      if (request.is_recv) {
        recvs[recv_count] = {.wr_id = request.wr_id, .next = nullptr, .sg_list = sge, .num_sge = 1};
        if (recv_count > 0) recvs[recv_count - 1].next = &recvs[recv_count];
        ++recv_count;
      } else {
        ibv_send_wr& wr = sends[send_count];
        wr = {};
        wr.wr_id = request.wr_id;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.opcode = request.has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.imm_data = htonl(request.imm);
        if (send_count > 0) sends[send_count - 1].next = &wr;
        ++send_count;
      }
    }
    if (send_count + recv_count == 0) return;
    ibv_recv_wr* recvs_left = recv_count > 0 ? recvs.data() : nullptr;
    ibv_send_wr* sends_left = send_count > 0 ? sends.data() : nullptr;
    const int error = PostChains(&recvs_left, &sends_left);
    if (error != 0) {
      // Of these there is nothing to flush.
      for (; recvs_left != nullptr; recvs_left = recvs_left->next) core_.OnFlushed();
      for (; sends_left != nullptr; sends_left = sends_left->next) core_.OnFlushed();
      return Fail(
          {ErrorCode::kTransport, fmt::format("cannot post to the queue pair: {}", std::strerror(error))},
          true);
    }
  }
}

void Comm::DeliverFinished() {
  bool any = false;
  while (const auto finished = core_.NextFinished()) {
    const std::shared_ptr<Call> call = std::move(calls_.front());
    calls_.pop_front();
    ++first_call_;
    const bool ok = finished->outcome == Outcome::kOk;
    if (ok && windows_.measured() == finished->op) {
      windows_.Ended(SinceStart(Clock::now()));
      KeepWindow();
    }
    if (request_ == finished->op && (ok || finished->outcome == Outcome::kBusy)) {
      OnAnswered(finished->outcome);
    } else if (IsByHosts(call->header)) {
      // Every rank has made the call. It ends where its data are.
      if (ok) hosts_->path().Agreed(next_agreed_++);
    } else {
      any |= EndSlice(call.get(), ok);
    }
  }
  if (hosts_) any |= DeliverFromHosts();
  if (open_calls_ == 0 && phase_ != Phase::kDraining) next_deadline_ = Clock::time_point::max();
  if (any && abilities_.scale != 0) TellOfSaturation();
  if (any && watch_.followers() > 0) changed_.notify_all();
}

bool Comm::EndSlice(Call* call, bool ok) {
  if (!ok) call->error = error_;
  if (++call->ended < call->slices) return false;
  call->send_memory = call->recv_memory = nullptr;
  if (call->quantised) FinishQuantised(call);
  call->done = true;
  --open_calls_;
  ++ended_calls_;
  return true;
}

void Comm::KeepAcks(const ControlHeader& header) {
  constexpr uint32_t kDelayUs = 500;  // a fraction of the time after which a switch asks
  const uint32_t before = acks_.messages();
  acks_.Posted(core_.WantsAcks(header), core_.idle());
  if (acks_.messages() != before && qp_) qp_->ShareAcks(acks_.messages(), kDelayUs);
}

void Comm::KeepWindow() {
  core_.SetSendWindow(windows_.window());
  const auto found = windows_.TakeFound();
  if (!found || !session_) return;
  Log(LogLevel::kInfo, "group {} rank {}: window {} with {} ns per packet, before {} with {}", options_.group,
      options_.rank, found->messages, found->ns_per_packet, found->before_messages,
      found->before_ns_per_packet);
  session_->TellWindow(*found);
}

void Comm::Fail(const Error& error, bool tell_manager) {
  if (!error_.ok()) return;
  refused_ = core_.failed() && core_.failure() == Outcome::kRefused;
  core_.Abort();
  if (hosts_) hosts_->path().Abort();
  // What the ranks have found out among themselves comes before what follows from it: a connection may fail
  // because the other end knows already, and is gone.
  const bool mismatch = hosts_ && hosts_->path().failure() == Outcome::kRefused;
  error_ = mismatch ? HostsError() : error;
  // The program is told by its call, and tells its user: a warning would say it once more.
  Log(LogLevel::kInfo, "group {} rank {}: {}: {}", options_.group, options_.rank, ErrorName(error_.code()),
      error_.message());
  BeginDrain();
  if (mismatch && session_) {
    session_->TellMismatch(MismatchInWords(hosts_->path().failure_reply()));
  } else if (tell_manager && session_) {
    session_->Abort(error.message());
  }
  const uint64_t one = 1;
  EPIC_CHECK(write(wake_fd_, &one, sizeof one) == sizeof one);
}

// The user gets the memory back only when the NIC has let go of it: its requests are flushed, whoever makes
// progress counts them.
void Comm::BeginDrain() {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kDraining;
  if (qp_) qp_->ToError();
  if (hosts_) hosts_->ToError();
  next_deadline_ = Clock::now() + kDrainTimeout;
  if (posted() == 0) EndDrain();
}

void Comm::EndDrain() {
  if (phase_ == Phase::kDrained) return;
  phase_ = Phase::kDrained;
  // What was not flushed in time cannot do harm either.
  if (posted() > 0) Log(LogLevel::kInfo, "{} requests were not flushed", posted());
  if (qp_) qp_->DestroyQp();
  if (hosts_) hosts_->DestroyQps();
  if (core_.failed()) core_.OnDrained();
  if (hosts_ && hosts_->path().failed()) hosts_->path().OnDrained();
  DeliverFinished();
  for (const Invocation& invocation : std::exchange(waiting_, {})) {
    if (!invocation.host_op) EndSlice(invocation.call.get(), false);
  }
  for (const auto& call : std::exchange(held_, {})) EndSlice(call.get(), false);
  for (const Waiting& start : std::exchange(behind_, {})) EndSlice(start.call.get(), false);
  changed_.notify_all();
}

Error Comm::CoreError() const {
  if (core_.failure() == Outcome::kRefused) {
    const ControlHeader& reply = core_.failure_reply();
    const auto op = static_cast<OpId>(reply.invocation);
    const bool ours = op >= first_call_ && op < first_call_ + static_cast<OpId>(calls_.size());
    return RefusalError(reply, ours ? CallOf(op).header : ControlHeader{}, ours && CallOf(op).slices > 1);
  }
  if (core_.failure() == Outcome::kDisorder)
    return {ErrorCode::kTransport,
            "the RDMA driver completed requests in another order than they were posted"};
  return {ErrorCode::kTransport, "the switch sent what the protocol does not allow"};
}

}  // namespace epic::internal
