#include "commlib/core/host_exchange.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "commlib/core/rank_core.h"
#include "reduce/reduce.h"

namespace epic {
namespace {

// So that each message starts in a cache line of its own.
constexpr size_t RoomOf(uint64_t inline_bytes) { return (kControlBytes + inline_bytes + 63) / 64 * 64; }

void Write(const ControlHeader& header, uint8_t* to) {
  Encode(header, std::span<uint8_t, kControlBytes>(to, kControlBytes));
}

}  // namespace

HostBlock MergeBlocks(const HostBlock& lower, const HostBlock& upper) {
  HostBlock merged = {.header = lower.header, .begin = lower.begin, .end = upper.end};
  if (lower.header.status != ControlStatus::kOk) return merged;
  const ControlField field = FirstDifference(lower.header, upper.header);
  if (field != ControlField::kNone) {
    merged.header.status = ControlStatus::kMismatch;
    merged.header.field = field;
    merged.header.culprit = upper.begin;
  } else if (upper.header.status != ControlStatus::kOk) {
    merged.header.status = upper.header.status;
    merged.header.field = upper.header.field;
    merged.header.culprit = upper.header.culprit;
  }
  return merged;
}

HostExchange::HostExchange(uint32_t rank, uint32_t world_size, uint64_t inline_bytes)
    : rank_(rank), cube_(HostCube::Of(world_size)), inline_bytes_(inline_bytes) {
  EPIC_CHECK(rank < world_size && inline_bytes <= kMaxInlineBytes);
  const auto add = [this](Kind kind, uint32_t peer, uint32_t bit, bool sends, bool receives) {
    rounds_.push_back({.kind = kind, .peer = peer, .bit = bit, .sends = sends, .receives = receives});
    rounds_.back().place = memory_bytes_;
    memory_bytes_ += static_cast<size_t>((sends ? 1 : 0) + (receives ? 2 : 0)) * RoomOf(inline_bytes_);
  };
  if (cube_.IsFolded(rank)) {
    add(Kind::kPre, rank - 1, 0, true, false);
    add(Kind::kPost, rank - 1, 0, false, true);
    return;
  }
  if (cube_.IsProxy(rank)) add(Kind::kPre, rank + 1, 0, false, true);
  const uint32_t member = cube_.MemberOf(rank);
  for (uint32_t bit = 1; bit < cube_.members; bit *= 2)
    add(Kind::kCube, cube_.RankOf(member ^ bit), bit, true, true);
  if (cube_.IsProxy(rank)) add(Kind::kPost, rank + 1, 0, true, false);
}

// The one that receives from the peer.
size_t HostExchange::RoundOf(uint32_t peer) const {
  const auto at = std::ranges::find_if(rounds_, [&](const Round& r) { return r.receives && r.peer == peer; });
  EPIC_CHECK(at != rounds_.end());
  return static_cast<size_t>(at - rounds_.begin());
}

size_t HostExchange::ReceivePlace(uint32_t peer, int64_t invocation) const {
  const Round& round = rounds_[RoundOf(peer)];
  return round.place + static_cast<size_t>((round.sends ? 1 : 0) + invocation % 2) * RoomOf(inline_bytes_);
}

HostBlock HostExchange::BlockIn(const Round& round, uint32_t sender) const {
  HostBlock block;
  if (round.kind == Kind::kPre) {
    block.begin = sender;
    block.end = sender + 1;
  } else if (round.kind == Kind::kPost) {
    block.end = cube_.ranks;
  } else {
    const uint32_t first = cube_.MemberOf(sender) & ~(round.bit - 1);
    block.begin = cube_.RankOf(first);
    block.end = cube_.RankOf(first + round.bit);
  }
  return block;
}

uint64_t HostExchange::DataBytes(const ControlHeader& header, const Round& round, uint32_t sender) const {
  if (!IsInlined(header)) return 0;
  const uint64_t all = CallBytes(header);
  const uint32_t difference = cube_.MemberOf(sender) ^ cube_.MemberOf(header.root);
  const bool is_root_folded = cube_.IsFolded(header.root);
  // In pre and post the folded rank is one of the two ends.
  const bool is_with_root = is_root_folded && difference == 0;
  switch (header.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return all;
    case Collective::kReduce:
      if (round.kind == Kind::kCube) return (difference & -difference) == round.bit ? all : 0;
      return round.kind == Kind::kPre || is_with_root ? all : 0;
    case Collective::kBroadcast:
      if (round.kind == Kind::kCube) return difference < round.bit ? all : 0;
      return (round.kind == Kind::kPre) == is_with_root ? all : 0;
    case Collective::kAllGather: {
      const HostBlock block = BlockIn(round, sender);
      return (block.end - block.begin) * (all / cube_.ranks);
    }
    case Collective::kBarrier:
      break;
  }
  return 0;
}

size_t HostExchange::NextSending() const {
  size_t next = round_ + 1;
  while (next < rounds_.size() && !rounds_[next].sends) ++next;
  return next;
}

void HostExchange::Begin(const HostCall& call, int64_t invocation, uint8_t* memory) {
  call_ = call;
  invocation_ = invocation;
  begun_ = true;
  block_ = {.header = call.header, .begin = rank_, .end = rank_ + 1};
  round_ = 0;
  sent_ = false;
  is_shared_ = false;
  is_delivered_ = !IsInlined(call.header);
  message_ = rounds_[rounds_[0].sends ? 0 : NextSending()].place;
  Write(call.header, memory + message_);
  if (is_delivered_ || SendBytes(call.header, rank_) == 0) return;
  uint8_t* const data = memory + message_ + kControlBytes;
  const uint64_t part = call.part_bytes();
  const uint64_t parts = call.header.collective == Collective::kReduceScatter ? cube_.ranks : 1;
  for (uint64_t p = 0; p < parts; ++p) std::memcpy(data + p * part, call.send + p * call.stride(), part);
}

std::optional<uint32_t> HostExchange::NextPeer() const {
  if (!begun_ || round_ == rounds_.size() || sent_ || !rounds_[round_].sends) return std::nullopt;
  return rounds_[round_].peer;
}

std::optional<uint32_t> HostExchange::AwaitedPeer() const {
  if (!begun_ || round_ == rounds_.size() || NextPeer()) return std::nullopt;
  return rounds_[round_].peer;
}

HostExchange::Message HostExchange::Send(uint8_t* memory) {
  const Round& round = rounds_[round_];
  const bool is_ok = block_.header.status == ControlStatus::kOk;
  // What has been sent may be read again.
  if (!is_ok) {
    message_ = round.place;
    Write(block_.header, memory + message_);
  }
  sent_ = is_shared_ = true;
  const uint64_t data = is_ok ? DataBytes(block_.header, round, rank_) : 0;
  return {.peer = round.peer, .place = message_, .length = static_cast<uint32_t>(kControlBytes + data)};
}

void HostExchange::OnMessage(uint32_t peer, int64_t invocation, uint32_t bytes) {
  // One of no bytes is as wrong as one of a byte, and is not taken for none.
  rounds_[RoundOf(peer)].arrived[invocation % 2] = std::max(bytes, 1u);
}

bool HostExchange::Proceed(uint8_t* memory) {
  for (; begun_ && round_ < rounds_.size(); ++round_, sent_ = false) {
    Round& round = rounds_[round_];
    if (round.sends && !sent_) return true;
    if (!round.receives) continue;
    if (round.arrived[invocation_ % 2] == 0) return true;
    if (!Merge(round, memory)) return false;
    round.arrived[invocation_ % 2] = 0;
  }
  if (done()) DeliverResult(memory);
  return true;
}

bool HostExchange::IsMessage(const ControlHeader& header, const Round& round, uint32_t bytes) const {
  const HostBlock block = BlockIn(round, round.peer);
  if (header.status == ControlStatus::kMismatch) {
    return header.field != ControlField::kNone && header.culprit > block.begin &&
           header.culprit < block.end && bytes == kControlBytes;
  }
  if (header.status != ControlStatus::kOk || header.field != ControlField::kNone || header.culprit != 0)
    return false;
  // What a rank of a later version calls differs from what this rank has called, which it is told.
  const ControlField wrong = WrongField(header, cube_.ranks);
  const bool is_later = (wrong == ControlField::kType && IsLater(header.type)) ||
                        (wrong == ControlField::kOp && IsLater(header.op));
  if (wrong != ControlField::kNone && !is_later) return false;
  if (IsLengthUnknown(header)) return bytes <= message_bytes();
  if (IsInlined(header) && CallBytes(header) > inline_bytes_) return false;
  return bytes == kControlBytes + DataBytes(header, round, round.peer);
}

bool HostExchange::Merge(const Round& round, uint8_t* memory) {
  const size_t place = ReceivePlace(round.peer, invocation_);
  const uint32_t bytes = round.arrived[invocation_ % 2];
  const auto header = HeaderOf({memory + place, std::min(bytes, message_bytes())});
  if (!header || !IsMessage(*header, round, bytes)) return false;
  HostBlock theirs = BlockIn(round, round.peer);
  theirs.header = *header;
  if (round.kind == Kind::kPost) {
    // It has this rank's own header in it.
    const bool is_ok = header->status == ControlStatus::kOk;
    if (is_ok && FirstDifference(*header, call_.header) != ControlField::kNone) return false;
    block_ = theirs;
    if (is_ok && !is_delivered_) MergeData(round, false, bytes - kControlBytes, memory);
    return true;
  }
  const bool is_lower = block_.begin < theirs.begin;
  const bool have_data = block_.header.status == ControlStatus::kOk;
  const HostBlock merged = is_lower ? MergeBlocks(block_, theirs) : MergeBlocks(theirs, block_);
  if (have_data && merged.header.status == ControlStatus::kOk && bytes > kControlBytes)
    MergeData(round, is_lower, bytes - kControlBytes, memory);
  block_ = merged;
  return true;
}

// Parts of an AllGather that have come, into the result; this rank's own is there.
void HostExchange::Deliver(uint64_t first_part, uint64_t parts, const uint8_t* data) const {
  const uint64_t bytes = call_.part_bytes();
  for (uint64_t part = 0; part < parts; ++part) {
    if (first_part + part == rank_) continue;
    std::memcpy(call_.recv + (first_part + part) * call_.stride(), data + part * bytes, bytes);
  }
}

// Both blocks agree, and the message has data.
void HostExchange::MergeData(const Round& round, bool is_lower, uint64_t bytes, uint8_t* memory) {
  const size_t came = ReceivePlace(round.peer, invocation_);
  const uint8_t* const theirs = memory + came + kControlBytes;
  const ControlHeader& header = call_.header;
  if (header.collective == Collective::kBroadcast || round.kind == Kind::kPost) {
    // As it came it can be sent on: what they say is what this rank says.
    if (header.collective == Collective::kAllGather) {
      Deliver(0, cube_.ranks, theirs);
      is_delivered_ = true;
    }
    message_ = came;
    is_shared_ = true;
    return;
  }
  const size_t next = NextSending();
  const bool is_last = next == rounds_.size();
  // Before anything is sent, what is this rank's own may be written.
  const size_t to = is_shared_ && !is_last ? rounds_[next].place : message_;
  const uint8_t* const ours = memory + message_ + kControlBytes;
  uint8_t* out = memory + to + kControlBytes;
  if (header.collective == Collective::kAllGather) {
    const HostBlock block = BlockIn(round, round.peer);
    Deliver(block.begin, block.end - block.begin, theirs);
    is_delivered_ = is_last;
    if (is_last) return;
    const uint64_t own = (block_.end - block_.begin) * call_.part_bytes();
    // A folded rank's part is behind its proxy's, which is there.
    if (to != message_) std::memcpy(out + (is_lower ? 0 : bytes), ours, own);
    std::memcpy(out + (is_lower ? own : 0), theirs, bytes);
  } else {
    uint64_t begin = 0;
    if (is_last) {
      const bool is_part = header.collective == Collective::kReduceScatter;
      begin = is_part ? rank_ * call_.part_bytes() : 0;
      bytes = is_part ? call_.part_bytes() : bytes;
      out = call_.recv;
      is_delivered_ = true;
    }
    Combine(header.op, header.type, {out, bytes}, (is_lower ? ours : theirs) + begin,
            (is_lower ? theirs : ours) + begin);
  }
  if (to != message_) {
    Write(header, memory + to);
    message_ = to;
    is_shared_ = false;
  }
}

// Where the result has not been combined into its place.
void HostExchange::DeliverResult(const uint8_t* memory) {
  if (is_delivered_ || header().status != ControlStatus::kOk) return;
  is_delivered_ = true;
  const uint8_t* const data = memory + message_ + kControlBytes;
  const uint64_t part = call_.part_bytes();
  switch (call_.header.collective) {
    case Collective::kReduce:
      if (rank_ == call_.header.root) std::memcpy(call_.recv, data, part);
      break;
    case Collective::kBroadcast:
      if (rank_ != call_.header.root) std::memcpy(call_.recv, data, part);
      break;
    case Collective::kAllReduce:
      std::memcpy(call_.recv, data, part);
      break;
    case Collective::kReduceScatter:
      std::memcpy(call_.recv, data + rank_ * part, part);
      break;
    case Collective::kAllGather:
    case Collective::kBarrier:
      break;
  }
}

}  // namespace epic
