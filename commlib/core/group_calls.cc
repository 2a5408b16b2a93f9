#include "commlib/core/group_calls.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "commlib/core/slices.h"
#include "protocol/flow.h"

namespace epic {
namespace {

constexpr size_t kFirstCalls = 16;  // room for so many that are open; a power of two

// That the switches see to the order is nothing that the hosts tell one another.
ControlHeader AsHostsHave(ControlHeader header) {
  header.flags &= ~kByHostsFlag;
  return header;
}

}  // namespace

GroupCalls::GroupCalls(uint64_t bounce_bytes, uint64_t inline_bytes)
    : core_(bounce_bytes, inline_bytes), calls_(kFirstCalls) {}

void GroupCalls::SetConfig(const GroupCallsConfig& config) {
  config_ = config;
  if (config.by_hosts) return;
  core_.SetConfig(config.network);
  windows_ = WindowTrials({.message_packets = config.network.message_packets,
                           .bound = config.network.window_messages,
                           .start = config.start_messages});
  acks_ = SharedAcks(config.network.window_messages);
  KeepWindow();
}

void GroupCalls::AddHosts(const HostPathConfig& config) {
  EPIC_CHECK(config.agrees_by_exchange == config_.by_hosts && hosts_calls_.empty());
  hosts_config_ = config;
  hosts_.emplace(config);
}

bool GroupCalls::Asks(const ControlHeader& header) const {
  return config_.asks && CallBytes(header) > 0 && !GoesByHosts(header);
}

uint64_t GroupCalls::MostByNetwork(const ControlHeader& header) const {
  if (!IsQuantised(header)) return config_.invocation_bytes;
  return std::min(config_.invocation_bytes, core_.MostQuantised(header.collective));
}

uint64_t GroupCalls::MostElementsByHosts(const ControlHeader& header) const {
  const uint64_t most = hosts_->MostBytes(AsHostsHave(header));
  return std::max<uint64_t>(1, most / ElementBytes(header.type) / header.parts);
}

bool GroupCalls::NeedsBuffersByHosts(const ControlHeader& header) const {
  if (CallBytes(header) == 0) return false;
  const ControlHeader slice = HeaderOfSlice(header, MostElementsByHosts(header), 0);
  return !IsInlinedByHosts(slice, hosts_config_.world_size, AlgorithmOf(header), hosts_config_.inline_bytes);
}

CallNumber GroupCalls::Make(const ControlHeader& header, const uint8_t* send, uint8_t* recv, Way way,
                            uint32_t rkey, uint8_t* blocks, const PulledBuffers& pulled) {
  if (static_cast<size_t>(next_ - first_) == calls_.size()) {
    std::vector<MadeCall> calls(2 * calls_.size());
    for (CallNumber call = first_; call < next_; ++call)
      calls[static_cast<size_t>(call) & (calls.size() - 1)] = At(call);
    calls_.swap(calls);
  }
  At(next_) = {.header = header,
               .send = send,
               .recv = recv,
               .blocks = blocks,
               .rkey = rkey,
               .way = way,
               .pulled = pulled};
  ++open_;
  const CallNumber call = next_++;
  BeginNext();
  return call;
}

void GroupCalls::HoldBack() { held_from_ = std::min(held_from_, next_); }

// Nothing begins behind a request before the answer has come, on neither way: the ranks learn at different
// times which way the call goes, and all calls must begin in the same order everywhere.
void GroupCalls::BeginNext() {
  while (begun_ < std::min(next_, held_from_) && !is_asking_ && !failed()) Begin(begun_++);
}

void GroupCalls::Begin(CallNumber call) {
  const ControlHeader& header = At(call).header;
  if (GoesByHosts(header)) return BeginByHosts(call);
  if (!Asks(header)) return BeginByNetwork(call);
  is_asking_ = true;
  Enqueue({.call = call, .kind = Kind::kRequest});
}

void GroupCalls::OnAnswered(CallNumber call, bool granted) {
  is_asking_ = false;
  ++(granted ? granted_ : busy_);
  At(call).header.flags |= granted ? kGrantedFlag : kByHostsFlag;
  granted ? BeginByNetwork(call) : BeginByHosts(call);
  BeginNext();
}

void GroupCalls::BeginByNetwork(CallNumber number) {
  MadeCall& call = At(number);
  Cut(&call, MostByNetwork(call.header));
  for (uint32_t slice = 0; slice < call.slices; ++slice) Enqueue({.call = number, .slice = slice});
}

void GroupCalls::BeginByHosts(CallNumber number) {
  if (!hosts_) {
    EPIC_CHECK(config_.agreements_alone && !config_.asks);
    return Enqueue({.call = number});
  }
  MadeCall& call = At(number);
  // The ranks agree on it, whoever makes them.
  call.header.flags |= AlgorithmFlags(AlgorithmOf(call.header));
  Cut(&call, hosts_->MostBytes(AsHostsHave(call.header)));
  const uint64_t element_bytes = ElementBytes(call.header.type),
                 part_bytes = call.header.count * element_bytes;
  const uint8_t* send = call.send;
  uint8_t* recv = call.recv;
  if (IsInBlocks(call.header)) {
    LoadParts(call.header, call.send, 0, call.header.parts, call.blocks);
    send = call.blocks;
    recv = ReceivedBlocks(call);
  }
  for (uint32_t slice = 0; slice < call.slices; ++slice) {
    const uint64_t offset = OffsetOf(call, slice, element_bytes);
    const OpId op = hosts_->Post({.header = AsHostsHave(HeaderOf(call, slice)),
                                  .send = epic::At(send, offset),
                                  .recv = epic::At(recv, offset),
                                  .part_stride = StrideOf(call, part_bytes),
                                  .call_bytes = CallBytes(call.header),
                                  .readable = ReadableOf(call, offset)});
    hosts_calls_.push_back(number);
    if (IsByHosts(call.header))
      Enqueue({.call = number, .hosts_op = op, .slice = slice, .kind = Kind::kAgreement});
  }
  wants_connections_ = true;
}

void GroupCalls::Cut(MadeCall* call, uint64_t most_bytes) {
  const ControlHeader& header = call->header;
  call->most = 0;
  call->slices = 1;
  if (CallBytes(header) <= most_bytes) return;
  call->most = std::max<uint64_t>(1, most_bytes / ElementBytes(header.type) / header.parts);
  call->slices = SlicesOf(header.count, call->most);
}

ControlHeader GroupCalls::HeaderOf(const MadeCall& call, uint64_t slice) {
  return call.most == 0 ? call.header : HeaderOfSlice(call.header, call.most, slice);
}

uint64_t GroupCalls::OffsetOf(const MadeCall& call, uint64_t slice, uint64_t element_bytes) {
  return call.most == 0 ? 0 : SliceAt(call.header.count, call.most, slice).first * element_bytes;
}

// What is received may take the place of what is sent, as in a call in place.
uint8_t* GroupCalls::ReceivedBlocks(const MadeCall& call) const {
  const bool scatters = call.header.collective == Collective::kReduceScatter;
  return call.blocks + (scatters ? hosts_config_.rank * call.header.count * kBlockBytes : 0);
}

RemoteMemory GroupCalls::ReadableOf(const MadeCall& call, uint64_t offset) const {
  const bool is_root =
      call.header.collective == Collective::kBroadcast && call.header.root == hosts_config_.rank;
  const uint8_t* const base = epic::At(is_root ? call.send : call.recv, offset);
  return {.address = reinterpret_cast<uintptr_t>(base), .rkey = call.rkey};
}

uint64_t GroupCalls::StrideOf(const MadeCall& call, uint64_t part_bytes) {
  return call.most == 0 || call.header.parts == 1 ? 0 : part_bytes;
}

// A call by the hosts is told to the switches when this rank is ready for what comes between the hosts
// (MayStart), and what is behind it waits with it: the switches have all in the order of the calls.
void GroupCalls::Enqueue(const Invocation& invocation) {
  const bool is_next = started_ == invocations_.size();
  invocations_.push_back(invocation);
  if (is_next && invocation.kind != Kind::kAgreement) StartNext();
}

bool GroupCalls::MayStart(const Invocation& invocation) const {
  return invocation.kind != Kind::kAgreement || hosts_->MayAgree(invocation.hosts_op);
}

// The header of the first invocation that is to come, if it is granted.
ControlHeader GroupCalls::RequestOf(MadeCall call) const {
  Cut(&call, MostByNetwork(call.header));
  ControlHeader header = HeaderOf(call, 0);
  header.flags |= kRequestFlag;
  return header;
}

void GroupCalls::StartNext() {
  const Invocation& next = invocations_[started_++];
  const MadeCall& call = At(next.call);
  const ControlHeader header = next.kind == Kind::kRequest ? RequestOf(call) : HeaderOf(call, next.slice);
  acks_.Posted(core_.WantsAcks(header), core_.idle());
  OpId op = 0;
  if (next.kind == Kind::kData) {
    const uint64_t offset = OffsetOf(call, next.slice, CalledElementBytes(call.header));
    op = core_.Post(header, epic::At(call.send, offset), epic::At(call.recv, offset), call.way,
                    StrideOf(call, CalledBytes(call.header)), call.pulled.From(offset));
  } else {
    op = core_.Post(header, nullptr, nullptr, Way::kDirect);
  }
  windows_.Posted(op, LayoutOf(header, config_.network.path_mtu, 1).packets(), /*alone=*/started_ == 1);
  KeepWindow();
}

void GroupCalls::KeepWindow() {
  if (config_.start_messages != 0) core_.SetSendWindow(windows_.window());
}

std::vector<uint32_t> GroupCalls::TakeWanted() {
  if (!std::exchange(wants_connections_, false)) return {};
  return hosts_->Wanted();
}

// Receives of no call may be posted behind the last one.
CallNumber GroupCalls::CallOfHosts(OpId op) const {
  const auto index = static_cast<size_t>(op - first_hosts_op_);
  return index < hosts_calls_.size() ? hosts_calls_[index] : kNoCall;
}

// What is received between the hosts is posted before the switches are told that this rank is ready for it.
bool GroupCalls::NextRequest(Request* request) {
  if (failed()) return false;
  if (hosts_) {
    if (HostPath::Request next; hosts_->NextRequest(&next)) {
      *request = {.connection = next.peer,
                  .is_recv = next.is_recv,
                  .verb = next.verb,
                  .has_imm = !next.is_recv && next.verb == HostVerb::kSend,
                  .imm = next.imm,
                  .wr_id = next.wr_id,
                  .call = CallOfHosts(next.op),
                  .where = next.where,
                  .address = next.address,
                  .length = next.length,
                  .remote = next.remote,
                  .group = next.group};
      return true;
    }
    if (failed()) return false;
    while (started_ < invocations_.size() && MayStart(invocations_[started_])) StartNext();
  }
  RankCalls::Request next;
  if (!core_.NextRequest(&next)) return false;
  const HostWhere callers = next.is_recv ? HostWhere::kRecv : HostWhere::kSend;
  *request = {.connection = kSwitch,
              .is_recv = next.is_recv,
              .has_imm = next.has_imm,
              .imm = next.imm,
              .wr_id = next.wr_id,
              .call = invocations_[static_cast<size_t>(next.op - first_op_)].call,
              .where = next.is_own_memory ? HostWhere::kOwn : callers,
              .address = next.address,
              .length = next.length};
  return true;
}

void GroupCalls::OnComplete(uint32_t connection, uint64_t wr_id, uint32_t bytes,
                            std::optional<uint32_t> imm) {
  if (connection == kSwitch) return core_.OnComplete(wr_id, bytes, imm);
  hosts_->OnComplete(connection, wr_id, bytes, imm);
}

void GroupCalls::OnFlushed(uint32_t connection) {
  if (connection == kSwitch) return core_.OnFlushed();
  hosts_->OnFlushed();
}

std::optional<GroupCalls::Ended> GroupCalls::NextEndedOfAll() {
  if (const auto ended = NextEndedByNetwork()) return ended;
  if (const auto ended = NextEndedByHosts()) return ended;
  return NextNeverBegun();
}

std::optional<GroupCalls::Ended> GroupCalls::NextEndedByNetwork() {
  while (const auto finished = core_.NextFinished()) {
    const Invocation invocation = invocations_.front();
    invocations_.pop_front();
    --started_;
    ++first_op_;
    const Outcome outcome = finished->outcome;
    if (invocation.kind == Kind::kAgreement) {
      // Every rank has made the call. It ends where its data are.
      if (outcome == Outcome::kOk) hosts_->Agreed(invocation.hosts_op);
    } else if (invocation.kind == Kind::kRequest && (outcome == Outcome::kOk || outcome == Outcome::kBusy)) {
      OnAnswered(invocation.call, outcome == Outcome::kOk);
    } else if (const auto ended = EndSlice(invocation.call, outcome)) {
      return ended;
    }
  }
  return std::nullopt;
}

std::optional<GroupCalls::Ended> GroupCalls::NextEndedByHosts() {
  while (hosts_) {
    const auto finished = hosts_->NextFinished();
    if (!finished) break;
    const CallNumber call = hosts_calls_.front();
    hosts_calls_.pop_front();
    ++first_hosts_op_;
    if (const auto ended = EndSlice(call, finished->outcome)) return ended;
  }
  return std::nullopt;
}

// When all has been drained. The slices of a call between the hosts end there.
std::optional<GroupCalls::Ended> GroupCalls::NextNeverBegun() {
  if (!is_drained_) return std::nullopt;
  for (; !invocations_.empty(); invocations_.pop_front()) {
    if (invocations_.front().kind == Kind::kAgreement) continue;
    if (const auto ended = EndSlice(invocations_.front().call, failure().outcome)) {
      invocations_.pop_front();
      return ended;
    }
  }
  return begun_ < next_ ? EndSlice(begun_++, failure().outcome) : std::nullopt;
}

std::optional<GroupCalls::Ended> GroupCalls::EndSlice(CallNumber number, Outcome outcome) {
  MadeCall& call = At(number);
  // One way may have been ended for what has happened on the other.
  const bool has_failed = outcome != Outcome::kOk && outcome != Outcome::kBusy;
  if (call.outcome == Outcome::kOk) call.outcome = has_failed ? failure().outcome : outcome;
  if (++call.ended < call.slices) return std::nullopt;
  call.is_done = true;
  --open_;
  const bool has_blocks = call.blocks != nullptr && GoesByHosts(call.header);
  if (has_blocks && call.outcome == Outcome::kOk && RecvBytes(call.header, hosts_config_.rank) > 0)
    StorePart(call.header, ReceivedBlocks(call), hosts_config_.world_size, call.recv);
  const Ended ended{.call = number, .outcome = call.outcome, .by_hosts = GoesByHosts(call.header)};
  while (first_ < next_ && At(first_).is_done) ++first_;
  return ended;
}

bool GroupCalls::HasNewsOfMeasured() const {
  const OpId measured = *windows_.measured();
  return core_.EndedLast(measured) || (windows_.awaits_reply() && core_.HasReply(measured));
}

std::optional<WindowTrials::Found> GroupCalls::OnTime(Nanos now) {
  const auto measured = windows_.measured();
  if (windows_.awaits_reply() && core_.HasReply(*measured)) windows_.Replied(now);
  if (measured && core_.EndedLast(*measured)) {
    windows_.Ended(now);
    KeepWindow();
  }
  return windows_.TakeFound();
}

void GroupCalls::Abort() {
  core_.Abort();
  if (hosts_) hosts_->Abort();
}

void GroupCalls::OnDrained() {
  Abort();
  core_.OnDrained();
  if (hosts_) hosts_->OnDrained();
  is_drained_ = true;
}

// What the ranks have found out among themselves comes before what follows from it: a connection may fail
// because the other end knows already, and is gone.
bool GroupCalls::HostsFailedFirst() const {
  if (!hosts_ || !hosts_->failed()) return false;
  if (hosts_->failure() == Outcome::kRefused) return true;
  return hosts_->failure() != Outcome::kAborted && (!core_.failed() || core_.failure() == Outcome::kAborted);
}

GroupCalls::Failure GroupCalls::failure() const {
  Failure failure{.by_hosts = HostsFailedFirst()};
  failure.outcome = failure.by_hosts ? hosts_->failure() : core_.failure();
  if (failure.by_hosts) failure.culprit = hosts_->culprit();
  if (failure.outcome != Outcome::kRefused) return failure;
  failure.reply = failure.by_hosts ? hosts_->failure_reply() : core_.failure_reply();
  const auto op = static_cast<OpId>(failure.reply.invocation);
  const OpId at = op - (failure.by_hosts ? first_hosts_op_ : first_op_);
  const size_t made = failure.by_hosts ? hosts_calls_.size() : started_;
  if (at < 0 || at >= static_cast<OpId>(made)) return failure;
  const auto index = static_cast<size_t>(at);
  const MadeCall& call = At(failure.by_hosts ? hosts_calls_[index] : invocations_[index].call);
  failure.header = call.header;
  failure.in_slices = call.slices > 1;
  return failure;
}

}  // namespace epic
