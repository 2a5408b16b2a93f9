/* The collectives that do not wait, nonblocking and persistent: described here, under way in requests.c. */
#include <stdlib.h>

#include "mpi/openmpi/requests.h"

/* A call of EPIC's with its buffers; where `in` is `out`, it is in place. */
typedef struct {
  EpicMpiCall call;
  CollEpicData in, out;
} Described;

static CollEpicData DataAt(const void* buffer, int count, ompi_datatype_t* type) {
  return (CollEpicData){.buffer = (void*)buffer, .count = (size_t)count, .type = type};
}

/* Buffers of a call that reduces: EPIC has no types with gaps. */
static Described Reducing(EpicMpiCall call, int root, const void* sbuf, void* rbuf) {
  call.root = root;
  return (Described){
      .call = call, .in = {.buffer = sbuf == MPI_IN_PLACE ? rbuf : (void*)sbuf}, .out = {.buffer = rbuf}};
}

static Described Broadcast(void* buffer, int count, ompi_datatype_t* type, int root) {
  Described it = {.call = CollEpicCallOf(kEpicMpiBcast, count, type), .out = DataAt(buffer, count, type)};
  it.call.root = root;
  return it;
}

static Described Gathering(const void* sbuf, int scount, ompi_datatype_t* stype, void* rbuf, int rcount,
                           ompi_datatype_t* rtype, ompi_communicator_t* comm) {
  Described it = {.call = CollEpicCallOf(kEpicMpiAllgather, rcount, rtype),
                  .in = DataAt(sbuf, scount, stype)};
  if (sbuf == MPI_IN_PLACE) it.in = DataAt(CollEpicOwnPart(rbuf, rcount, rtype, comm), rcount, rtype);
  it.out = DataAt(rbuf, rcount, rtype);
  it.out.count *= (size_t)ompi_comm_size(comm);
  return it;
}

/* Open MPI itself makes such calls when it makes communicators, from its progress, so that ranks may have
 * them in different orders among the program's. They are not counted either, as it cannot be told whose they
 * are. Of a Bcast ranks have only the bytes in common, not the count. */
static int MayBeTheMpisOwn(const EpicMpiCall* call) {
  if (call->bytes != (int64_t)sizeof(int)) return 0;
  const int reduces = call->collective == kEpicMpiAllreduce || call->collective == kEpicMpiReduce;
  return call->collective == kEpicMpiBcast || (reduces && call->count == 1);
}

/* With several ranks on a host, of a call for which there is not even a request: the host's other ranks hear
 * of it in this function only. */
static void TellHost(CollEpicModule* module, const EpicMpiCall* call) {
  EpicMpiStaged staged;
  int error;
  EpicMpiStageCall(&module->line, call, NULL, NULL, kEpicMpiNoMemory, &staged);
  while (!EpicMpiStagedHasEnded(&staged, &error)) EpicMpiMakeProgress();
}

/* Starts a nonblocking call: 0 with the request, an MPI error code, or kEpicMpiFallBack. */
static int Begin(const Described* it, ompi_request_t** out, mca_coll_base_module_t* base) {
  CollEpicModule* const module = (CollEpicModule*)base;
  if (!CollEpicIsTheProgramsOwn() || MayBeTheMpisOwn(&it->call) ||
      !EpicMpiTakesRequest(module->hosts.epic, &it->call))
    return kEpicMpiFallBack;
  CollEpicRequest* const request = CollEpicRequestNew(module, &it->call, NULL, it->in, it->out);
  if (request == NULL && module->hosts.several) TellHost(module, &it->call);
  if (request == NULL) return MPI_ERR_NO_MEM;
  if (module->hosts.several) request->line = &module->line;
  const int error = CollEpicRequestStart(request);
  if (error != MPI_SUCCESS)
    CollEpicRequestDrop(request);
  else
    *out = &request->super.super;
  return error;
}

/* A persistent call's line; waits for the ranks of the host. */
static int OwnLine(CollEpicModule* module, EpicMpiComm* epic, EpicMpiLine** line) {
  CollEpicOwnLine* const own = malloc(sizeof *own);
  if (own == NULL) return MPI_ERR_NO_MEM;
  /* What duplicates a communicator is a collective among those of calls before it. */
  EpicMpiLineWait(&module->line);
  const int error = EpicMpiLineOfPersistent(&own->line, &module->hosts, epic);
  own->next = module->own_lines;
  module->own_lines = own;
  *line = &own->line;
  return error;
}

/* Makes a persistent call, which waits for all ranks; returns as above. */
static int Make(const Described* it, ompi_request_t** out, mca_coll_base_module_t* base) {
  CollEpicModule* const module = (CollEpicModule*)base;
  int error;
  EpicMpiComm* const own = EpicMpiCommOfPersistent(module->hosts.epic, &it->call, &error);
  if (own == NULL) return error != 0 ? error : kEpicMpiFallBack;
  EpicMpiLine* line = NULL;
  if (module->hosts.several && (error = OwnLine(module, own, &line)) != MPI_SUCCESS) return error;
  CollEpicRequest* const request = CollEpicRequestNew(module, &it->call, own, it->in, it->out);
  if (request == NULL) return MPI_ERR_NO_MEM;
  request->line = line;
  *out = &request->super.super;
  return MPI_SUCCESS;
}

/* What the functions of coll.h end with, and what those of other components are called by. */
#define REQUEST ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module
#define INIT \
  ompi_communicator_t *comm, ompi_info_t *info, ompi_request_t **request, mca_coll_base_module_t *module
#define OTHERS const CollEpicOthers* const others = &((CollEpicModule*)module)->others

static int Iallreduce(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op,
                      REQUEST) {
  const Described it = Reducing(CollEpicReductionOf(kEpicMpiAllreduce, count, type, op), 0, sbuf, rbuf);
  const int error = Begin(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->iallreduce(sbuf, rbuf, count, type, op, comm, request, others->iallreduce_module);
}

static int AllreduceInit(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op,
                         INIT) {
  const Described it = Reducing(CollEpicReductionOf(kEpicMpiAllreduce, count, type, op), 0, sbuf, rbuf);
  const int error = Make(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->allreduce_init(sbuf, rbuf, count, type, op, comm, info, request,
                                others->allreduce_init_module);
}

static int Ireduce(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op, int root,
                   REQUEST) {
  const Described it = Reducing(CollEpicReductionOf(kEpicMpiReduce, count, type, op), root, sbuf, rbuf);
  const int error = Begin(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->ireduce(sbuf, rbuf, count, type, op, root, comm, request, others->ireduce_module);
}

static int ReduceInit(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op, int root,
                      INIT) {
  const Described it = Reducing(CollEpicReductionOf(kEpicMpiReduce, count, type, op), root, sbuf, rbuf);
  const int error = Make(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->reduce_init(sbuf, rbuf, count, type, op, root, comm, info, request,
                             others->reduce_init_module);
}

static int Ibcast(void* buffer, int count, ompi_datatype_t* type, int root, REQUEST) {
  const Described it = Broadcast(buffer, count, type, root);
  const int error = Begin(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->ibcast(buffer, count, type, root, comm, request, others->ibcast_module);
}

static int BcastInit(void* buffer, int count, ompi_datatype_t* type, int root, INIT) {
  const Described it = Broadcast(buffer, count, type, root);
  const int error = Make(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->bcast_init(buffer, count, type, root, comm, info, request, others->bcast_init_module);
}

static int Iallgather(const void* sbuf, int scount, ompi_datatype_t* stype, void* rbuf, int rcount,
                      ompi_datatype_t* rtype, REQUEST) {
  const Described it = Gathering(sbuf, scount, stype, rbuf, rcount, rtype, comm);
  const int error = Begin(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->iallgather(sbuf, scount, stype, rbuf, rcount, rtype, comm, request,
                            others->iallgather_module);
}

static int AllgatherInit(const void* sbuf, int scount, ompi_datatype_t* stype, void* rbuf, int rcount,
                         ompi_datatype_t* rtype, INIT) {
  const Described it = Gathering(sbuf, scount, stype, rbuf, rcount, rtype, comm);
  const int error = Make(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->allgather_init(sbuf, scount, stype, rbuf, rcount, rtype, comm, info, request,
                                others->allgather_init_module);
}

static int IreduceScatterBlock(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op,
                               REQUEST) {
  const Described it =
      Reducing(CollEpicReductionOf(kEpicMpiReduceScatterBlock, count, type, op), 0, sbuf, rbuf);
  const int error = Begin(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->ireduce_scatter_block(sbuf, rbuf, count, type, op, comm, request,
                                       others->ireduce_scatter_block_module);
}

static int ReduceScatterBlockInit(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type,
                                  ompi_op_t* op, INIT) {
  const Described it =
      Reducing(CollEpicReductionOf(kEpicMpiReduceScatterBlock, count, type, op), 0, sbuf, rbuf);
  const int error = Make(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->reduce_scatter_block_init(sbuf, rbuf, count, type, op, comm, info, request,
                                           others->reduce_scatter_block_init_module);
}

static int IreduceScatter(const void* sbuf, void* rbuf, const int* counts, ompi_datatype_t* type,
                          ompi_op_t* op, REQUEST) {
  const Described it = Reducing(CollEpicReduceScatterOf(counts, type, op, comm), 0, sbuf, rbuf);
  const int error = Begin(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->ireduce_scatter(sbuf, rbuf, counts, type, op, comm, request, others->ireduce_scatter_module);
}

static int ReduceScatterInit(const void* sbuf, void* rbuf, const int* counts, ompi_datatype_t* type,
                             ompi_op_t* op, INIT) {
  const Described it = Reducing(CollEpicReduceScatterOf(counts, type, op, comm), 0, sbuf, rbuf);
  const int error = Make(&it, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->reduce_scatter_init(sbuf, rbuf, counts, type, op, comm, info, request,
                                     others->reduce_scatter_init_module);
}

static const Described barrier = {.call = {.collective = kEpicMpiBarrier}};

static int Ibarrier(REQUEST) {
  const int error = Begin(&barrier, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->ibarrier(comm, request, others->ibarrier_module);
}

static int BarrierInit(INIT) {
  const int error = Make(&barrier, request, module);
  if (error != kEpicMpiFallBack) return error;
  OTHERS;
  return others->barrier_init(comm, info, request, others->barrier_init_module);
}

void CollEpicInstallRequests(mca_coll_base_module_t* module) {
  module->coll_iallreduce = Iallreduce;
  module->coll_ireduce = Ireduce;
  module->coll_ibcast = Ibcast;
  module->coll_iallgather = Iallgather;
  module->coll_ireduce_scatter_block = IreduceScatterBlock;
  module->coll_ireduce_scatter = IreduceScatter;
  module->coll_ibarrier = Ibarrier;
  module->coll_allreduce_init = AllreduceInit;
  module->coll_reduce_init = ReduceInit;
  module->coll_bcast_init = BcastInit;
  module->coll_allgather_init = AllgatherInit;
  module->coll_reduce_scatter_block_init = ReduceScatterBlockInit;
  module->coll_reduce_scatter_init = ReduceScatterInit;
  module->coll_barrier_init = BarrierInit;
}
