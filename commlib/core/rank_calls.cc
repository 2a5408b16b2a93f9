#include "commlib/core/rank_calls.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "reduce/quantise.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

// A control message with so many bytes of data, so that the next one starts in a cache line of its own.
constexpr uint64_t MessageRoom(uint64_t inlined_bytes) {
  return (kControlBytes + inlined_bytes + 63) / 64 * 64;
}

}  // namespace

void CopyOwnPart(const ControlHeader& header, uint32_t rank, const uint8_t* send, uint8_t* recv) {
  const uint64_t bytes = SendBytes(header, rank);
  const bool is_root = header.collective == Collective::kBroadcast && rank == header.root;
  if ((!is_root && header.collective != Collective::kAllGather) || recv == nullptr || bytes == 0) return;
  uint8_t* const own = is_root ? recv : recv + rank * bytes;
  if (own != send) std::memcpy(own, send, bytes);
}

uint64_t NetworkRecvBytes(const ControlHeader& header, uint32_t rank) {
  return header.collective == Collective::kBroadcast && rank == header.root ? 0 : RecvBytes(header, rank);
}

double DivisorOf(const ControlHeader& header, float scale, uint32_t world_size) {
  return double{scale} * ((header.flags & kAverageFlag) != 0 ? world_size : 1);
}

RankCalls::RankCalls(uint64_t bounce_bytes, uint64_t inline_bytes)
    : bounce_bytes_(bounce_bytes),
      inline_bytes_(inline_bytes),
      slot_bytes_(std::max(bounce_bytes, inline_bytes > 0 ? 2 * MessageRoom(inline_bytes) : 0)),
      memory_(kMaxOpenInvocations * (2 * kControlBytes + slot_bytes_ + kDoorbellBytes)) {}

void RankCalls::SetConfig(const CoreConfig& config) {
  EPIC_CHECK(config.inline_bytes <= inline_bytes_);
  rank_ = config.rank;
  world_size_ = config.world_size;
  scale_ = config.scale;
  core_ = RankCore(config);
}

RankCalls::OpenCall RankCalls::MakeCall(const ControlHeader& header, const uint8_t* send, uint8_t* recv,
                                        Way way) const {
  const bool by_hosts = IsByHosts(header) || IsRequest(header);  // nothing of it comes this way
  return {.header = header,
          .send = send,
          .recv = recv,
          .send_bytes = by_hosts ? 0 : SendBytes(header, rank_),
          .recv_bytes = by_hosts ? 0 : NetworkRecvBytes(header, rank_),
          .way = way};
}

uint64_t RankCalls::PlaceOf(const OpenCall& call, uint64_t offset) {
  if (call.part_stride == 0) return offset;
  const uint64_t part = call.header.count * ElementBytes(call.header.type);
  return offset / part * call.part_stride + offset % part;
}

uint64_t RankCalls::BounceBytes(const OpenCall& call) {
  if (call.way == Way::kInline) return 2 * MessageRoom(CallBytes(call.header));
  return SendersReceive(call.header.collective) ? call.send_bytes : call.send_bytes + call.recv_bytes;
}

bool RankCalls::Fits(const ControlHeader& header) const {
  return BounceBytes(MakeCall(header, nullptr, nullptr, Way::kBounce)) <= bounce_bytes_;
}

uint8_t* RankCalls::BounceSend(OpId op) {
  const size_t control = 2 * kMaxOpenInvocations * kControlBytes;
  return memory_.data() + control + static_cast<size_t>(ControlSlot(op)) * slot_bytes_;
}

uint8_t* RankCalls::ControlSend(OpId op) {
  if (At(op).way == Way::kInline) return BounceSend(op);
  const auto slot = static_cast<size_t>(ControlSlot(op));
  if (core_.Describes(At(op).header)) return &Doorbells()[slot * kDoorbellBytes];
  return &memory_[slot * kControlBytes];
}

uint8_t* RankCalls::ControlRecv(OpId op) {
  if (At(op).way == Way::kInline) return BounceSend(op) + MessageRoom(CallBytes(At(op).header));
  return &memory_[static_cast<size_t>(kMaxOpenInvocations + ControlSlot(op)) * kControlBytes];
}

uint8_t* RankCalls::BounceRecv(OpId op) {
  const OpenCall& call = At(op);
  return BounceSend(op) + (SendersReceive(call.header.collective) ? 0 : call.send_bytes);
}

OpId RankCalls::Post(const ControlHeader& header, const uint8_t* send, uint8_t* recv, Way way,
                     uint64_t part_stride, const PulledBuffers& pulled) {
  OpenCall& call = calls_.emplace_back(MakeCall(header, send, recv, Inlines(header) ? Way::kInline : way));
  const bool loaded = IsQuantised(header) && call.send_bytes > 0;
  EPIC_CHECK(!loaded || call.way == Way::kInline || (call.way == Way::kBounce && Fits(header)));
  call.part_stride = part_stride;
  call.pulled = pulled;
  return core_.Post(header, call.way != Way::kDirect || call.send_bytes == 0);
}

bool RankCalls::NextRequest(Request* request) {
  WorkRequest work;
  if (!core_.NextWorkRequest(&work)) return false;
  const OpenCall& call = At(work.op);
  *request = {.is_recv = work.is_recv,
              .has_imm = work.is_control && !work.is_recv,
              .imm = work.imm,
              .wr_id = work.wr_id << 1 | (work.is_recv ? 1 : 0),
              .op = work.op,
              .length = work.length,
              .is_own_memory = work.is_control || call.way == Way::kBounce};
  if (work.is_control) {
    if (!work.is_recv) LoadControl(work);
    request->address = work.is_recv ? ControlRecv(work.op) : ControlSend(work.op);
  } else if (call.way == Way::kBounce) {
    request->address = (work.is_recv ? BounceRecv(work.op) : BounceSend(work.op)) + work.offset;
  } else {
    // What is sent is only read.
    request->address =
        (work.is_recv ? call.recv : const_cast<uint8_t*>(call.send)) + PlaceOf(call, work.offset);
  }
  ++posted_;
  return true;
}

uint64_t RankCalls::SideBySide(const OpenCall& call, uint64_t bytes) {
  return call.part_stride == 0 ? bytes : call.header.count * ElementBytes(call.header.type);
}

void RankCalls::LoadData(const OpenCall& call, uint8_t* to) {
  if (IsInBlocks(call.header))
    return LoadParts(call.header, call.send, call.part_stride, call.header.parts, to);
  const uint64_t part = SideBySide(call, call.send_bytes);
  for (uint64_t at = 0; at < call.send_bytes; at += part) {
    if (IsQuantised(call.header)) {
      saturation_.inputs += Quantise(scale_, {to + at, part}, call.send + PlaceOf(call, at));
    } else {
      std::memcpy(to + at, call.send + PlaceOf(call, at), part);
    }
  }
}

void RankCalls::LoadControl(const WorkRequest& work) {
  Encode(work.header, std::span<uint8_t, kControlBytes>(ControlSend(work.op), kControlBytes));
  const OpenCall& call = At(work.op);
  if (core_.Describes(work.header)) {
    Encode(DescriptorOf(work.header, work.op),
           std::span<uint8_t, kDescriptorBytes>(ControlSend(work.op) + kControlBytes, kDescriptorBytes));
  }
  if (call.way == Way::kInline) return LoadInlined(work.op);
  if (call.way != Way::kBounce || call.send_bytes == 0) return;
  LoadData(call, BounceSend(work.op));
  // All parts are copied out of the slot, also this rank's own.
  if (call.header.collective == Collective::kAllGather)
    std::memcpy(BounceRecv(work.op) + rank_ * call.send_bytes, call.send, call.send_bytes);
}

Descriptor RankCalls::DescriptorOf(const ControlHeader& header, OpId op) {
  const OpenCall& call = At(op);
  const auto own = [this](const uint8_t* at) {
    return RemoteParts{.address = own_.address + static_cast<uint64_t>(at - memory_.data()),
                       .rkey = own_.rkey};
  };
  const auto given = [&](const RemoteMemory& memory, bool all) {
    return RemoteParts{.address = memory.address, .stride = all ? call.part_stride : 0, .rkey = memory.rkey};
  };
  const bool bounces = call.way == Way::kBounce;
  Descriptor descriptor;
  if (GivesAny(header, rank_))
    descriptor.source = bounces ? own(BounceSend(op)) : given(call.pulled.send, GivesAll(header));
  if (ReceivesAny(header, rank_))
    descriptor.destination = bounces ? own(BounceRecv(op)) : given(call.pulled.recv, ReceivesAll(header));
  return descriptor;
}

// Reductions send all parts. Copies do too: what is not this rank's is zeros, to which nodes add what is.
void RankCalls::LoadInlined(OpId op) {
  const OpenCall& call = At(op);
  uint8_t* const data = ControlSend(op) + kControlBytes;
  const bool reduces = Reduces(call.header.collective);
  if (!reduces) std::memset(data, 0, CallBytes(call.header));
  if (call.send_bytes == 0) return;
  const bool gathers = call.header.collective == Collective::kAllGather;
  LoadData(call, data + (gathers ? rank_ * call.send_bytes : 0));
}

// Where a call that travelled in this rank's own memory has what its caller is to receive.
const uint8_t* RankCalls::Result(OpId op) {
  const OpenCall& call = At(op);
  if (call.way == Way::kBounce) return BounceRecv(op);
  const bool one_part = call.header.collective == Collective::kReduceScatter;
  return ControlRecv(op) + kControlBytes + (one_part ? rank_ * call.recv_bytes : 0);
}

void RankCalls::OnComplete(uint64_t wr_id, uint32_t bytes, std::optional<uint32_t> imm) {
  --posted_;
  const uint64_t message = MessageOf(wr_id);
  if (IsRecv(wr_id)) {
    std::span<const uint8_t> control;
    if (const auto op = core_.ControlOf(message)) control = {ControlRecv(*op), kControlBytes};
    core_.OnRecvComplete(message, bytes, imm, control);
  } else {
    core_.OnSendComplete(message);
  }
  TakeFinished();
}

// At once: when they are not open any more, the next work may use their bounce buffers.
void RankCalls::TakeFinished() {
  while (const auto finished = core_.NextFinished()) {
    const bool is_request = IsRequest(At(finished->op).header);
    if (finished->outcome == Outcome::kOk && !is_request) Finish(finished->op);
    ended_.push_back({*finished, is_request});
  }
  for (; first_call_ < core_.first_open(); ++first_call_) calls_.pop_front();
}

// The result of a call that ended well is put into the caller's form.
void RankCalls::Finish(OpId op) {
  const OpenCall& call = At(op);
  if (call.recv_bytes == 0) return;
  if (IsInBlocks(call.header)) return StorePart(call.header, Result(op), world_size_, call.recv);
  if (IsQuantised(call.header)) {
    saturation_.results +=
        Dequantise(DivisorOf(call.header, scale_, world_size_), {call.recv, call.recv_bytes}, Result(op));
    return;
  }
  if (call.way != Way::kDirect) {
    const uint64_t part = SideBySide(call, call.recv_bytes);
    for (uint64_t at = 0; at < call.recv_bytes; at += part)
      std::memcpy(call.recv + PlaceOf(call, at), Result(op) + at, part);
  }
  if ((call.header.flags & kAverageFlag) != 0)
    ScaleToAverage(call.header.type, {call.recv, call.recv_bytes}, world_size_);
}

void RankCalls::OnDrained() {
  core_.OnDrained();
  TakeFinished();
}

std::optional<Finished> RankCalls::NextFinished() {
  if (ended_.empty()) return std::nullopt;
  const auto [done, is_request] = ended_.front();
  ended_.pop_front();
  if (is_request && failed()) return Finished{.op = done.op, .outcome = failure(), .reply = failure_reply()};
  return done;
}

}  // namespace epic
