#include "commlib/arguments.h"

#include <fmt/format.h>

#include <cstdint>

#include "protocol/flow.h"

namespace epic::internal {
namespace {

static_assert(static_cast<int>(Datatype::kFloat32) == static_cast<int>(DataType::kFloat32));
static_assert(static_cast<int>(Datatype::kInt32) == static_cast<int>(DataType::kInt32));
static_assert(static_cast<int>(Datatype::kFloat16) == static_cast<int>(DataType::kFloat16));
static_assert(static_cast<int>(Datatype::kBFloat16) == static_cast<int>(DataType::kBFloat16));
static_assert(static_cast<int>(Datatype::kByte) == static_cast<int>(DataType::kByte));

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Error CheckTypeAndOp(const CallArguments& a, ControlHeader* header) {
  header->type = static_cast<DataType>(a.type);
  const int type = static_cast<int>(a.type);
  if (type < 1 || type > UINT8_MAX || ElementBytes(header->type) == 0) {
    return {ErrorCode::kUnsupported,
            fmt::format("unsupported type {}: float32, int32, float16, bfloat16 and byte are", type)};
  }
  if (!Reduces(a.collective)) return {};
  if (a.type == Datatype::kByte) {
    return {ErrorCode::kUnsupported, "unsupported type: bytes cannot be reduced, only copied"};
  }
  switch (a.op) {
    case RedOp::kAvg:
      header->flags = kAverageFlag;
      header->op = ReduceOp::kSum;
      return {};
    case RedOp::kSum:
      header->op = ReduceOp::kSum;
      return {};
    case RedOp::kMin:
      header->op = ReduceOp::kMin;
      return {};
    case RedOp::kMax:
      header->op = ReduceOp::kMax;
      return {};
  }
  return {ErrorCode::kUnsupported,
          fmt::format("unsupported operation {}: sum, min, max and avg are", static_cast<int>(a.op))};
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
  if (sends && a.send == nullptr) return Invalid("sendbuff is null");
  // The root of a Broadcast has the data already.
  if (receives && a.recv == nullptr && !(a.collective == Collective::kBroadcast && is_root)) {
    return Invalid("recvbuff is null");
  }
  if (!sends || !receives || a.recv == nullptr) return {};
  Buffer send{reinterpret_cast<uintptr_t>(a.send), part}, recv{reinterpret_cast<uintptr_t>(a.recv), part};
  if (a.collective == Collective::kReduceScatter) send.bytes *= header.parts;
  if (a.collective == Collective::kAllGather) recv.bytes *= header.parts;
  if (!Overlap(send, recv) || InPlace(header, rank, send, recv, part)) return {};
  if (HasPartPerRank(a.collective)) {
    return Invalid("sendbuff and recvbuff overlap without the one being this rank's part of the other");
  }
  return Invalid("sendbuff and recvbuff overlap without being the same");
}

}  // namespace

Error CheckArguments(const CallArguments& a, int rank, int size, ControlHeader* header) {
  *header = {.collective = a.collective};
  if (a.collective == Collective::kBarrier) return {};
  if (Error e = CheckTypeAndOp(a, header); !e.ok()) return e;
  if (a.root < 0 || a.root >= size) {
    return Invalid(fmt::format("root {} is not in a group of {} (ranks count from 0)", a.root, size));
  }
  header->root = static_cast<uint32_t>(a.root);
  header->count = a.count;
  if (HasPartPerRank(a.collective)) header->parts = static_cast<uint32_t>(size);
  if (WrongField(*header, static_cast<uint32_t>(size)) == ControlField::kCount) {
    return Invalid(header->parts == 1
                       ? fmt::format("count {}: more than 1 GiB", a.count)
                       : fmt::format("count {} for each of {} ranks: more than 1 GiB", a.count, size));
  }
  return a.count == 0 ? Error() : CheckBuffers(a, *header, rank);
}

}  // namespace epic::internal
