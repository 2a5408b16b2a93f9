#include "sim/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "commlib/core/rank_calls.h"
#include "protocol/number_blocks.h"

namespace epic::sim {
namespace {

// A non-negative integer, of an FP type below 256 or a power of two up to 2^15, in the encoding of a type of
// at most four bytes.
uint32_t EncodeElement(DataType type, uint32_t value) {
  const uint32_t f32 = std::bit_cast<uint32_t>(static_cast<float>(value));
  switch (type) {
    case DataType::kFloat32:
      return f32;
    case DataType::kBFloat16:
      return f32 >> 16;
    case DataType::kFloat16:
      return value == 0 ? 0 : ((f32 >> 23) - 127 + 15) << 10 | (f32 >> 13 & 0x3ff);
    default:
      return value;
  }
}

uint64_t Combine(ReduceOp op, uint64_t a, uint64_t b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kBitAnd:
      return a & b;
    case ReduceOp::kBitOr:
      return a | b;
    case ReduceOp::kBitXor:
      return a ^ b;
    case ReduceOp::kLogicalAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::kLogicalOr:
      return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::kSaturatingSum:
      return std::min<uint64_t>(a + b, INT32_MAX);
    case ReduceOp::kNone:
    case ReduceOp::kSum:
      break;
  }
  return a + b;
}

// Writes value(0), value(1), ... in the type's encoding.
template <typename ValueOf>
void Fill(DataType type, std::span<uint8_t> out, const ValueOf& value) {
  const auto fill = [&]<typename Unit>(Unit) {
    for (size_t i = 0; i < out.size() / sizeof(Unit); ++i) {
      const auto unit = static_cast<Unit>(EncodeElement(type, static_cast<uint32_t>(value(i))));
      std::memcpy(out.data() + i * sizeof unit, &unit, sizeof unit);
    }
  };
  const uint32_t bytes = ElementBytes(type);
  EPIC_CHECK(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  for (size_t i = 0; bytes == 8 && i < out.size() / 8; ++i) {
    const uint64_t element = value(i);
    const uint64_t unit =
        type == DataType::kFloat64 ? std::bit_cast<uint64_t>(static_cast<double>(element)) : element;
    std::memcpy(out.data() + i * sizeof unit, &unit, sizeof unit);
  }
  if (bytes == 8) return;
  bytes == 4 ? fill(uint32_t{}) : bytes == 2 ? fill(uint16_t{}) : fill(uint8_t{});
}

}  // namespace

CollectiveCall::CollectiveCall(const ControlHeader& header, int ranks, int number, int levels)
    : header_(header), ranks_(ranks), number_(number), levels_(levels), buffers_(ChooseBuffers()) {
  const uint64_t part_bytes = CalledBytes(header), wire_bytes = header.count * ElementBytes(header.type);
  const auto called = [=](uint64_t bytes) { return bytes == 0 ? 0 : bytes / wire_bytes * part_bytes; };
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<uint32_t>(r);
    send_.emplace_back(called(SendBytes(header, rank)));
    recv_.emplace_back(called(RecvBytes(header, rank)), uint8_t{0xee});
    for (uint64_t at = 0; at < send_.back().size(); at += part_bytes) {
      const int64_t part = Reduces(header.collective) ? static_cast<int64_t>(at / part_bytes) : r;
      const auto to = BytesAt(*this, rank, SendPlace(rank)).subspan(at, part_bytes);
      if (IsInBlocks(header)) {
        Blocks().Fill(r, part, to);
      } else {
        Fill(header.type, to, [&](size_t i) { return Value(r, part, i); });
      }
    }
  }
}

BlockValues CollectiveCall::Blocks() const {
  return {header_, ranks_,
          [this](int rank, int64_t part, uint64_t element) { return Value(rank, part, element); }};
}

CollectiveCall::Buffers CollectiveCall::ChooseBuffers() const {
  const uint64_t x = (header_.count * 64 + static_cast<uint64_t>(number_) + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<Buffers>((x >> 32) % 3);
}

bool CollectiveCall::InPlace(size_t rank) const {
  return buffers_ == Buffers::kInPlace && !send_[rank].empty() && !recv_[rank].empty();
}

// In place, the smaller buffer is this rank's share of the larger one.
CollectiveCall::BufferPlace CollectiveCall::SendPlace(size_t rank) const {
  const size_t bytes = send_[rank].size();
  const size_t other = recv_[rank].size();
  if (!InPlace(rank) || bytes > other) return {.in_send = true, .bytes = bytes};
  return {.at = bytes < other ? rank * bytes : 0, .bytes = bytes};
}

CollectiveCall::BufferPlace CollectiveCall::RecvPlace(size_t rank) const {
  const size_t bytes = recv_[rank].size();
  if (!InPlace(rank) || bytes >= send_[rank].size()) return {.bytes = bytes};
  return {.in_send = true, .at = rank * bytes, .bytes = bytes};
}

uint32_t CollectiveCall::Value(int rank, int64_t part, uint64_t element) const {
  uint64_t x = element * 64 + static_cast<uint64_t>(rank) + (static_cast<uint64_t>(number_) << 40) +
               (static_cast<uint64_t>(part) << 52);
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  const auto value = static_cast<uint32_t>(x >> 58) & 0xf;
  return header_.op < ReduceOp::kProduct ? value : ForOperation(rank, value);
}

uint64_t CollectiveCall::Expected(int64_t part, uint64_t element) const {
  if (!Reduces(header_.collective)) {
    return Value(static_cast<int>(PartRoot(header_, part)), static_cast<int64_t>(PartRoot(header_, part)),
                 element);
  }
  uint64_t result = Value(0, part, element);
  if (header_.op == ReduceOp::kSum) {
    for (int r = 1; r < ranks_; ++r) result += Value(r, part, element);
    return result;
  }
  for (int r = 1; r < ranks_; ++r) result = Combine(header_.op, result, Value(r, part, element));
  return result;
}

uint32_t CollectiveCall::ForOperation(int rank, uint32_t value) const {
  switch (header_.op) {
    case ReduceOp::kProduct:
      // Of 16 ranks at most 15 have a two in FP16, which has no 2^16.
      if (FindType(header_.type)->kind != ElementKind::kFloat) return value | 1;
      return rank % 16 == 0 ? 1 : 1 + (value & 1);
    case ReduceOp::kLogicalAnd:
    case ReduceOp::kLogicalOr:
      return value & 3;
    case ReduceOp::kSaturatingSum:
      // Of one sign, so that the order makes no difference; two of the larger ones are too much.
      return value << 27;
    default:
      return value;
  }
}

// All parts, one behind the other.
const std::vector<uint8_t>& CollectiveCall::Results() const {
  const uint64_t part_bytes = header_.count * ElementBytes(header_.type);
  if (results_.empty()) {
    results_.resize(part_bytes * header_.parts);
    for (uint32_t part = 0; part < header_.parts; ++part) {
      Fill(header_.type, std::span(results_).subspan(part * part_bytes, part_bytes),
           [&](size_t i) { return Expected(part, i); });
    }
  }
  return results_;
}

RankBuffers CollectiveCall::BuffersOf(int rank) {
  const auto r = static_cast<size_t>(rank);
  return {.send = BytesAt(*this, r, SendPlace(r)),
          .recv = BytesAt(*this, r, RecvPlace(r)),
          .registered = buffers_ != Buffers::kCopied};
}

void CollectiveCall::Start(World& world, int rank, int group) {
  const RankBuffers own = BuffersOf(rank);
  world.host(rank, group).Start(header_, own.send, own.recv, own.registered);
}

size_t CollectiveCall::Wrong(int rank) const {
  const auto r = static_cast<size_t>(rank);
  const std::span<const uint8_t> got = BytesAt(*this, r, RecvPlace(r));
  if (got.empty()) return 0;
  if (IsInBlocks(header_)) {
    const bool own = header_.collective == Collective::kReduceScatter;
    return Blocks().CountWrong(own ? rank : 0, levels_, got);
  }
  const uint32_t bytes = ElementBytes(header_.type);
  // All parts, or one: the only one, or in a ReduceScatter the rank's own.
  const bool own_part = header_.collective == Collective::kReduceScatter;
  const uint8_t* const want = Results().data() + (own_part ? static_cast<size_t>(rank) * got.size() : 0);
  EPIC_CHECK(want + got.size() <= Results().data() + Results().size());
  if (std::memcmp(got.data(), want, got.size()) == 0) return 0;
  size_t wrong = 0;
  for (size_t at = 0; at < got.size(); at += bytes) wrong += std::memcmp(&got[at], want + at, bytes) != 0;
  return wrong;
}

std::string CollectiveCall::Describe() const {
  return fmt::format("call {}: collective {}, {} of {}, root {}, {} elements per part", number_,
                     static_cast<int>(header_.collective), NameOf(header_.op), NameOf(header_.type),
                     header_.root, CalledElements(header_));
}

ControlHeader RandomHeader(Choices& choices, int ranks, uint64_t max_count) {
  ControlHeader header;
  header.collective = static_cast<Collective>(1 + choices.Below(6));
  if (header.collective == Collective::kBarrier) return header;
  const bool reduces = Reduces(header.collective);
  header.type = static_cast<DataType>(1 + choices.Below(reduces ? 4 : 5));
  if (reduces) header.op = static_cast<ReduceOp>(1 + choices.Below(3));
  if (header.collective == Collective::kReduce || header.collective == Collective::kBroadcast) {
    header.root = static_cast<uint32_t>(choices.Below(static_cast<uint64_t>(ranks)));
  }
  if (HasPartPerRank(header.collective)) header.parts = static_cast<uint32_t>(ranks);
  // Small counts are as likely as large ones.
  header.count = choices.Below(1 + choices.Below(max_count) / header.parts);
  return header;
}

void ChooseType(Choices& choices, ControlHeader* header) {
  if (header->collective == Collective::kBarrier) return;
  const auto type = [&] { return kCallerTypes[choices.Below(kCallerTypes.size())].type; };
  header->type = type();
  if (!Reduces(header->collective)) return;
  while (!CanReduce(ReduceOp::kSum, header->type)) header->type = type();
  do {
    header->op = kReduceOps[choices.Below(kDrawnOps)].op;
  } while (!CanReduce(header->op, header->type));
  // No draw, so that seeds stay what they were.
  if (header->type == DataType::kInt32 && header->op == ReduceOp::kSum && header->count % 2 == 1)
    header->op = ReduceOp::kSaturatingSum;
}

void PutInBlocks(ControlHeader* header) {
  if (!Reduces(header->collective) || !MayBeInBlocks(header->type) || header->count == 0) return;
  header->op = ReduceOp::kSum;
  *header = InBlocks(*header);
  header->flags |= kQuantisedFlag;
}

Nanos StartCalls(World& world, int group, int rank, std::span<CollectiveCall> calls, Nanos begin,
                 Nanos spread, const std::function<void(CollectiveCall&)>& start) {
  Nanos at = begin;
  for (CollectiveCall& call : calls) {
    if (spread > 0) at += static_cast<Nanos>(world.choices().Below(static_cast<uint64_t>(spread)));
    world.At(at, [&world, &call, rank, group, start] {
      if (!world.host(rank, group).alive()) return;
      return start ? start(call) : call.Start(world, rank, group);
    });
  }
  return at;
}

bool Finished(World& world, int group, const Calls& calls) {
  for (int r = 0; r < world.ranks(group); ++r) {
    const Host& host = world.host(r, group);
    if (host.alive() && host.calls() != calls.size()) return false;
  }
  return world.AllDone(group);
}

std::string Standing(const World& world, int group) {
  std::string out;
  for (int s = 0; s < world.switches(); ++s) {
    if (!world.HasContext(s, group)) continue;
    const engine::Context& ctx = world.context(s, group);
    out += fmt::format("switch {}: results {} sent {} acked {} up_acked {}", s, ctx.results_end, ctx.up_sent,
                       ctx.acked_end, ctx.up_acked_end);
    for (const engine::Endpoint& child : ctx.children) {
      out += fmt::format("; ranks {}.. expects {} of {}, told {}, acknowledged {}",
                         child.config.ranks.front(), child.progress.up_epsn, child.in.next_index(),
                         child.progress.up_told, child.progress.down_acked_end);
    }
    if (ctx.terminated) {
      const engine::StreamPlace& up = ctx.terminated->up;
      const engine::StreamPlace& down = ctx.terminated->down;
      out += fmt::format(
          "; up: invocation {} part {} message {}, child {} is next; down: {} part {} message {}\n",
          up.invocation, up.data.part, up.data.message, ctx.terminated->next_child, down.invocation,
          down.data.part, down.data.message);
      continue;
    }
    if (ctx.invocations.empty()) {
      out += "; no invocation\n";
      continue;
    }
    const engine::Invocation& last = ctx.invocations.back();
    out += fmt::format("; last invocation {} (collective {}) from {} to {}\n", last.number,
                       static_cast<int>(last.header.collective), last.control_index, last.end());
  }
  return out;
}

}  // namespace epic::sim
