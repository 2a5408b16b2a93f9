/* A collective call of an MPI program, as the front ends describe it to the rest: in C, for they are C.
 * What is here of an argument MPI demands to be the same on every rank, so that all decide alike. */
#ifndef EPIC_MPI_CORE_CALL_H_
#define EPIC_MPI_CORE_CALL_H_

#include <stdint.h>

typedef enum {
  kEpicMpiAllreduce,
  kEpicMpiReduce,
  kEpicMpiBcast,
  kEpicMpiAllgather,
  kEpicMpiReduceScatterBlock,
  kEpicMpiReduceScatter,
  kEpicMpiBarrier,
  kEpicMpiCollectives /* how many there are */
} EpicMpiCollective;

/* What elements are summed as; kEpicMpiNoType is what EPIC does not reduce. Copies have bytes and no type. */
typedef enum {
  kEpicMpiNoType,
  kEpicMpiFloat32,
  kEpicMpiFloat64,
  kEpicMpiInt8,
  kEpicMpiInt16,
  kEpicMpiInt32,
  kEpicMpiInt64,
  kEpicMpiUint8,
  kEpicMpiUint16,
  kEpicMpiUint32,
  kEpicMpiUint64,
  kEpicMpiTypes
} EpicMpiType;

typedef enum {
  kEpicMpiNoOp, /* what EPIC does not know */
  kEpicMpiSum,
  kEpicMpiProduct,
  kEpicMpiMin,
  kEpicMpiMax,
  kEpicMpiBitAnd,
  kEpicMpiBitOr,
  kEpicMpiBitXor,
  kEpicMpiLogicalAnd,
  kEpicMpiLogicalOr,
  kEpicMpiOps
} EpicMpiOp;

/* Communicators that can never have a group, which is the same on every rank of them. */
typedef enum {
  kEpicMpiInside, /* one that could */
  kEpicMpiInter,
  kEpicMpiOneRank,
  kEpicMpiSeveralJobs
} EpicMpiOutside;

typedef struct {
  EpicMpiCollective collective;
  EpicMpiType type; /* of calls that reduce */
  EpicMpiOp op;     /* of these, too */
  int root;         /* of Reduce and Bcast */
  int equal_counts; /* of Reduce_scatter: whether all ranks get as many elements */
  int64_t count; /* elements, of calls that copy bytes; of one rank's part in Allgather and Reduce_scatter */
  int64_t bytes; /* of these */
} EpicMpiCall;

#endif
