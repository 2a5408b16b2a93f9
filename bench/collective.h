// The collectives by name: what one needs of buffers, how it is called, how its inputs and results look.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/block_pattern.h"
#include "bench/pattern.h"
#include "epic/epic.h"
#include "epic/parallel.h"

namespace epic::perf {

enum class Kind { kAllReduce, kReduce, kBroadcast, kBarrier, kReduceScatter, kAllGather };

// "allreduce", "reduce", "broadcast", "barrier", "reducescatter", "allgather".
const char* Name(Kind kind);
std::optional<Kind> ParseKind(const std::string& name);
const std::vector<Kind>& AllKinds();

// nccl-tests' names: "float", "double", "half", "bfloat16", "int8" to "uint64"; "byte"; a few others are
// understood.
const char* Name(Datatype type);
std::optional<Datatype> ParseType(const std::string& name);
const std::vector<Datatype>& AllTypes();

// "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor".
const char* Name(RedOp op);
std::optional<RedOp> ParseOp(const std::string& name);
const std::vector<RedOp>& AllOps();

// Does it combine elements? Else it copies them, or has none.
constexpr bool Reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}
constexpr bool HasRoot(Kind kind) { return kind == Kind::kReduce || kind == Kind::kBroadcast; }
// Bytes cannot be reduced; bitwise and logical operations are of integers.
bool Possible(Kind kind, Datatype type, RedOp op);

// Their names, as "float, half".
std::string NamesOf(const std::vector<Datatype>& types);
std::string NamesOf(const std::vector<RedOp>& ops);

// One call of a group of `ranks` ranks, as rank `rank` makes it.
struct Job {
  Kind kind = Kind::kAllReduce;
  Datatype type = Datatype::kFloat32;
  RedOp op = RedOp::kSum;
  uint64_t count = 0;  // elements of one rank's share
  int root = 0;
  int rank = 0;
  int ranks = 1;
  float scale = 0;  // of the group (epic::Quantisation)
  int levels = 0;   // of blocks, if it travels as such; else 0

  uint64_t share_bytes() const { return count * ElementBytes(type); }
  // Of all shares, as nccl-tests count: what a size is.
  uint64_t total_bytes() const;
  // Of the buffers; a rank that does not send (receive) has 0.
  uint64_t send_bytes() const;
  uint64_t recv_bytes() const;
};

struct Buffers {
  uint8_t* send = nullptr;
  uint8_t* recv = nullptr;
};
// Both in one buffer of total_bytes().
Buffers InPlace(const Job& job, uint8_t* buffer);

Error Run(const Job& job, const Buffers& buffers, Communicator& comm);
Error Run(const Job& job, const Buffers& buffers, ParallelCommunicator& comm);
Error Start(const Job& job, const Buffers& buffers, Communicator& comm, Request* request);

// As how many levels of blocks the call travels in such a group; 0 if it does not.
int LevelsOf(const Job& job, const Quantisation& quantised);

// Fills what the rank sends.
void Fill(const Job& job, uint32_t run, uint8_t* send);
// Wrong elements of what the rank has received; 0 where it receives nothing. Of what travels in blocks
// *accuracy, if it is not null, says how exact it was.
uint64_t Wrong(const Job& job, uint32_t run, const uint8_t* recv, Accuracy* accuracy = nullptr);

// Bus bandwidth over algorithm bandwidth, by nccl-tests' conventions: what each link of a ring would carry.
double BusFactor(Kind kind, int ranks);

}  // namespace epic::perf
