// The C interface of ParallelCommunicator.
#include <chrono>
#include <memory>
#include <string>

#include "commlib/c_api_types.h"
#include "epic/epic_c.h"
#include "epic/parallel.h"

struct epicParallelComm {
  epic::ParallelCommunicator comm;
  std::string path_reason;  // given out
};

using epic::internal::Convert;
using epic::internal::Invalid;
using epic::internal::kOps;
using epic::internal::kTypes;
using epic::internal::Result;

epicResult_t epicParallelInitRank(epicParallelComm_t* comm, int nranks, const char* group,
                                  const char* manager, int rank, const char* host) {
  if (comm == nullptr) return Invalid("comm is null");
  *comm = nullptr;
  const epic::Options options = epic::internal::OptionsOf(nranks, group, manager, rank);
  auto result = std::make_unique<epicParallelComm>();
  if (const epic::Error e = result->comm.Init(options, host != nullptr ? host : ""); !e.ok())
    return Result(e);
  result->path_reason = result->comm.ring().Path().reason;
  *comm = result.release();
  return epicSuccess;
}

epicResult_t epicParallelDestroy(epicParallelComm_t comm) { return epic::internal::Destroy(comm); }

epicResult_t epicParallelAbort(epicParallelComm_t comm) { return epic::internal::Abort(comm); }

epicResult_t epicParallelGetAsyncError(epicParallelComm_t comm, epicResult_t* async_error) {
  return epic::internal::GetAsyncError(comm, async_error);
}

epicResult_t epicParallelRanks(epicParallelComm_t comm, int* rank, int* count, int* local_rank,
                               int* local_count) {
  if (comm == nullptr) return Invalid("comm is null");
  if (rank != nullptr) *rank = comm->comm.rank();
  if (count != nullptr) *count = comm->comm.size();
  if (local_rank != nullptr) *local_rank = comm->comm.local_rank();
  if (local_count != nullptr) *local_count = comm->comm.local_size();
  return epicSuccess;
}

epicResult_t epicParallelPath(epicParallelComm_t comm, epicPath_t* path, const char** reason) {
  if (comm == nullptr || path == nullptr) return Invalid("an argument is null");
  *path = static_cast<epicPath_t>(comm->comm.ring().Path().path);
  if (reason != nullptr) *reason = comm->path_reason.c_str();
  return epicSuccess;
}

epicResult_t epicParallelSetTimeout(epicParallelComm_t comm, double seconds) {
  return epic::internal::SetTimeout(comm, seconds);
}

epicResult_t epicParallelAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                   epicDataType_t datatype, epicRedOp_t op, epicParallelComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  epic::Datatype type;
  epic::RedOp redop;
  if (const epic::Error e = Convert("type", datatype, kTypes, &type); !e.ok()) return Result(e);
  if (const epic::Error e = Convert("operation", op, kOps, &redop); !e.ok()) return Result(e);
  return Result(epic::AllReduce(sendbuff, recvbuff, count, type, redop, comm->comm));
}
