/* A communicator's module, and what the binding needs of Open MPI. */
#include <stddef.h>
#include <stdlib.h>

#include "mpi/openmpi/coll_epic.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

static int Min(void* mpi_comm, int* value) {
  const CollEpicModule* const module = mpi_comm;
  return module->others.allreduce(MPI_IN_PLACE, value, 1, MPI_INT, MPI_MIN, module->hosts.comm,
                                  module->others.allreduce_module);
}

static int Broadcast(void* mpi_comm, void* data, size_t bytes, int root) {
  const CollEpicModule* const module = mpi_comm;
  return module->others.bcast(data, (int)bytes, MPI_BYTE, root, module->hosts.comm,
                              module->others.bcast_module);
}

static int ErrorCode(const char* text) { return EpicMpiErrorCode(MPI_ERR_OTHER, text); }

static int Place(void* mpi_comm, EpicMpiPlace* place) {
  CollEpicModule* const module = mpi_comm;
  const int error = EpicMpiHostsPlace(&module->hosts, place);
  if (error != MPI_SUCCESS || !module->hosts.several) return error;
  return EpicMpiLineOfComm(&module->line, &module->hosts);
}

/* The lowest rank on this rank's host. */
static int Leader(ompi_communicator_t* comm) {
  for (int rank = 0; rank < ompi_comm_rank(comm); ++rank) {
    if (OPAL_PROC_ON_LOCAL_NODE(ompi_comm_peer_lookup(comm, rank)->super.proc_flags)) return rank;
  }
  return ompi_comm_rank(comm);
}

static const CollEpicModule* ModuleOf(const EpicMpiHosts* hosts) {
  return (const CollEpicModule*)((const char*)hosts - offsetof(CollEpicModule, hosts));
}

int EpicMpiLeaders(const EpicMpiHosts* hosts, int* leaders) {
  const CollEpicModule* const module = ModuleOf(hosts);
  const int leader = Leader(hosts->comm);
  return module->others.allgather(&leader, 1, MPI_INT, leaders, 1, MPI_INT, hosts->comm,
                                  module->others.allgather_module);
}

void EpicMpiLocalMade(MPI_Comm local) {
  if (local->c_coll->coll_bcast == CollEpicBcast) {
    EpicMpiCommIgnore(((CollEpicModule*)local->c_coll->coll_bcast_module)->hosts.epic);
  }
}

/* Open MPI 4.1.4 compares MPI_UNSIGNED_LONG as signed numbers. */
void EpicMpiLocalKind(const EpicMpiCall* call, MPI_Datatype* type, MPI_Op* op) {
  (void)op;
  if (call->type == kEpicMpiUint64) *type = MPI_UINT64_T;
}

void EpicMpiWaitForStages(const EpicMpiHosts* hosts) { EpicMpiLineWait(&ModuleOf(hosts)->line); }

void EpicMpiMakeProgress(void) {
  EpicMpiProgressStages();
  opal_progress();
}

/* MPI_Test would make progress for one that has not ended, and call an error handler. */
int EpicMpiHasEnded(MPI_Request* request, int* error) {
  int flag;
  if (!REQUEST_COMPLETE(*request)) return 0;
  *error = ompi_request_test(request, &flag, MPI_STATUS_IGNORE);
  if (*error != MPI_SUCCESS) (void)ompi_request_free(request);
  *request = MPI_REQUEST_NULL;
  return 1;
}

static const EpicMpiFunctions functions = {.min = Min,
                                           .broadcast = Broadcast,
                                           .progress = opal_progress,
                                           .error_code = ErrorCode,
                                           .place = Place,
                                           .has_stages = 1};

static int Enable(mca_coll_base_module_t* base, ompi_communicator_t* comm) {
  CollEpicModule* const module = (CollEpicModule*)base;
#define MISSING(name) || comm->c_coll->coll_##name == NULL || comm->c_coll->coll_##name##_module == NULL
  if (0 COLL_EPIC_EACH(MISSING)) return OMPI_ERROR;
#undef MISSING
#define SAVE(name)                                                   \
  module->others.name = comm->c_coll->coll_##name;                   \
  module->others.name##_module = comm->c_coll->coll_##name##_module; \
  OBJ_RETAIN(module->others.name##_module);
  COLL_EPIC_EACH(SAVE)
#undef SAVE
  module->hosts.epic = EpicMpiCommNew(ompi_comm_rank(comm), ompi_comm_size(comm), &functions, module,
                                      mca_coll_epic_component.softnic);
  if (module->hosts.epic == NULL) return OMPI_ERR_OUT_OF_RESOURCE;
  EpicMpiCommKeepOut(module->hosts.epic, module->outside);
  return OMPI_SUCCESS;
}

static void Construct(CollEpicModule* module) {
  memset(&module->hosts, 0, sizeof module->hosts);
  module->line = (EpicMpiLine){.up = MPI_COMM_NULL, .down = MPI_COMM_NULL};
  module->own_lines = NULL;
  module->stalled = 0;
  module->stays = 0;
  memset(&module->others, 0, sizeof module->others);
}

static void FreeComm(MPI_Comm* comm) { (void)ompi_comm_free(comm); }

static void Destruct(CollEpicModule* module) {
  if (module->hosts.epic != NULL) EpicMpiCommFree(module->hosts.epic);
  EpicMpiLineEnd(&module->line, FreeComm);
  while (module->own_lines != NULL) {
    CollEpicOwnLine* const own = module->own_lines;
    module->own_lines = own->next;
    EpicMpiLineEnd(&own->line, FreeComm);
    free(own);
  }
  if (module->hosts.several) ompi_comm_free(&module->hosts.local);
  EpicMpiHostsFree(&module->hosts);
#define RELEASE(name) \
  if (module->others.name##_module != NULL) OBJ_RELEASE(module->others.name##_module);
  COLL_EPIC_EACH(RELEASE)
#undef RELEASE
}

OBJ_CLASS_INSTANCE(CollEpicModule, mca_coll_base_module_t, Construct, Destruct);

mca_coll_base_module_t* CollEpicQuery(ompi_communicator_t* comm, EpicMpiOutside outside, int* priority) {
  CollEpicModule* const module = OBJ_NEW(CollEpicModule);
  if (module == NULL) return NULL;
  *priority = mca_coll_epic_component.priority;
  module->hosts.comm = comm;
  module->outside = outside;
  module->super.coll_module_enable = Enable;
  module->super.coll_allreduce = CollEpicAllreduce;
  module->super.coll_reduce = CollEpicReduce;
  module->super.coll_bcast = CollEpicBcast;
  module->super.coll_allgather = CollEpicAllgather;
  module->super.coll_reduce_scatter_block = CollEpicReduceScatterBlock;
  module->super.coll_reduce_scatter = CollEpicReduceScatter;
  module->super.coll_barrier = CollEpicBarrier;
  CollEpicInstallRequests(&module->super);
  return &module->super;
}
