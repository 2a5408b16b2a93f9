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
  epic::Options options;
  options.group = group != nullptr ? group : "";
  options.manager = manager != nullptr ? manager : "";
  options.rank = rank;
  options.size = nranks > 0 ? nranks : -1;
  auto result = std::make_unique<epicParallelComm>();
  if (const epic::Error e = result->comm.Init(options, host != nullptr ? host : ""); !e.ok())
    return Result(e);
  result->path_reason = result->comm.ring().Path().reason;
  *comm = result.release();
  return epicSuccess;
}

epicResult_t epicParallelDestroy(epicParallelComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  const std::unique_ptr<epicParallelComm> owned(comm);
  return Result(owned->comm.Destroy());
}

epicResult_t epicParallelAbort(epicParallelComm_t comm) {
  if (comm == nullptr) return Invalid("comm is null");
  comm->comm.Abort();
  return epicSuccess;
}

epicResult_t epicParallelGetAsyncError(epicParallelComm_t comm, epicResult_t* async_error) {
  if (comm == nullptr || async_error == nullptr) return Invalid("an argument is null");
  *async_error = Result(comm->comm.AsyncError());
  return epicSuccess;
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
  if (comm == nullptr || !(seconds > 0 && seconds < 1e9))
    return Invalid("comm is null or the time is not above 0");
  comm->comm.SetTimeout(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000) + 1));
  return epicSuccess;
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
