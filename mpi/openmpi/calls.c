/* The collectives: what MPI says of buffers and counts, as epic.h says it. What EPIC does not take goes to
 * the functions that the communicator would have without us, with the arguments as they came. */
#include <stdlib.h>

#include "mpi/openmpi/coll_epic.h"
#include "ompi/proc/proc.h"
#include "ompi/runtime/mpiruntime.h"

int CollEpicIsTheProgramsOwn(void) { return ompi_mpi_state >= OMPI_MPI_STATE_INIT_COMPLETED; }

/* Whether EPIC makes the call. Otherwise `error` is that of an MPI function, and the call is to end with it,
 * or 0. */
static int Takes(mca_coll_base_module_t* module, const EpicMpiCall* call, int* error) {
  *error = 0;
  if (!CollEpicIsTheProgramsOwn()) return 0;
  return EpicMpiTakes(((CollEpicModule*)module)->hosts.epic, call, error);
}

static int Run(mca_coll_base_module_t* module, const EpicMpiCall* call, const void* send, void* recv) {
  return EpicMpiRun(((CollEpicModule*)module)->hosts.epic, call, send, recv);
}

static int Reduce(mca_coll_base_module_t* module, const EpicMpiCall* call, const void* sbuf, void* rbuf,
                  ompi_datatype_t* type, ompi_op_t* op) {
  EpicMpiHosts* const hosts = &((CollEpicModule*)module)->hosts;
  const void* const in = sbuf == MPI_IN_PLACE ? rbuf : sbuf;
  return hosts->several ? EpicMpiHostsReduce(hosts, call, in, rbuf, type, op) : Run(module, call, in, rbuf);
}

static int Fail(mca_coll_base_module_t* module, const EpicMpiCall* call, const char* why_not) {
  return EpicMpiHostsFail(&((CollEpicModule*)module)->hosts, call, why_not);
}

EpicMpiCall CollEpicCallOf(EpicMpiCollective collective, int64_t count, const ompi_datatype_t* type) {
  EpicMpiCall call = {.collective = collective, .equal_counts = 1, .count = count};
  size_t size;
  ompi_datatype_type_size(type, &size);
  call.bytes = count * (int64_t)size;
  return call;
}

int CollEpicIsPart(const EpicMpiCall* call, size_t count, const ompi_datatype_t* type) {
  size_t size;
  ompi_datatype_type_size(type, &size);
  return count * size == (size_t)call->bytes;
}

EpicMpiCall CollEpicReductionOf(EpicMpiCollective collective, int64_t count, const ompi_datatype_t* type,
                                const ompi_op_t* op) {
  EpicMpiCall call = CollEpicCallOf(collective, count, type);
  call.type = CollEpicTypeOf(type);
  call.op = CollEpicOpOf(op);
  return call;
}

EpicMpiCall CollEpicReduceScatterOf(const int* counts, const ompi_datatype_t* type, const ompi_op_t* op,
                                    ompi_communicator_t* comm) {
  EpicMpiCall call = CollEpicReductionOf(kEpicMpiReduceScatter, counts[0], type, op);
  for (int rank = 1; rank < ompi_comm_size(comm); ++rank) {
    if (counts[rank] != counts[0]) call.equal_counts = 0;
  }
  return call;
}

void* CollEpicOwnPart(void* buffer, int count, ompi_datatype_t* type, ompi_communicator_t* comm) {
  ptrdiff_t lower, extent;
  ompi_datatype_get_extent(type, &lower, &extent);
  return (char*)buffer + (ptrdiff_t)ompi_comm_rank(comm) * count * extent;
}

int CollEpicAllreduce(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op,
                      ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  const EpicMpiCall call = CollEpicReductionOf(kEpicMpiAllreduce, count, type, op);
  int error;
  if (Takes(module, &call, &error))
    error = Reduce(module, &call, sbuf, rbuf, type, op);
  else if (error == 0)
    error = kEpicMpiFallBack;
  if (error != kEpicMpiFallBack) return error;
  return others->allreduce(sbuf, rbuf, count, type, op, comm, others->allreduce_module);
}

int CollEpicReduce(const void* sbuf, void* rbuf, int count, ompi_datatype_t* type, ompi_op_t* op, int root,
                   ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  EpicMpiCall call = CollEpicReductionOf(kEpicMpiReduce, count, type, op);
  int error;
  call.root = root;
  if (Takes(module, &call, &error))
    error = Reduce(module, &call, sbuf, rbuf, type, op);
  else if (error == 0)
    error = kEpicMpiFallBack;
  if (error != kEpicMpiFallBack) return error;
  return others->reduce(sbuf, rbuf, count, type, op, root, comm, others->reduce_module);
}

/* With what has been packed, or with the error of that. */
static int BcastBytes(const CollEpicBytes* bytes, int error, const EpicMpiCall* call,
                      mca_coll_base_module_t* module) {
  EpicMpiHosts* const hosts = &((CollEpicModule*)module)->hosts;
  if (error != MPI_SUCCESS) return Fail(module, call, CollEpicWhyNotPacked(error));
  return hosts->several ? EpicMpiHostsBcast(hosts, call, bytes->bytes)
                        : Run(module, call, bytes->bytes, bytes->bytes);
}

static int Bcast(void* buffer, int count, ompi_datatype_t* type, const EpicMpiCall* call,
                 ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  CollEpicBytes bytes;
  const int is_root = ompi_comm_rank(comm) == call->root;
  int error = CollEpicBytesOf(buffer, (size_t)count, type, is_root, &bytes);
  error = BcastBytes(&bytes, error, call, module);
  if (error == 0 && !is_root) error = CollEpicUnpack(&bytes, buffer, (size_t)count, type);
  free(bytes.memory);
  return error;
}

int CollEpicBcast(void* buffer, int count, ompi_datatype_t* type, int root, ompi_communicator_t* comm,
                  mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  EpicMpiCall call = CollEpicCallOf(kEpicMpiBcast, count, type);
  int error;
  call.root = root;
  if (Takes(module, &call, &error))
    error = Bcast(buffer, count, type, &call, comm, module);
  else if (error == 0)
    error = kEpicMpiFallBack;
  if (error != kEpicMpiFallBack) return error;
  return others->bcast(buffer, count, type, root, comm, others->bcast_module);
}

static int AllgatherBytes(const CollEpicBytes* send, const CollEpicBytes* recv, int error,
                          const EpicMpiCall* call, mca_coll_base_module_t* module) {
  EpicMpiHosts* const hosts = &((CollEpicModule*)module)->hosts;
  if (error != MPI_SUCCESS) return Fail(module, call, CollEpicWhyNotPacked(error));
  return hosts->several ? EpicMpiHostsAllgather(hosts, call, send->bytes, recv->bytes)
                        : Run(module, call, send->bytes, recv->bytes);
}

/* Without MPI_IN_PLACE; in place the send arguments are those of this rank's part of the receive buffer. */
static int Allgather(const void* sbuf, int scount, ompi_datatype_t* stype, void* rbuf, int rcount,
                     ompi_datatype_t* rtype, const EpicMpiCall* call, ompi_communicator_t* comm,
                     mca_coll_base_module_t* module) {
  const size_t all = (size_t)rcount * (size_t)ompi_comm_size(comm);
  CollEpicBytes send, recv = {0};
  if (!CollEpicIsPart(call, (size_t)scount, stype)) return Fail(module, call, COLL_EPIC_NO_PART);
  int error = CollEpicBytesOf(sbuf, (size_t)scount, stype, 1, &send);
  if (error == MPI_SUCCESS) error = CollEpicBytesOf(rbuf, all, rtype, 0, &recv);
  error = AllgatherBytes(&send, &recv, error, call, module);
  if (error == 0) error = CollEpicUnpack(&recv, rbuf, all, rtype);
  free(send.memory);
  free(recv.memory);
  return error;
}

int CollEpicAllgather(const void* sbuf, int scount, ompi_datatype_t* stype, void* rbuf, int rcount,
                      ompi_datatype_t* rtype, ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  const EpicMpiCall call = CollEpicCallOf(kEpicMpiAllgather, rcount, rtype);
  int error;
  if (Takes(module, &call, &error)) {
    if (sbuf == MPI_IN_PLACE) {
      const void* const own = CollEpicOwnPart(rbuf, rcount, rtype, comm);
      error = Allgather(own, rcount, rtype, rbuf, rcount, rtype, &call, comm, module);
    } else {
      error = Allgather(sbuf, scount, stype, rbuf, rcount, rtype, &call, comm, module);
    }
  } else if (error == 0) {
    error = kEpicMpiFallBack;
  }
  if (error != kEpicMpiFallBack) return error;
  return others->allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm, others->allgather_module);
}

/* MPI's in place has the result at the buffer's begin, EPIC's at this rank's part: it goes by a buffer of its
 * own. */
static int ReduceScatter(const void* sbuf, void* rbuf, const EpicMpiCall* call, ompi_datatype_t* type,
                         ompi_op_t* op, mca_coll_base_module_t* module) {
  EpicMpiHosts* const hosts = &((CollEpicModule*)module)->hosts;
  if (hosts->several) {
    return EpicMpiHostsScatter(hosts, call, sbuf == MPI_IN_PLACE ? rbuf : sbuf, rbuf, type, op);
  }
  if (sbuf != MPI_IN_PLACE) return Run(module, call, sbuf, rbuf);
  void* const result = malloc((size_t)call->bytes);
  if (result == NULL) return Fail(module, call, "no memory for a result that is made in place");
  const int error = Run(module, call, rbuf, result);
  if (error == 0) memcpy(rbuf, result, (size_t)call->bytes);
  free(result);
  return error;
}

int CollEpicReduceScatterBlock(const void* sbuf, void* rbuf, int rcount, ompi_datatype_t* type, ompi_op_t* op,
                               ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  const EpicMpiCall call = CollEpicReductionOf(kEpicMpiReduceScatterBlock, rcount, type, op);
  int error;
  if (Takes(module, &call, &error))
    error = ReduceScatter(sbuf, rbuf, &call, type, op, module);
  else if (error == 0)
    error = kEpicMpiFallBack;
  if (error != kEpicMpiFallBack) return error;
  return others->reduce_scatter_block(sbuf, rbuf, rcount, type, op, comm,
                                      others->reduce_scatter_block_module);
}

int CollEpicReduceScatter(const void* sbuf, void* rbuf, const int* rcounts, ompi_datatype_t* type,
                          ompi_op_t* op, ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  const EpicMpiCall call = CollEpicReduceScatterOf(rcounts, type, op, comm);
  int error;
  if (Takes(module, &call, &error))
    error = ReduceScatter(sbuf, rbuf, &call, type, op, module);
  else if (error == 0)
    error = kEpicMpiFallBack;
  if (error != kEpicMpiFallBack) return error;
  return others->reduce_scatter(sbuf, rbuf, rcounts, type, op, comm, others->reduce_scatter_module);
}

int CollEpicBarrier(ompi_communicator_t* comm, mca_coll_base_module_t* module) {
  const CollEpicOthers* const others = &((CollEpicModule*)module)->others;
  const EpicMpiCall call = {.collective = kEpicMpiBarrier};
  int error;
  if (Takes(module, &call, &error)) {
    EpicMpiHosts* const hosts = &((CollEpicModule*)module)->hosts;
    error = hosts->several ? EpicMpiHostsBarrier(hosts, &call) : Run(module, &call, NULL, NULL);
  } else if (error == 0) {
    error = kEpicMpiFallBack;
  }
  if (error != kEpicMpiFallBack) return error;
  return others->barrier(comm, others->barrier_module);
}
