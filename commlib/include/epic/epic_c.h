/* EPIC: collectives that the network computes. The C interface, in the manner of NCCL's; epic.h says what the
 * functions do, and the rules for threads, forks and errors are the same.
 *
 * Who owns what: a function that gives something out (a communicator, a request, a registration) sets it to
 * null if it fails, and then has kept nothing: there is nothing to give back. What it gave out is the
 * caller's until given to the function that releases it, once: epicCommDestroy, epicWait,
 * epicCommDeregister. Strings are copied; buffers stay the caller's, and a call may use them until it has
 * ended. */
#ifndef EPIC_EPIC_C_H_
#define EPIC_EPIC_C_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EPIC_C_API __attribute__((visibility("default")))
#else
#define EPIC_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct epicComm* epicComm_t;
typedef struct epicRequest* epicRequest_t;

/* The values are those of epic::ErrorCode. */
typedef enum {
  epicSuccess = 0,
  epicInvalidArgument = 1,
  epicManagerUnreachable = 2,
  epicNotFound = 3,
  epicAlreadyExists = 4,
  epicDuplicateRank = 5,
  epicSizeMismatch = 6,
  epicJoinTimeout = 7,
  epicNoTree = 8,
  epicNoResource = 9,
  epicMtu = 10,
  epicMismatch = 11,
  epicRankLost = 12,
  epicSwitchLost = 13,
  epicAborted = 14,
  epicTimeout = 15,
  epicUnsupported = 16,
  epicTransport = 17,
  epicManagerLost = 18,
  epicInternalError = 19,
  epicLinkLost = 20,
  epicFallbackLost = 21,
  epicNotFinite = 30
} epicResult_t;

/* The values are NCCL's where NCCL has the type or the operation. Others are refused with epicUnsupported.
 * epicUint8 can also be what has no type: bytes to be copied. */
typedef enum {
  epicInt8 = 0,
  epicUint8 = 1,
  epicInt32 = 2,
  epicUint32 = 3,
  epicInt64 = 4,
  epicUint64 = 5,
  epicFloat16 = 6,
  epicFloat32 = 7,
  epicFloat64 = 8,
  epicBfloat16 = 9,
  epicInt16 = 64,
  epicUint16 = 65
} epicDataType_t;
/* The bitwise (epicBand, epicBor, epicBxor) and the logical ones (epicLand, epicLor) are of integers; of a
 * floating-point type they are refused with epicUnsupported, as epic.h says. */
typedef enum {
  epicSum = 0,
  epicProd = 1,
  epicMax = 2,
  epicMin = 3,
  epicAvg = 4,
  epicBand = 64,
  epicBor = 65,
  epicBxor = 66,
  epicLand = 67,
  epicLor = 68
} epicRedOp_t;

/* A name for the code. Never null. */
EPIC_C_API const char* epicGetErrorString(epicResult_t result);
/* What the last failed call of this thread said, naming ranks, hosts and switches. Never null; valid until
 * the thread's next call. */
EPIC_C_API const char* epicGetLastError(void);

/* Joins a group. group and manager may be null, nranks and rank -1: then the environment decides, as in
 * epic.h.
 *
 * If it fails, whenever that is, *comm is null: this rank is in no group, and its queue pair, memory and
 * connections have been given free. Nothing must be destroyed, and the same variable can be used to try
 * again. What *comm was before is overwritten, not released. */
EPIC_C_API epicResult_t epicCommInitRank(epicComm_t* comm, int nranks, const char* group, const char* manager,
                                         int rank);
/* Collective; comm is released, whatever is returned, and must not be used any more. Its registrations must
 * have been released before, its requests may be later: they have ended. */
EPIC_C_API epicResult_t epicCommDestroy(epicComm_t comm);
/* Ends all calls of all ranks; comm must still be destroyed. */
EPIC_C_API epicResult_t epicCommAbort(epicComm_t comm);
/* *async_error is what ended the group, epicSuccess while it works. */
EPIC_C_API epicResult_t epicCommGetAsyncError(epicComm_t comm, epicResult_t* async_error);
EPIC_C_API epicResult_t epicCommCount(epicComm_t comm, int* count);
EPIC_C_API epicResult_t epicCommUserRank(epicComm_t comm, int* rank);
/* Which way the group's calls go, and if by the hosts, why; else "". reason may be null; the string is the
 * communicator's, valid until that is destroyed. Calls that the switches lack, and a large ReduceScatter, may
 * go by the hosts all the same (epic.h, PathOf). */
typedef enum { epicPathNetwork = 2, epicPathHosts = 3 } epicPath_t;
EPIC_C_API epicResult_t epicCommPath(epicComm_t comm, epicPath_t* path, const char** reason);
/* The names that epic.h has: "hosts", "float32", "product"; of what is none of them "unknown". Never null. */
EPIC_C_API const char* epicGetPathString(epicPath_t path);
EPIC_C_API const char* epicGetDataTypeString(epicDataType_t datatype);
EPIC_C_API const char* epicGetRedOpString(epicRedOp_t op);
/* What FP32 is multiplied by to be summed as INT32 (EPIC_QUANTISE, or as the group was created), 0 if it is
 * not, and how many elements of this rank's inputs, and of the results that it has received, have come to a
 * limit of INT32 so far. Each of the pointers may be null. */
EPIC_C_API epicResult_t epicCommQuantised(epicComm_t comm, float* scale, uint64_t* saturated_inputs,
                                          uint64_t* saturated_results);
/* Whether larger sums of floating-point numbers travel as blocks of INT8 (EPIC_QUANTISE=int8, or as the group
 * was created): 1 or 0. epicCommSetQuantise: whether calls made from now on may, as
 * Communicator::SetQuantise; the same on all ranks. */
EPIC_C_API epicResult_t epicCommInt8(epicComm_t comm, int* int8);
EPIC_C_API epicResult_t epicCommSetQuantise(epicComm_t comm, int on);
/* The priority of calls made from now on, as Communicator::SetPriority: epicInvalidArgument of NaN, an
 * infinity and what is negative. */
EPIC_C_API epicResult_t epicCommSetPriority(epicComm_t comm, double priority);
/* Whether other groups own the group's memory in switches, too, how many calls so far were granted it, and
 * how many went by the hosts because another group had it. Each of the pointers may be null. */
EPIC_C_API epicResult_t epicCommShared(epicComm_t comm, int* shares, uint64_t* granted, uint64_t* busy);
/* Deadline of the calls made from now on. */
EPIC_C_API epicResult_t epicCommSetTimeout(epicComm_t comm, double seconds);

EPIC_C_API epicResult_t epicAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                      epicDataType_t datatype, epicRedOp_t op, epicComm_t comm);
EPIC_C_API epicResult_t epicReduce(const void* sendbuff, void* recvbuff, size_t count,
                                   epicDataType_t datatype, epicRedOp_t op, int root, epicComm_t comm);
EPIC_C_API epicResult_t epicBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                      epicDataType_t datatype, int root, epicComm_t comm);
EPIC_C_API epicResult_t epicReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                          epicDataType_t datatype, epicRedOp_t op, epicComm_t comm);
EPIC_C_API epicResult_t epicAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                      epicDataType_t datatype, epicComm_t comm);
EPIC_C_API epicResult_t epicBarrier(epicComm_t comm);

/* Return at once; *request must be given to epicWait, once. If the call is refused *request is null, and the
 * buffers are not used. */
EPIC_C_API epicResult_t epicAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                           epicDataType_t datatype, epicRedOp_t op, epicComm_t comm,
                                           epicRequest_t* request);
EPIC_C_API epicResult_t epicReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                        epicDataType_t datatype, epicRedOp_t op, int root, epicComm_t comm,
                                        epicRequest_t* request);
EPIC_C_API epicResult_t epicBroadcastAsync(const void* sendbuff, void* recvbuff, size_t count,
                                           epicDataType_t datatype, int root, epicComm_t comm,
                                           epicRequest_t* request);
EPIC_C_API epicResult_t epicReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t recvcount,
                                               epicDataType_t datatype, epicRedOp_t op, epicComm_t comm,
                                               epicRequest_t* request);
EPIC_C_API epicResult_t epicAllGatherAsync(const void* sendbuff, void* recvbuff, size_t sendcount,
                                           epicDataType_t datatype, epicComm_t comm, epicRequest_t* request);
EPIC_C_API epicResult_t epicBarrierAsync(epicComm_t comm, epicRequest_t* request);
/* *done is 1 if the call has ended, else 0. */
EPIC_C_API epicResult_t epicTest(epicRequest_t request, int* done);
/* Blocks until the call has ended, returns how, and releases the request. */
EPIC_C_API epicResult_t epicWait(epicRequest_t request);

/* Memory that calls use without copying and without registering it for each call, from now until *handle is
 * given to epicCommDeregister; it must not be given free before. If it is refused *handle is null. */
EPIC_C_API epicResult_t epicCommRegister(epicComm_t comm, void* buff, size_t size, void** handle);
EPIC_C_API epicResult_t epicCommDeregister(epicComm_t comm, void* handle);

/* AllReduce of several ranks on each host, each of which sends a share by the host's link; parallel.h says how.
 * As there all ranks call each function, and a communicator that failed to be made is null. */
typedef struct epicParallelComm* epicParallelComm_t;
/* As epicCommInitRank. host: ranks that give the same are on one host; null: the library finds out.
 * epicInvalidArgument, on every rank, if hosts have different numbers of ranks. */
EPIC_C_API epicResult_t epicParallelInitRank(epicParallelComm_t* comm, int nranks, const char* group,
                                             const char* manager, int rank, const char* host);
/* Collective; comm is released, whatever is returned, and must not be used any more. */
EPIC_C_API epicResult_t epicParallelDestroy(epicParallelComm_t comm);
/* Ends all calls of all ranks; comm must still be destroyed. */
EPIC_C_API epicResult_t epicParallelAbort(epicParallelComm_t comm);
EPIC_C_API epicResult_t epicParallelGetAsyncError(epicParallelComm_t comm, epicResult_t* async_error);
/* Of all ranks, and among those of its host. Each of the pointers may be null. */
EPIC_C_API epicResult_t epicParallelRanks(epicParallelComm_t comm, int* rank, int* count, int* local_rank,
                                          int* local_count);
/* Which way the calls of this rank's ring go. reason as epicCommPath's. */
EPIC_C_API epicResult_t epicParallelPath(epicParallelComm_t comm, epicPath_t* path, const char** reason);
/* Deadline of the calls made from now on, all stages of each together. */
EPIC_C_API epicResult_t epicParallelSetTimeout(epicParallelComm_t comm, double seconds);
EPIC_C_API epicResult_t epicParallelAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                              epicDataType_t datatype, epicRedOp_t op,
                                              epicParallelComm_t comm);

#ifdef __cplusplus
}
#endif

#endif /* EPIC_EPIC_C_H_ */
