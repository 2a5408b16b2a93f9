#include "protocol/control.h"

#include <algorithm>
#include <cstring>

#include "protocol/fields.h"

namespace epic {
namespace {

using fields::Get;
using fields::Put;

constexpr uint32_t kMagic = 0x43495045;  // "EPIC"
constexpr uint8_t kVersion = 1;

// Offsets in the header; what lies between and behind is zero.
constexpr size_t kMagicAt = 0, kVersionAt = 4, kCollectiveAt = 5, kOpAt = 6, kTypeAt = 7, kInvocationAt = 8,
                 kCountAt = 16, kRootAt = 24, kPartsAt = 28, kFlagsAt = 32, kStatusAt = 36, kFieldAt = 37,
                 kCulpritAt = 40, kTurnAt = 44, kWindowAt = 48, kCalledAt = 52, kLastAt = 53, kUnusedAt = 54,
                 kPriorityAt = 56, kUnusedBehindAt = 60;

bool Known(const ControlHeader& h) {
  const auto collective = static_cast<uint8_t>(h.collective);
  return collective >= 1 && collective <= 6 && static_cast<uint8_t>(h.status) <= 5 &&
         static_cast<uint8_t>(h.field) <= 9;
}

}  // namespace

void Encode(const ControlHeader& header, std::span<uint8_t, kControlBytes> out) {
  std::fill(out.begin(), out.end(), uint8_t{0});
  Put(out, kMagicAt, kMagic);
  Put(out, kVersionAt, kVersion);
  Put(out, kCollectiveAt, static_cast<uint8_t>(header.collective));
  Put(out, kOpAt, static_cast<uint8_t>(header.op));
  Put(out, kTypeAt, static_cast<uint8_t>(header.type));
  Put(out, kInvocationAt, header.invocation);
  Put(out, kCountAt, header.count);
  Put(out, kRootAt, header.root);
  Put(out, kPartsAt, header.parts);
  Put(out, kFlagsAt, header.flags);
  Put(out, kStatusAt, static_cast<uint8_t>(header.status));
  Put(out, kFieldAt, static_cast<uint8_t>(header.field));
  Put(out, kCulpritAt, header.culprit);
  // What refuses is read by earlier versions too, which want zeros there.
  if (header.status == ControlStatus::kOk) Put(out, kTurnAt, header.turn);
  if (IsRequest(header) && !IsFatal(header.status)) Put(out, kWindowAt, header.window);
  Put(out, kCalledAt, static_cast<uint8_t>(header.called));
  Put(out, kLastAt, header.last);
  Put(out, kPriorityAt, header.priority);
}

std::optional<ControlHeader> DecodeControl(std::span<const uint8_t> bytes) {
  if (bytes.size() != kControlBytes || Get<uint32_t>(bytes, kMagicAt) != kMagic ||
      bytes[kVersionAt] != kVersion) {
    return std::nullopt;
  }
  ControlHeader h;
  h.collective = static_cast<Collective>(bytes[kCollectiveAt]);
  h.op = static_cast<ReduceOp>(bytes[kOpAt]);
  h.type = static_cast<DataType>(bytes[kTypeAt]);
  h.invocation = Get<uint64_t>(bytes, kInvocationAt);
  h.count = Get<uint64_t>(bytes, kCountAt);
  h.root = Get<uint32_t>(bytes, kRootAt);
  h.parts = Get<uint32_t>(bytes, kPartsAt);
  h.flags = Get<uint32_t>(bytes, kFlagsAt);
  h.status = static_cast<ControlStatus>(bytes[kStatusAt]);
  h.field = static_cast<ControlField>(bytes[kFieldAt]);
  h.culprit = Get<uint32_t>(bytes, kCulpritAt);
  h.turn = Get<uint32_t>(bytes, kTurnAt);
  h.window = Get<uint32_t>(bytes, kWindowAt);
  h.called = static_cast<DataType>(bytes[kCalledAt]);
  h.last = bytes[kLastAt];
  h.priority = Get<uint32_t>(bytes, kPriorityAt);
  const bool rest_is_zero = bytes[kFieldAt + 1] == 0 && bytes[kFieldAt + 2] == 0 &&
                            Get<uint16_t>(bytes, kUnusedAt) == 0 &&
                            Get<uint32_t>(bytes, kUnusedBehindAt) == 0;
  const bool has_stray_turn = h.turn != 0 && h.status != ControlStatus::kOk;
  const bool asks = IsRequest(h) && !IsFatal(h.status);
  const bool is_busy = h.status == ControlStatus::kBusy;
  const bool may_say_called = h.type == DataType::kBlock8 || IsLater(h.type);
  const bool says_called = h.called != DataType::kNone || h.last != 0;
  if (!Known(h) || !rest_is_zero || has_stray_turn || (says_called && !may_say_called) ||
      (h.window != 0) != asks || (is_busy && !asks))
    return std::nullopt;
  const uint64_t most = h.type == DataType::kNone ? 0 : kMaxBytes / LeastElementBytes(h.type);
  if (h.count > most) return std::nullopt;
  return h;
}

std::optional<ControlHeader> HeaderOf(std::span<const uint8_t> message) {
  return DecodeControl(message.first(std::min(message.size(), kControlBytes)));
}

// What a call is comes before how long it is: types and algorithms have slices of lengths of their own, whose
// count and number differ as well.
ControlField FirstDifference(const ControlHeader& a, const ControlHeader& b) {
  constexpr uint32_t kSlicesLeft = ~uint32_t{0} << kSlicesLeftShift;
  // What follows from all other fields, or is looked at where it matters.
  constexpr uint32_t kFollow =
      kSlicesLeft | kInlinedFlag | kByHostsFlag | kAlgorithmFlags | kRequestFlag | kGrantedFlag;
  const uint32_t flags = a.flags ^ b.flags;
  const bool same_algorithm = (flags & kAlgorithmFlags) == 0;
  // One goes by multicast, the other by none that was told: as their sizes may have it.
  const bool by_size = (flags & kAlgorithmFlags) == kMulticastFlags &&
                       ((a.flags & kAlgorithmFlags) == 0 || (b.flags & kAlgorithmFlags) == 0);
  if (a.invocation != b.invocation) return ControlField::kInvocation;
  if (a.collective != b.collective) return ControlField::kCollective;
  // Of a call by the network there is no algorithm; by type, operation or count the other one goes another
  // way.
  if (IsByHosts(a) == IsByHosts(b) && !same_algorithm && !by_size) return ControlField::kAlgorithm;
  if (a.type != b.type || a.called != b.called) return ControlField::kType;
  if (a.op != b.op) return ControlField::kOp;
  if ((flags & ~kFollow) != 0) return ControlField::kFlags;
  if (a.root != b.root) return ControlField::kRoot;
  if (a.parts != b.parts) return ControlField::kParts;
  if (a.count != b.count || a.last != b.last || (flags & kSlicesLeft) != 0) return ControlField::kCount;
  if (IsByHosts(a) == IsByHosts(b) && !same_algorithm) return ControlField::kAlgorithm;
  constexpr uint32_t kWays = kInlinedFlag | kByHostsFlag | kRequestFlag | kGrantedFlag;
  const bool same_way = (flags & kWays) == 0 && a.turn == b.turn;
  return same_way ? ControlField::kNone : ControlField::kFlags;
}

const char* Name(ControlField field) {
  switch (field) {
    case ControlField::kNone:
      return "none";
    case ControlField::kCollective:
      return "collective";
    case ControlField::kOp:
      return "op";
    case ControlField::kType:
      return "type";
    case ControlField::kRoot:
      return "root";
    case ControlField::kCount:
      return "count";
    case ControlField::kParts:
      return "parts";
    case ControlField::kFlags:
      return "flags";
    case ControlField::kInvocation:
      return "invocation";
    case ControlField::kAlgorithm:
      return "algorithm";
  }
  return "unknown";
}

}  // namespace epic
