/* Calls of EPIC's under way, as requests of Open MPI's: completed from its progress, so that every function
 * that waits or tests takes them, beside others. */
#ifndef EPIC_MPI_OPENMPI_REQUESTS_H_
#define EPIC_MPI_OPENMPI_REQUESTS_H_

#include "mpi/openmpi/coll_epic.h"
#include "ompi/mca/coll/base/coll_base_util.h"

/* `count` elements at `buffer`. */
typedef struct {
  void* buffer;
  size_t count;
  ompi_datatype_t* type;
} CollEpicData;

/* In what it begins with Open MPI keeps the types that a nonblocking call needs, but not those of persistent
 * ones, which it takes for ended: the request keeps its own. */
typedef struct CollEpicRequest {
  ompi_coll_base_nbc_request_t super;
  CollEpicModule* module; /* kept with its communicator, also when the program has freed that */
  EpicMpiComm* epic;      /* the module's, or a persistent call's own */
  EpicMpiCall call;
  CollEpicData in, out; /* as the program gave them; Bcast has only `out`. Without a type they are bytes;
                           with one it is kept */
  int packs_in, unpacks_out;
  CollEpicBytes send, recv;  /* what EPIC has of them, while the call is under way */
  EpicMpiRequest* under_way; /* null, with `error`: the call could not be started */
  EpicMpiLine* line;    /* with several ranks on a host, by whoever has asked for the request: else null */
  EpicMpiStaged staged; /* of that line, in place of `under_way`; it is always started */
  int error;
  unsigned long stalled; /* of a persistent call: as the module's */
  struct CollEpicRequest* next;
} CollEpicRequest;
OBJ_CLASS_DECLARATION(CollEpicRequest);

/* A request for a call that EPIC makes, with buffers as MPI has them; `send` in place is null. Null without
 * memory, in which case the group has ended. `own`: the communicator of a persistent call, or null. */
CollEpicRequest* CollEpicRequestNew(CollEpicModule* module, const EpicMpiCall* call, EpicMpiComm* own,
                                    CollEpicData in, CollEpicData out);
/* Starts it. An MPI error code. */
int CollEpicRequestStart(CollEpicRequest* request);
/* Ends a request that has not been started. */
void CollEpicRequestDrop(CollEpicRequest* request);

/* Before the component is closed. */
void CollEpicRequestsClose(void);

#endif
