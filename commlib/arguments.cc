#include "commlib/arguments.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "commlib/core/host_algorithm.h"
#include "commlib/core/rank_calls.h"
#include "protocol/bounds.h"
#include "protocol/flow.h"
#include "protocol/number_blocks.h"

namespace epic::internal {
namespace {

// A Datatype is the number of the type on the wire.
constexpr bool IsNumbered(Datatype type, DataType wire) {
  return static_cast<int>(type) == static_cast<int>(wire);
}
static_assert(
    IsNumbered(Datatype::kFloat32, DataType::kFloat32) && IsNumbered(Datatype::kInt32, DataType::kInt32) &&
    IsNumbered(Datatype::kFloat16, DataType::kFloat16) &&
    IsNumbered(Datatype::kBFloat16, DataType::kBFloat16) && IsNumbered(Datatype::kByte, DataType::kByte) &&
    IsNumbered(Datatype::kFloat64, DataType::kFloat64) && IsNumbered(Datatype::kInt64, DataType::kInt64) &&
    IsNumbered(Datatype::kUint64, DataType::kUint64) && IsNumbered(Datatype::kUint32, DataType::kUint32) &&
    IsNumbered(Datatype::kInt8, DataType::kInt8) && IsNumbered(Datatype::kUint8, DataType::kUint8) &&
    IsNumbered(Datatype::kInt16, DataType::kInt16) && IsNumbered(Datatype::kUint16, DataType::kUint16) &&
    kCallerTypes.size() == static_cast<size_t>(Datatype::kUint16));

// What the network does of an operation; kNone if it is none.
ReduceOp InNetwork(RedOp op) {
  switch (op) {
    case RedOp::kSum:
    case RedOp::kAvg:
      return ReduceOp::kSum;
    case RedOp::kMin:
      return ReduceOp::kMin;
    case RedOp::kMax:
      return ReduceOp::kMax;
    case RedOp::kProduct:
      return ReduceOp::kProduct;
    case RedOp::kBitAnd:
      return ReduceOp::kBitAnd;
    case RedOp::kBitOr:
      return ReduceOp::kBitOr;
    case RedOp::kBitXor:
      return ReduceOp::kBitXor;
    case RedOp::kLogicalAnd:
      return ReduceOp::kLogicalAnd;
    case RedOp::kLogicalOr:
      return ReduceOp::kLogicalOr;
  }
  return ReduceOp::kNone;
}

// "sum, min, max, ...": the names in a table of protocol/types.h, but for what only the library asks for.
std::string NamesOf(const auto& table, std::string_view also = {}) {
  std::string names;
  for (const auto& row : table) {
    if (row.name != NameOf(ReduceOp::kSaturatingSum))
      names.append(names.empty() ? "" : ", ").append(row.name);
  }
  return also.empty() ? names : names.append(", ").append(also);
}

Error InvalidArgument(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Error CheckTypeAndOp(const CallArguments& a, ControlHeader* header) {
  const int type = static_cast<int>(a.type);
  header->type = static_cast<DataType>(type);
  if (type < 1 || static_cast<size_t>(type) > kCallerTypes.size()) {
    return {ErrorCode::kUnsupported,
            fmt::format("unsupported type {}: not one of {}", type, NamesOf(kCallerTypes))};
  }
  if (!Reduces(a.collective)) return {};
  header->op = InNetwork(a.op);
  if (header->op == ReduceOp::kNone) {
    return {ErrorCode::kUnsupported, fmt::format("unsupported operation {}: not one of {}",
                                                 static_cast<int>(a.op), NamesOf(kReduceOps, "avg"))};
  }
  const std::string_view op = a.op == RedOp::kAvg ? "avg" : NameOf(header->op);
  if (!CanReduce(header->op, header->type)) {
    const char* const why = header->type == DataType::kByte
                                ? "bytes cannot be reduced, only copied"
                                : "bitwise and logical operations are of integers";
    return {ErrorCode::kUnsupported,
            fmt::format("unsupported operation {} of type {}: {}", op, NameOf(header->type), why)};
  }
  if (a.op == RedOp::kAvg) header->flags = kAverageFlag;
  return {};
}

// One buffer as large as the other's part, or as all parts.
struct Buffer {
  uintptr_t begin = 0;
  uint64_t bytes = 0;
};

bool Overlap(const Buffer& a, const Buffer& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

// The buffers are equal, or (one part per rank) the smaller one is this rank's part of the larger one.
bool InPlace(const ControlHeader& header, int rank, const Buffer& send, const Buffer& recv, uint64_t part) {
  const uint64_t at = static_cast<uint64_t>(rank) * part;
  if (header.collective == Collective::kReduceScatter) return recv.begin == send.begin + at;
  if (header.collective == Collective::kAllGather) return send.begin == recv.begin + at;
  return send.begin == recv.begin;
}

Error CheckBuffers(const CallArguments& a, const ControlHeader& header, int rank) {
  const uint64_t part = header.count * ElementBytes(header.type);
  const bool is_root = rank == a.root;
  const bool sends = a.collective != Collective::kBroadcast || is_root;
  const bool receives = a.collective != Collective::kReduce || is_root;
  if (sends && a.send == nullptr) return InvalidArgument("sendbuff is null");
  // The root of a Broadcast has the data already.
  if (receives && a.recv == nullptr && !(a.collective == Collective::kBroadcast && is_root)) {
    return InvalidArgument("recvbuff is null");
  }
  if (!sends || !receives || a.recv == nullptr) return {};
  Buffer send{reinterpret_cast<uintptr_t>(a.send), part}, recv{reinterpret_cast<uintptr_t>(a.recv), part};
  if (a.collective == Collective::kReduceScatter) send.bytes *= header.parts;
  if (a.collective == Collective::kAllGather) recv.bytes *= header.parts;
  if (!Overlap(send, recv) || InPlace(header, rank, send, recv, part)) return {};
  if (HasPartPerRank(a.collective)) {
    return InvalidArgument(
        "sendbuff and recvbuff overlap without the one being this rank's part of the other");
  }
  return InvalidArgument("sendbuff and recvbuff overlap without being the same");
}

// "operation product is not in leaf1 (version 0.1.0)"; empty if nothing lacks.
std::string LackInWords(const GroupAbilities& group, const ControlHeader& header) {
  ControlHeader call = header;
  call.flags &= ~kByHostsFlag;
  const std::string what = LackOf(group.has, call);
  if (what.empty()) return what;
  const auto at = group.where.find(what);
  return fmt::format("{} is not in {}", what,
                     at == group.where.end() ? "what the manager knows of the group's switches" : at->second);
}

// In a group with a scale.
Error MakeScaled(ControlHeader* header) {
  if (header->op == ReduceOp::kProduct) {
    return {ErrorCode::kUnsupported,
            "unsupported operation product of type float32: the group sums float32 as whole numbers "
            "(quantise), and has sum, avg, min and max of it"};
  }
  header->type = DataType::kInt32;
  if (!Reduces(header->collective)) return {};
  if (header->op == ReduceOp::kSum) header->op = ReduceOp::kSaturatingSum;
  header->flags |= kQuantisedFlag;
  return {};
}

// In a group with blocks.
bool TravelsInBlocks(const GroupAbilities& group, const ControlHeader& header) {
  return Reduces(header.collective) && header.op == ReduceOp::kSum && MayBeInBlocks(header.type) &&
         header.parts <= kMostBlockParts && CallBytes(header) > group.plain_bytes;
}

bool GoesAsDatagrams(const GroupAbilities& group, const ControlHeader& header) {
  return group.multicast && IsByMulticast(header, Algorithm::kMulticast);
}

}  // namespace

Error ChooseWay(const GroupAbilities& group, bool in_blocks, ControlHeader* header) {
  if (group.scale != 0 && header->type == DataType::kFloat32) {
    if (Error e = MakeScaled(header); !e.ok()) return e;
  }
  if (group.blocks && in_blocks && TravelsInBlocks(group, *header)) {
    *header = InBlocks(*header);
    header->flags |= kQuantisedFlag;
  }
  if (group.hosts_reach && GoesAsDatagrams(group, *header)) {
    header->flags |= kByHostsFlag;
    return {};
  }
  if (LackOf(group.has, *header).empty()) {
    const bool shorter = header->parts <= kMaxHostRanks && IsShorterByHosts(*header);
    if (group.hosts_reach && (shorter || (group.asks && IsScaled(*header)))) header->flags |= kByHostsFlag;
    return {};
  }
  if (!Reduces(header->collective)) {
    // All ranks know of the same abilities, and so do the same.
    ControlHeader bytes = *header;
    bytes.type = DataType::kByte;
    bytes.count *= ElementBytes(header->type);
    if (LackOf(group.has, bytes).empty()) {
      *header = bytes;
      return {};
    }
  }
  if (group.hosts_reach) {
    header->flags |= kByHostsFlag;
    return {};
  }
  const std::string lack = LackInWords(group, *header);
  if (group.why_not_hosts.empty()) return {ErrorCode::kUnsupported, lack};
  return {ErrorCode::kUnsupported,
          fmt::format("{}; between the hosts it cannot go: {}", lack, group.why_not_hosts)};
}

bool IsLacking(const GroupAbilities& group, const ControlHeader& header) {
  return !LackInWords(group, header).empty();
}

std::string WhyByHosts(const GroupAbilities& group, const ControlHeader& header) {
  if (GoesAsDatagrams(group, header))
    return "broadcasts and allgathers go as datagrams (algorithm multicast)";
  const std::string lack = LackInWords(group, header);
  if (!lack.empty()) return lack;
  if (group.asks && IsScaled(header)) {
    return "float32 as whole numbers (quantise) does not ask for the memory that the group shares with "
           "others";
  }
  return fmt::format(
      "reducescatter of {} KiB and more: around the ring {}/{} of the data pass a host's link, "
      "through the switches all of them",
      LeastShorterByHosts(header.parts) / 1024, header.parts - 1, header.parts);
}

Error MakeHeader(const CallArguments& a, int size, ControlHeader* header) {
  *header = {.collective = a.collective};
  if (a.collective == Collective::kBarrier) return {};
  if (Error e = CheckTypeAndOp(a, header); !e.ok()) return e;
  if (a.root < 0 || a.root >= size) {
    return InvalidArgument(fmt::format("root {} is not in a group of {} (ranks count from 0)", a.root, size));
  }
  header->root = static_cast<uint32_t>(a.root);
  header->count = a.count;
  if (HasPartPerRank(a.collective)) header->parts = static_cast<uint32_t>(size);
  if (a.count > kMaxCallBytes / ElementBytes(header->type) / header->parts) {
    return InvalidArgument(
        header->parts == 1 ? fmt::format("count {}: more than 64 TiB", a.count)
                           : fmt::format("count {} for each of {} ranks: more than 64 TiB", a.count, size));
  }
  return {};
}

Error CheckArguments(const CallArguments& a, int rank, int size, const GroupAbilities& group, bool in_blocks,
                     ControlHeader* header) {
  if (Error e = MakeHeader(a, size, header); !e.ok()) return e;
  if (header->count == 0) return {};
  if (Error e = CheckBuffers(a, *header, rank); !e.ok()) return e;
  return ChooseWay(group, in_blocks, header);
}

}  // namespace epic::internal
