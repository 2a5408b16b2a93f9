#include "commlib/comm.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "commlib/arguments.h"
#include "commlib/log.h"
#include "commlib/messages.h"
#include "commlib/progress.h"
#include "protocol/flow.h"
#include "reduce/reduce.h"

namespace epic::internal {
namespace {

// Larger data is registered for the call; smaller data is copied, which costs less.
constexpr uint64_t kBounceBytes = 64 * 1024;
constexpr size_t kMaxCalls = 1024;
constexpr size_t kBatch = 16;
constexpr auto kDrainTimeout = std::chrono::seconds(2);

}  // namespace

uint8_t* Comm::BounceSend(OpId op) {
  const size_t control = 2 * kMaxOpenInvocations * kControlBytes;
  return &buffers_[control + static_cast<size_t>(ControlSlot(op)) * kBounceBytes];
}

uint8_t* Comm::BounceRecv(OpId op, const Call& call) {
  return BounceSend(op) + (SendersReceive(call.header.collective) ? 0 : call.send_bytes);
}

Comm::Comm(const Options& options)
    : owner_(getpid()),
      options_(options),
      buffers_(kMaxOpenInvocations * (2 * kControlBytes + kBounceBytes)) {}

Error Comm::Post(const ControlHeader& header, const void* send, void* recv, bool wait_follows,
                 std::shared_ptr<Call>* out) {
  if (InChild()) return ForkedError();
  auto call = std::make_shared<Call>();
  call->header = header;
  call->send = static_cast<const uint8_t*>(send);
  call->recv = static_cast<uint8_t*>(recv);
  const auto rank = static_cast<uint32_t>(options_.rank);
  call->send_bytes = SendBytes(header, rank);
  call->recv_bytes = RecvBytes(header, rank);
  // What is this rank's own already does not come from the network.
  if (header.collective == Collective::kBroadcast && rank == header.root) {
    if (recv != nullptr && recv != send && call->recv_bytes > 0) std::memcpy(recv, send, call->recv_bytes);
    call->recv_bytes = 0;
  } else if (header.collective == Collective::kAllGather && call->send_bytes > 0) {
    uint8_t* own = call->recv + rank * call->send_bytes;
    if (own != send) std::memcpy(own, send, call->send_bytes);
  }
  std::unique_lock lock(mutex_);
  if (!error_.ok()) return error_;
  if (calls_.size() >= kMaxCalls) {
    return {ErrorCode::kNoResource,
            fmt::format("{} calls are outstanding on this communicator: wait for some", kMaxCalls)};
  }
  if (Error e = PrepareBuffers(call.get(), lock); !e.ok()) return e;
  if (!error_.ok()) return error_;  // registering let go of the mutex
  call->deadline = DeadlineAfter(Clock::now(), options_.timeout);
  next_deadline_ = std::min(next_deadline_, call->deadline);
  calls_.push_back(call);
  core_.Post(call->header);
  *out = std::move(call);
  MakeProgress();
  if (!wait_follows) PassOn();
  return {};
}

Error Comm::PrepareBuffers(Call* call, std::unique_lock<std::mutex>& lock) {
  const bool sends = call->send_bytes > 0, receives = call->recv_bytes > 0;
  if (sends) call->send_memory = FindRegion(call->send, call->send_bytes);
  if (receives) call->recv_memory = FindRegion(call->recv, call->recv_bytes);
  if ((!sends || call->send_memory) && (!receives || call->recv_memory)) return {};
  const uint64_t bounce_bytes =
      SendersReceive(call->header.collective) ? call->send_bytes : call->send_bytes + call->recv_bytes;
  if (bounce_bytes <= kBounceBytes) {
    // Half a call through the bounce buffer would save nothing.
    call->bounce = true;
    call->send_memory = call->recv_memory = nullptr;
    return {};
  }
  lock.unlock();
  Error error;
  if (receives && !call->recv_memory)
    error = verbs::Memory::Register(device_, call->recv, call->recv_bytes, true, &call->recv_memory);
  if (error.ok() && sends && !call->send_memory) {
    const bool in_place = call->recv_memory && call->recv_memory->Contains(call->send, call->send_bytes);
    if (in_place) {
      call->send_memory = call->recv_memory;
    } else {
      error = verbs::Memory::Register(device_, call->send, call->send_bytes, false, &call->send_memory);
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
  if (phase_ == Phase::kDrained || !qp_) return;
  do {
    if (core_.failed()) Fail(CoreError(), core_.failure() != Outcome::kRefused);
    // Results are copied out before new work can use their bounce buffers.
    DeliverFinished();
    PostWork();
  } while (PollCompletions());
  if (phase_ == Phase::kDraining && posted_requests_ == 0) EndDrain();
}

bool Comm::PollCompletions() {
  std::array<ibv_wc, kBatch> completions;
  const int count = qp_->Poll(completions);
  if (count < 0) {
    Fail({ErrorCode::kTransport, "the completion queue is broken"}, true);
    EndDrain();  // no flush can be seen
    return false;
  }
  for (int i = 0; i < count; ++i) HandleCompletion(completions[static_cast<size_t>(i)]);
  return count > 0;
}

// wr_id: message number * 2, + 1 for a receive (the opcode is not valid in failed completions).
void Comm::HandleCompletion(const ibv_wc& completion) {
  --posted_requests_;
  if (core_.failed()) return;
  const bool is_recv = (completion.wr_id & 1) != 0;
  const uint64_t message = completion.wr_id >> 1;
  if (completion.status != IBV_WC_SUCCESS) {
    return Fail({ErrorCode::kTransport,
                 fmt::format("the queue pair failed: {} of message {}: {}", is_recv ? "receive" : "send",
                             message, ibv_wc_status_str(completion.status))},
                true);
  }
  if (!is_recv) return core_.OnSendComplete(message);
  std::optional<uint32_t> imm;
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) imm = ntohl(completion.imm_data);
  std::span<const uint8_t> control;
  if (const auto op = core_.ControlOf(message)) control = {ControlRecvSlot(*op), kControlBytes};
  core_.OnRecvComplete(message, completion.byte_len, imm, control);
}

void Comm::FillRequest(const WorkRequest& work, ibv_sge* sge) {
  const Call& call = CallOf(work.op);
  const uint8_t* address = nullptr;
  sge->length = work.length;
  sge->lkey = buffers_memory_->lkey();
  if (work.is_control) {
    address = work.is_recv ? ControlRecvSlot(work.op) : ControlSendSlot(work.op);
    if (!work.is_recv) FillControl(work, call);
  } else if (call.bounce) {
    address = (work.is_recv ? BounceRecv(work.op, call) : BounceSend(work.op)) + work.offset;
  } else {
    address = (work.is_recv ? call.recv : call.send) + work.offset;
    sge->lkey = (work.is_recv ? call.recv_memory : call.send_memory)->lkey();
  }
  sge->addr = reinterpret_cast<uintptr_t>(address);
}

void Comm::FillControl(const WorkRequest& work, const Call& call) {
  Encode(work.header, std::span<uint8_t, kControlBytes>(ControlSendSlot(work.op), kControlBytes));
  if (!call.bounce || call.send_bytes == 0) return;
  std::memcpy(BounceSend(work.op), call.send, call.send_bytes);
  // Finish copies all parts out of the slot, also this rank's own.
  if (call.header.collective != Collective::kAllGather) return;
  std::memcpy(BounceRecv(work.op, call) + static_cast<size_t>(options_.rank) * call.send_bytes, call.send,
              call.send_bytes);
}

// The result of a call that ended well is put into the user's form.
void Comm::Finish(Call* call, OpId op) {
  if (call->recv_bytes == 0) return;
  if (call->bounce) std::memcpy(call->recv, BounceRecv(op, *call), call->recv_bytes);
  if ((call->header.flags & kAverageFlag) == 0) return;
  ScaleToAverage(call->header.type, {call->recv, call->recv_bytes}, static_cast<uint32_t>(options_.size));
}

void Comm::PostWork() {
  std::array<ibv_send_wr, kBatch> sends;
  std::array<ibv_recv_wr, kBatch> recvs;
  std::array<ibv_sge, 2 * kBatch> sges;
  WorkRequest work;
  while (true) {
    size_t send_count = 0, recv_count = 0;
    while (send_count < kBatch && recv_count < kBatch && core_.NextWorkRequest(&work)) {
      ibv_sge* sge = &sges[send_count + recv_count];
      FillRequest(work, sge);
      const uint64_t wr_id = work.wr_id << 1 | (work.is_recv ? 1 : 0);
      if (work.is_recv) {
        recvs[recv_count] = {.wr_id = wr_id, .next = nullptr, .sg_list = sge, .num_sge = 1};
        if (recv_count > 0) recvs[recv_count - 1].next = &recvs[recv_count];
        ++recv_count;
      } else {
        ibv_send_wr& wr = sends[send_count];
        wr = {};
        wr.wr_id = wr_id;
        wr.sg_list = sge;
        wr.num_sge = 1;
        wr.opcode = work.is_control ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.imm_data = htonl(work.imm);
        if (send_count > 0) sends[send_count - 1].next = &wr;
        ++send_count;
      }
    }
    if (send_count + recv_count == 0) return;
    posted_requests_ += static_cast<int64_t>(send_count + recv_count);
    int error = recv_count > 0 ? qp_->PostRecvs(recvs.data()) : 0;
    if (error == 0 && send_count > 0) error = qp_->PostSends(sends.data());
    if (error != 0) {
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
    if (finished->outcome != Outcome::kOk) {
      call->error = error_;
    } else {
      Finish(call.get(), finished->op);
    }
    call->send_memory = call->recv_memory = nullptr;
    call->done = true;
    any = true;
  }
  if (calls_.empty() && phase_ != Phase::kDraining) next_deadline_ = Clock::time_point::max();
  if (any && watch_.followers() > 0) changed_.notify_all();
}

void Comm::Fail(const Error& error, bool tell_manager) {
  if (!error_.ok()) return;
  error_ = error;
  refused_ = core_.failed() && core_.failure() == Outcome::kRefused;
  Log(error.code() == ErrorCode::kAborted ? LogLevel::kInfo : LogLevel::kWarn, "group {} rank {}: {}: {}",
      options_.group, options_.rank, ErrorName(error.code()), error.message());
  core_.Abort();
  BeginDrain();
  if (tell_manager && session_) session_->Abort(error.message());
  const uint64_t one = 1;
  EPIC_CHECK(write(wake_fd_, &one, sizeof one) == sizeof one);
}

// The user gets the memory back only when the NIC has let go of it: its requests are flushed, whoever makes
// progress counts them.
void Comm::BeginDrain() {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kDraining;
  if (qp_) qp_->ToError();
  next_deadline_ = Clock::now() + kDrainTimeout;
  if (posted_requests_ == 0) EndDrain();
}

void Comm::EndDrain() {
  if (phase_ == Phase::kDrained) return;
  phase_ = Phase::kDrained;
  // What was not flushed in time cannot do harm either.
  if (posted_requests_ > 0) Log(LogLevel::kInfo, "{} requests were not flushed", posted_requests_);
  if (qp_) qp_->DestroyQp();
  if (core_.failed()) core_.OnDrained();
  DeliverFinished();
  changed_.notify_all();
}

Error Comm::CoreError() const {
  if (core_.failure() == Outcome::kRefused) {
    const ControlHeader& reply = core_.failure_reply();
    const auto op = static_cast<OpId>(reply.invocation);
    const bool ours = op >= first_call_ && op < first_call_ + static_cast<OpId>(calls_.size());
    return RefusalError(reply, ours ? CallOf(op).header : ControlHeader{});
  }
  if (core_.failure() == Outcome::kDisorder)
    return {ErrorCode::kTransport,
            "the RDMA driver completed requests in another order than they were posted"};
  return {ErrorCode::kTransport, "the switch sent what the protocol does not allow"};
}

void Comm::CheckDeadlines(Clock::time_point now) {
  if (now < next_deadline_) return;
  if (phase_ != Phase::kRunning) return EndDrain();
  next_deadline_ = Clock::time_point::max();
  for (const auto& call : calls_) next_deadline_ = std::min(next_deadline_, call->deadline);
  if (calls_.empty() || now < next_deadline_) return;
  Fail({ErrorCode::kTimeout, fmt::format("call {} did not end before its deadline: some rank has not made "
                                         "it, or the network does not carry it",
                                         first_call_)},
       true);
}

}  // namespace epic::internal
