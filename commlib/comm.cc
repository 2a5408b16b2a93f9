#include "commlib/comm.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/fork.h"
#include "commlib/arguments.h"
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
// A NIC gives a switch up after 8.6 s; that its engine stands still its agent says after 8 s of silence, and a
// second or so. No longer: a port that carries nothing is told within 10 s all the same.
constexpr auto kSwitchIsJudgedIn = std::chrono::milliseconds(1200);

}  // namespace

Comm::Comm(const Options& options)
    : fork_depth_(ForkDepth()),
      options_(options),
      alone_(options.size == 1),
      calls_(kBounceBytes, kMaxInlineBytes),
      priority_(PriorityOf(options.priority)) {}

Error Comm::Post(const ControlHeader& header, const void* send, void* recv, bool wait_follows,
                 std::shared_ptr<Call>* out) {
  if (InChild()) return ForkedError();
  auto call = std::make_shared<Call>();
  call->header = header;
  if (abilities_.priorities && !IsByHosts(header)) call->header.priority = priority_;
  call->send = static_cast<const uint8_t*>(send);
  call->recv = static_cast<uint8_t*>(recv);
  CopyOwnPart(header, static_cast<uint32_t>(options_.rank), call->send, call->recv);
  Way way = Way::kDirect;
  std::string refusal;
  if (IsQuantised(header)) {
    if (Error e = PrepareQuantised(call.get(), &refusal); !e.ok()) return e;
  }
  Lock lock(mutex_);
  if (!error_.ok()) return error_;
  if (calls_.open() >= kMaxCalls) {
    return {ErrorCode::kNoResource,
            fmt::format("{} calls are outstanding on this communicator: wait for some", kMaxCalls)};
  }
  if (!refusal.empty() || calls_.holds()) return Hold(std::move(call), refusal, wait_follows, out);
  if (alone_) {
    lock.unlock();
    RunAlone(*call);
    call->done = true;  // nobody else has it yet
    *out = std::move(call);
    return {};
  }
  const bool by_hosts = calls_.GoesByHosts(header);
  const bool asks = calls_.Asks(header);
  if (by_hosts || asks) {
    if (Error e = EnsureHosts(); !e.ok()) return e;
    if (Error e = CheckLength(header); !e.ok()) return e;
  }
  if (Error e = PrepareBuffers(call.get(), by_hosts, &way); !e.ok()) return e;
  if (asks) {
    Way ignored;
    if (Error e = PrepareBuffers(call.get(), true, &ignored); !e.ok()) return e;
  }
  if (!error_.ok()) return error_;  // registering let go of the mutex
  saturation_.inputs += call->saturated_inputs;
  if (by_hosts) TellOfWay(header);
  Make(call, way);
  *out = std::move(call);
  MakeProgress();
  if (!wait_follows) PassOn();
  return {};
}

void Comm::Make(const std::shared_ptr<Call>& call, Way way) {
  SetDeadline(call.get());
  const verbs::Memory* const read = calls_.NeedsReads(call->header) ? ReadByOthers(*call) : nullptr;
  call->number = calls_.Make(call->header, call->send, call->recv, way, read == nullptr ? 0 : read->rkey(),
                             IsInBlocks(call->header) ? call->quantised.get() : nullptr);
  open_.push_back(call);
}

const verbs::Memory* Comm::ReadByOthers(const Call& call) const {
  const bool is_root = call.header.collective == Collective::kBroadcast &&
                       call.header.root == static_cast<uint32_t>(options_.rank);
  return (is_root ? call.send_memory : call.recv_memory).get();
}

Error Comm::PrepareBuffers(Call* call, bool by_hosts, Way* way) {
  const auto rank = static_cast<uint32_t>(options_.rank);
  const uint64_t send_bytes = SendBytes(call->header, rank);
  const uint64_t recv_bytes = NetworkRecvBytes(call->header, rank);
  const bool sends = send_bytes > 0;
  const bool receives = recv_bytes > 0 && (!by_hosts || RingReceivesResults(call->header.collective));
  if (by_hosts ? !calls_.NeedsBuffersByHosts(call->header) : calls_.Inlines(call->header)) return {};
  if (!by_hosts && IsQuantised(call->header)) {
    *way = Way::kBounce;
    return {};
  }
  if (IsInBlocks(call->header)) {
    const Unlock unlock(mutex_);
    Error error = verbs::Memory::Register(device_, call->quantised.get(), CallBytes(call->header), true,
                                          &call->recv_memory);
    call->send_memory = call->recv_memory;
    return error;
  }
  if (sends && !call->send_memory) call->send_memory = FindRegion(call->send, send_bytes);
  if (receives && !call->recv_memory) call->recv_memory = FindRegion(call->recv, recv_bytes);
  if ((!sends || call->send_memory) && (!receives || call->recv_memory)) return {};
  if (!by_hosts && calls_.Fits(call->header)) {
    // Half a call through the bounce buffer would save nothing.
    *way = Way::kBounce;
    call->send_memory = call->recv_memory = nullptr;
    return {};
  }
  const bool read = by_hosts && calls_.NeedsReads(call->header);
  const Unlock unlock(mutex_);
  Error error;
  if (receives && !call->recv_memory)
    error = verbs::Memory::Register(device_, call->recv, recv_bytes, true, &call->recv_memory, read);
  if (error.ok() && sends && !call->send_memory) {
    const bool in_place = call->recv_memory && call->recv_memory->Contains(call->send, send_bytes);
    if (in_place) {
      call->send_memory = call->recv_memory;
    } else {
      error = verbs::Memory::Register(device_, call->send, send_bytes, false, &call->send_memory, read);
    }
  }
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
    if (calls_.failed()) Fail(CallsError(), !calls_.refused_by_switches());
    DeliverEnded();
    if (Error e = MakeEnds(); !e.ok()) Fail(e, true);
    PostWork();
  } while (PollCompletions());
  if (phase_ == Phase::kDraining && calls_.posted() == 0) EndDrain();
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
  if (calls_.awaits_time()) {
    if (const auto found = calls_.OnTime(SinceStart(Clock::now()))) TellWindow(*found);
  }
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
    return calls_.OnComplete(GroupCalls::kSwitch, completion.wr_id, completion.byte_len, imm);
  }
  calls_.OnFlushed(GroupCalls::kSwitch);
  if (calls_.failed() || !unanswered_.ok()) return;
  const Error error(
      ErrorCode::kTransport,
      fmt::format("the queue pair failed: {} of message {}: {}",
                  RankCalls::IsRecv(completion.wr_id) ? "receive" : "send",
                  RankCalls::MessageOf(completion.wr_id), ibv_wc_status_str(completion.status)));
  if (completion.status != IBV_WC_RETRY_EXC_ERR || !session_ || phase_ != Phase::kRunning)
    return Fail(error, true);
  unanswered_ = error;
  unanswered_until_ = Clock::now() + kSwitchIsJudgedIn;
  next_deadline_ = std::min(next_deadline_, unanswered_until_);
}

ibv_sge Comm::SgeOf(const GroupCalls::Request& request) const {
  const verbs::Memory* memory = nullptr;
  if (request.where != HostWhere::kOwn) {
    const Call& call = *At(request.call);
    memory = (request.where == HostWhere::kRecv ? call.recv_memory : call.send_memory).get();
  } else {
    memory = request.connection == GroupCalls::kSwitch ? own_memory_.get() : hosts_->own_memory();
  }
  return {
      .addr = reinterpret_cast<uintptr_t>(request.address), .length = request.length, .lkey = memory->lkey()};
}

void Comm::PostWork() {
  if (!unanswered_.ok()) return;  // all of it would be flushed
  ShareAcks();
  WorkBatch batch;
  GroupCalls::Request request;
  while (calls_.NextRequest(&request)) {
    if (request.verb == HostVerb::kQkey) {
      if (!ChangeKey(request.imm, &batch)) return;
      continue;
    }
    if (!batch.Takes(request)) {
      if (Error e = PostBatch(&batch); !e.ok()) {
        calls_.OnFlushed(request.connection);  // nor is this one posted
        return Fail(e, true);
      }
    }
    batch.Add(request, SgeOf(request));
  }
  if (batch.empty()) return;
  if (Error e = PostBatch(&batch); !e.ok()) Fail(e, true);
}

// What was taken with the key before is handed over first.
bool Comm::ChangeKey(uint32_t epoch, WorkBatch* batch) {
  Error error = batch->empty() ? Error() : PostBatch(batch);
  if (error.ok()) error = hosts_->SetEpoch(epoch);
  if (!error.ok()) {
    Fail(error, true);
    return false;
  }
  while (PollCompletions()) {
  }
  if (phase_ != Phase::kRunning) return false;
  calls_.OnQkeySet();
  return true;
}

Error Comm::PostBatch(WorkBatch* batch) {
  const uint32_t connection = batch->connection();
  const bool to_switch = connection == GroupCalls::kSwitch;
  if (to_switch) ShareAcks();
  size_t unposted = 0;
  const int error = to_switch ? batch->Post(qp_.get(), &unposted) : hosts_->Post(batch, &unposted);
  if (error == 0) return {};
  // Of these there is nothing to flush.
  for (; unposted > 0; --unposted) calls_.OnFlushed(connection);
  return {ErrorCode::kTransport,
          fmt::format("cannot post to {}: {}", to_switch ? "the queue pair" : hosts_->NameOf(connection),
                      std::strerror(error))};
}

void Comm::ShareAcks() {
  constexpr uint32_t kDelayUs = 500;  // a fraction of the time after which a switch asks
  if (calls_.shared_acks() == shared_acks_) return;
  shared_acks_ = calls_.shared_acks();
  if (qp_) qp_->ShareAcks(shared_acks_, kDelayUs);
}

void Comm::DeliverEnded() {
  bool any = false;
  while (const auto ended = calls_.NextEnded()) {
    End(*ended);
    any = true;
  }
  TellOfBusy();
  if (any) TellOfReads();
  if (calls_.open() == 0 && phase_ != Phase::kDraining) next_deadline_ = Clock::time_point::max();
  if (any && abilities_.scale != 0) TellOfSaturation();
  if (any && watch_.followers() > 0) changed_.notify_all();
}

void Comm::End(const GroupCalls::Ended& ended) {
  const std::shared_ptr<Call> call = std::move(At(ended.call));
  while (!open_.empty() && !open_.front()) {
    open_.pop_front();
    ++first_open_;
  }
  if (ended.outcome != Outcome::kOk) call->error = error_;
  call->send_memory = call->recv_memory = nullptr;
  if (call->quantised && IsScaled(call->header)) FinishScaled(call.get());
  call->quantised.reset();
  call->done = true;
}

void Comm::TellWindow(const WindowTrials::Found& found) {
  if (!session_) return;
  Log(LogLevel::kInfo, "group {} rank {}: window {} with {} ns per packet, before {} with {}", options_.group,
      options_.rank, found.messages, found.ns_per_packet, found.before_messages, found.before_ns_per_packet);
  session_->TellWindow(found);
}

void Comm::Fail(const Error& error, bool tell_manager) {
  if (!error_.ok()) return;
  refused_ = calls_.refused_by_switches();
  calls_.Abort();
  const GroupCalls::Failure failure = calls_.failure();
  const bool mismatch = failure.by_hosts && failure.outcome == Outcome::kRefused;
  error_ = mismatch ? CallsError() : error;
  // The program is told by its call, and tells its user: a warning would say it once more.
  Log(LogLevel::kInfo, "group {} rank {}: {}: {}", options_.group, options_.rank, ErrorName(error_.code()),
      error_.message());
  TellDatagrams();
  BeginDrain();
  if (mismatch && session_) {
    session_->TellMismatch(MismatchInWords(failure.reply));
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
  if (calls_.posted() == 0) EndDrain();
}

void Comm::EndDrain() {
  if (phase_ == Phase::kDrained) return;
  phase_ = Phase::kDrained;
  // What was not flushed in time cannot do harm either.
  if (calls_.posted() > 0) Log(LogLevel::kInfo, "{} requests were not flushed", calls_.posted());
  if (qp_) qp_->DestroyQp();
  if (hosts_) hosts_->DestroyQps();
  calls_.OnDrained();
  DeliverEnded();
  changed_.notify_all();
}

Error Comm::CallsError() const {
  const GroupCalls::Failure failure = calls_.failure();
  if (failure.outcome == Outcome::kRefused)
    return RefusalError(failure.reply, failure.header, options_.rank, failure.in_slices);
  if (failure.outcome == Outcome::kDisorder)
    return {ErrorCode::kTransport,
            "the RDMA driver completed requests in another order than they were posted"};
  if (failure.by_hosts) {
    return {ErrorCode::kTransport, fmt::format("{} sent what the protocol between hosts does not allow",
                                               failure.culprit ? fmt::format("rank {}", *failure.culprit)
                                                               : std::string("another rank"))};
  }
  return {ErrorCode::kTransport, "the switch sent what the protocol does not allow"};
}

}  // namespace epic::internal
