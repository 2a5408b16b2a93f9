#include "bench/collective.h"

#include <algorithm>
#include <string_view>

#include "protocol/number_blocks.h"

namespace epic::perf {
namespace {

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

template <typename T, size_t n>
std::optional<T> Find(const Named<T> (&names)[n], const std::string& name) {
  const auto* found =
      std::find_if(names, names + n, [&](const Named<T>& entry) { return entry.name == name; });
  if (found == names + n) return std::nullopt;
  return found->value;
}

template <typename T, size_t n>
const char* NameIn(const Named<T> (&names)[n], T value) {
  const auto* found =
      std::find_if(names, names + n, [&](const Named<T>& entry) { return entry.value == value; });
  return found == names + n ? "unknown" : found->name.data();
}

constexpr Named<Kind> kKinds[] = {{"allreduce", Kind::kAllReduce},         {"reduce", Kind::kReduce},
                                  {"broadcast", Kind::kBroadcast},         {"barrier", Kind::kBarrier},
                                  {"reducescatter", Kind::kReduceScatter}, {"allgather", Kind::kAllGather}};
// The first of a value is its name.
constexpr Named<Datatype> kTypes[] = {
    {"float", Datatype::kFloat32},     {"double", Datatype::kFloat64},  {"half", Datatype::kFloat16},
    {"bfloat16", Datatype::kBFloat16}, {"int8", Datatype::kInt8},       {"uint8", Datatype::kUint8},
    {"int16", Datatype::kInt16},       {"uint16", Datatype::kUint16},   {"int32", Datatype::kInt32},
    {"uint32", Datatype::kUint32},     {"int64", Datatype::kInt64},     {"uint64", Datatype::kUint64},
    {"byte", Datatype::kByte},         {"float32", Datatype::kFloat32}, {"fp32", Datatype::kFloat32},
    {"float64", Datatype::kFloat64},   {"fp64", Datatype::kFloat64},    {"float16", Datatype::kFloat16},
    {"fp16", Datatype::kFloat16},      {"bf16", Datatype::kBFloat16},   {"int", Datatype::kInt32}};
constexpr Named<RedOp> kOps[] = {
    {"sum", RedOp::kSum},       {"prod", RedOp::kProduct},   {"min", RedOp::kMin},
    {"max", RedOp::kMax},       {"avg", RedOp::kAvg},        {"band", RedOp::kBitAnd},
    {"bor", RedOp::kBitOr},     {"bxor", RedOp::kBitXor},    {"land", RedOp::kLogicalAnd},
    {"lor", RedOp::kLogicalOr}, {"product", RedOp::kProduct}};

// Every value of a list of names, in its order.
template <typename T, size_t n>
std::vector<T> ValuesOf(const Named<T> (&names)[n]) {
  std::vector<T> values;
  for (const Named<T>& entry : names) {
    if (std::ranges::find(values, entry.value) == values.end()) values.push_back(entry.value);
  }
  return values;
}

bool HasShares(Kind kind) { return kind == Kind::kReduceScatter || kind == Kind::kAllGather; }

// On a Communicator or a ParallelCommunicator.
template <typename Comm>
Error RunOn(const Job& j, const Buffers& b, Comm& comm) {
  switch (j.kind) {
    case Kind::kAllReduce:
      return AllReduce(b.send, b.recv, j.count, j.type, j.op, comm);
    case Kind::kReduce:
      return Reduce(b.send, b.recv, j.count, j.type, j.op, j.root, comm);
    case Kind::kBroadcast:
      return Broadcast(b.send, b.recv, j.count, j.type, j.root, comm);
    case Kind::kReduceScatter:
      return ReduceScatter(b.send, b.recv, j.count, j.type, j.op, comm);
    case Kind::kAllGather:
      return AllGather(b.send, b.recv, j.count, j.type, comm);
    case Kind::kBarrier:
      break;
  }
  return Barrier(comm);
}

}  // namespace

const char* Name(Kind kind) { return NameIn(kKinds, kind); }
const char* Name(Datatype type) { return NameIn(kTypes, type); }
const char* Name(RedOp op) { return NameIn(kOps, op); }
std::optional<Kind> ParseKind(const std::string& name) { return Find(kKinds, name); }
std::optional<Datatype> ParseType(const std::string& name) { return Find(kTypes, name); }
std::optional<RedOp> ParseOp(const std::string& name) { return Find(kOps, name); }

const std::vector<Kind>& AllKinds() {
  static const std::vector<Kind> kinds = {Kind::kAllReduce, Kind::kReduce,        Kind::kBroadcast,
                                          Kind::kBarrier,   Kind::kReduceScatter, Kind::kAllGather};
  return kinds;
}

const std::vector<Datatype>& AllTypes() {
  static const std::vector<Datatype> types = ValuesOf(kTypes);
  return types;
}

const std::vector<RedOp>& AllOps() {
  static const std::vector<RedOp> ops = ValuesOf(kOps);
  return ops;
}

bool Possible(Kind kind, Datatype type, RedOp op) {
  if (!Reduces(kind)) return true;
  const ElementKind of = FindType(static_cast<DataType>(type))->kind;
  switch (op) {
    case RedOp::kSum:
    case RedOp::kMin:
    case RedOp::kMax:
    case RedOp::kAvg:
    case RedOp::kProduct:
      return of != ElementKind::kBytes;
    case RedOp::kBitAnd:
    case RedOp::kBitOr:
    case RedOp::kBitXor:
    case RedOp::kLogicalAnd:
    case RedOp::kLogicalOr:
      break;
  }
  return of == ElementKind::kSigned || of == ElementKind::kUnsigned;
}

std::string NamesOf(const std::vector<Datatype>& types) {
  std::string names;
  for (const Datatype type : types) names += (names.empty() ? "" : ", ") + std::string(Name(type));
  return names;
}

std::string NamesOf(const std::vector<RedOp>& ops) {
  std::string names;
  for (const RedOp op : ops) names += (names.empty() ? "" : ", ") + std::string(Name(op));
  return names;
}

uint64_t Job::total_bytes() const {
  return HasShares(kind) ? share_bytes() * static_cast<uint64_t>(ranks) : share_bytes();
}

uint64_t Job::send_bytes() const {
  if (kind == Kind::kBarrier || (kind == Kind::kBroadcast && rank != root)) return 0;
  return kind == Kind::kReduceScatter ? total_bytes() : share_bytes();
}

uint64_t Job::recv_bytes() const {
  if (kind == Kind::kBarrier || (kind == Kind::kReduce && rank != root)) return 0;
  return kind == Kind::kAllGather ? total_bytes() : share_bytes();
}

Buffers InPlace(const Job& job, uint8_t* buffer) {
  uint8_t* own = HasShares(job.kind) ? buffer + static_cast<uint64_t>(job.rank) * job.share_bytes() : buffer;
  return {.send = job.kind == Kind::kAllGather ? own : buffer,
          .recv = job.kind == Kind::kReduceScatter ? own : buffer};
}

Error Run(const Job& j, const Buffers& b, Communicator& comm) { return RunOn(j, b, comm); }
Error Run(const Job& j, const Buffers& b, ParallelCommunicator& comm) { return RunOn(j, b, comm); }
Error Start(const Job& j, const Buffers& b, Communicator& comm, Request* request) {
  switch (j.kind) {
    case Kind::kAllReduce:
      return AllReduceAsync(b.send, b.recv, j.count, j.type, j.op, comm, request);
    case Kind::kReduce:
      return ReduceAsync(b.send, b.recv, j.count, j.type, j.op, j.root, comm, request);
    case Kind::kBroadcast:
      return BroadcastAsync(b.send, b.recv, j.count, j.type, j.root, comm, request);
    case Kind::kReduceScatter:
      return ReduceScatterAsync(b.send, b.recv, j.count, j.type, j.op, comm, request);
    case Kind::kAllGather:
      return AllGatherAsync(b.send, b.recv, j.count, j.type, comm, request);
    case Kind::kBarrier:
      break;
  }
  return BarrierAsync(comm, request);
}

int LevelsOf(const Job& job, const Quantisation& quantised) {
  const bool may = quantised.int8 && Reduces(job.kind) && (job.op == RedOp::kSum || job.op == RedOp::kAvg) &&
                   MayBeInBlocks(static_cast<DataType>(job.type));
  const bool has_parts = job.kind == Kind::kReduceScatter;
  if (!may || (has_parts && job.ranks > static_cast<int>(kMostBlockParts))) return 0;
  return job.total_bytes() > quantised.plain_bytes ? quantised.levels : 0;
}

void Fill(const Job& job, uint32_t run, uint8_t* send) {
  const Inputs inputs{job.type, job.ranks, run, job.op, job.scale};
  const std::span<uint8_t> data(send, job.send_bytes());
  job.levels > 0 ? FillBlocksInput(inputs, job.rank, 0, data) : FillInput(inputs, job.rank, 0, data);
}

uint64_t Wrong(const Job& job, uint32_t run, const uint8_t* recv, Accuracy* accuracy) {
  const Inputs inputs{job.type, job.ranks, run, job.op, job.scale};
  const std::span<const uint8_t> data(recv, job.recv_bytes());
  if (data.empty()) return 0;
  if (job.kind == Kind::kBroadcast) return CountWrongCopies(inputs, job.root, 0, data);
  if (job.kind != Kind::kAllGather) {
    const bool own_share = job.kind == Kind::kReduceScatter;
    const uint64_t first = own_share ? static_cast<uint64_t>(job.rank) * job.count : 0;
    if (job.levels == 0) return CountWrong(inputs, first, data);
    Accuracy ignored;
    return CountBeyondBound(inputs, job.levels, first, data, accuracy == nullptr ? &ignored : accuracy);
  }
  uint64_t wrong = 0;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const auto share = data.subspan(static_cast<uint64_t>(rank) * job.share_bytes(), job.share_bytes());
    wrong += CountWrongCopies(inputs, rank, 0, share);
  }
  return wrong;
}

double BusFactor(Kind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (kind == Kind::kAllReduce) return 2 * others;
  return HasShares(kind) ? others : 1;
}

}  // namespace epic::perf
