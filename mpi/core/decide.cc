#include "mpi/core/decide.h"

namespace epic::mpi {
namespace {

bool Reduces(EpicMpiCollective collective) {
  return collective == kEpicMpiAllreduce || collective == kEpicMpiReduce ||
         collective == kEpicMpiReduceScatterBlock || collective == kEpicMpiReduceScatter;
}

bool OfIntegersOnly(EpicMpiOp op) { return op >= kEpicMpiBitAnd; }
bool IsFloat(EpicMpiType type) { return type == kEpicMpiFloat32 || type == kEpicMpiFloat64; }

}  // namespace

bool HasParts(EpicMpiCollective collective) {
  return collective == kEpicMpiAllgather || collective == kEpicMpiReduceScatterBlock ||
         collective == kEpicMpiReduceScatter;
}

const char* TextOf(Reason reason) {
  switch (reason) {
    case Reason::kEpic:
      return "by EPIC";
    case Reason::kInter:
      return "an intercommunicator";
    case Reason::kOneRank:
      return "a communicator of one rank";
    case Reason::kSeveralJobs:
      return "a communicator with ranks of several jobs";
    case Reason::kNothing:
      return "no elements";
    case Reason::kType:
      return "a type that EPIC does not reduce";
    case Reason::kOp:
      return "an operation that EPIC does not have";
    case Reason::kFloatOp:
      return "an operation of integers on other numbers";
    case Reason::kUnequalCounts:
      return "counts that differ from rank to rank";
    case Reason::kTooSmall:
      return "smaller than EPIC_MPI_MIN_BYTES";
    case Reason::kTooLarge:
      return "larger than EPIC_MPI_MAX_BYTES";
    case Reason::kUnevenHosts:
      return "hosts with different numbers of ranks";
    case Reason::kNoGroupYet:
      return "nonblocking, before the first blocking call";
    case Reason::kSharedHosts:
      return "nonblocking or persistent, with several ranks on a host";
    case Reason::kTooLongInStages:
      return "2 GiB or more, nonblocking or persistent, with several ranks on a host";
    case Reason::kTooFew:
      return "before call EPIC_MPI_FROM_CALL of a communicator";
    case Reason::kBeingMade:
      return "while a group is made";
    case Reason::kManyPersistent:
      return "more persistent calls than a communicator has groups for";
    case Reason::kCount:
      break;
  }
  return "";
}

const char* NameOf(EpicMpiCollective collective) {
  switch (collective) {
    case kEpicMpiAllreduce:
      return "MPI_Allreduce";
    case kEpicMpiReduce:
      return "MPI_Reduce";
    case kEpicMpiBcast:
      return "MPI_Bcast";
    case kEpicMpiAllgather:
      return "MPI_Allgather";
    case kEpicMpiReduceScatterBlock:
      return "MPI_Reduce_scatter_block";
    case kEpicMpiReduceScatter:
      return "MPI_Reduce_scatter";
    case kEpicMpiBarrier:
      return "MPI_Barrier";
    case kEpicMpiCollectives:
      break;
  }
  return "";
}

int64_t WholeBytes(const EpicMpiCall& call, int ranks) {
  return HasParts(call.collective) ? call.bytes * ranks : call.bytes;
}

Reason ReasonOf(EpicMpiOutside outside) {
  switch (outside) {
    case kEpicMpiInter:
      return Reason::kInter;
    case kEpicMpiOneRank:
      return Reason::kOneRank;
    case kEpicMpiSeveralJobs:
      return Reason::kSeveralJobs;
    case kEpicMpiInside:
      break;
  }
  return Reason::kEpic;
}

Reason Decide(const EpicMpiCall& call, int ranks, const Settings& settings) {
  if (call.collective == kEpicMpiBarrier) return Reason::kEpic;
  if (call.collective == kEpicMpiReduceScatter && call.equal_counts == 0) return Reason::kUnequalCounts;
  if (call.count <= 0 || call.bytes <= 0) return Reason::kNothing;
  if (Reduces(call.collective)) {
    if (call.op <= kEpicMpiNoOp || call.op >= kEpicMpiOps) return Reason::kOp;
    if (call.type <= kEpicMpiNoType || call.type >= kEpicMpiTypes) return Reason::kType;
    if (OfIntegersOnly(call.op) && IsFloat(call.type)) return Reason::kFloatOp;
  }
  const auto bytes = static_cast<uint64_t>(WholeBytes(call, ranks));
  if (bytes < settings.min_bytes) return Reason::kTooSmall;
  if (bytes > settings.max_bytes) return Reason::kTooLarge;
  return Reason::kEpic;
}

}  // namespace epic::mpi
