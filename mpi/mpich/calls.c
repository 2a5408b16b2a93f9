/* The collectives that wait. */
#include <stdlib.h>
#include <string.h>

#include "mpi/mpich/arguments.h"

int EpicMpichPack(const EpicMpichCall* it, EpicMpichBuffers* buffers) {
  const EpicMpichData *const in = &it->in, *const out = &it->out;
  buffers->send = (EpicMpichBytes){.bytes = in->buffer};
  buffers->recv = (EpicMpichBytes){.bytes = out->buffer};
  switch (it->call.collective) {
    case kEpicMpiBcast:
      if (!EpicMpichBytesOf(out->buffer, out->count, out->type, it->is_root, &buffers->recv)) return 0;
      buffers->send.bytes = buffers->recv.bytes;
      return 1;
    case kEpicMpiAllgather:
      return EpicMpichBytesOf(in->buffer, in->count, in->type, 1, &buffers->send) &&
             EpicMpichBytesOf(out->buffer, out->count, out->type, 0, &buffers->recv);
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      /* MPI's in place has the result at the buffer's begin, EPIC's at this rank's part. */
      if (in->buffer != out->buffer || it->hosts->several) return 1;
      buffers->recv.bytes = buffers->recv.memory = malloc((size_t)it->call.bytes);
      return buffers->recv.memory != NULL;
    default:
      return 1;
  }
}

int EpicMpichReceive(const EpicMpichCall* it, const EpicMpichBuffers* buffers) {
  if (buffers->recv.memory == NULL || it->is_root) return MPI_SUCCESS;
  if (it->call.collective == kEpicMpiBcast || it->call.collective == kEpicMpiAllgather)
    return EpicMpichUnpack(&buffers->recv, it->out.buffer, it->out.count, it->out.type);
  memcpy(it->out.buffer, buffers->recv.memory, (size_t)it->call.bytes);
  return MPI_SUCCESS;
}

void EpicMpichFreeBuffers(EpicMpichBuffers* buffers) {
  free(buffers->send.memory);
  free(buffers->recv.memory);
}

static int RunOnHosts(const EpicMpichCall* it, char* send, char* recv) {
  switch (it->call.collective) {
    case kEpicMpiBcast:
      return EpicMpiHostsBcast(it->hosts, &it->call, recv);
    case kEpicMpiAllgather:
      return EpicMpiHostsAllgather(it->hosts, &it->call, send, recv);
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      return EpicMpiHostsScatter(it->hosts, &it->call, send, recv, it->out.type, it->op);
    case kEpicMpiBarrier:
      return EpicMpiHostsBarrier(it->hosts, &it->call);
    default:
      return EpicMpiHostsReduce(it->hosts, &it->call, send, recv, it->out.type, it->op);
  }
}

static int Make(const EpicMpichCall* it) {
  EpicMpichBuffers buffers;
  if (it->differs) {
    return EpicMpiFail(it->hosts->epic, "MPI_Allgather sends and receives parts of different sizes");
  }
  if (!EpicMpichPack(it, &buffers)) {
    EpicMpichFreeBuffers(&buffers);
    return EpicMpiFail(it->hosts->epic, EPIC_MPICH_NO_MEMORY);
  }
  int error = it->hosts->several
                  ? RunOnHosts(it, buffers.send.bytes, buffers.recv.bytes)
                  : EpicMpiRun(it->hosts->epic, &it->call, buffers.send.bytes, buffers.recv.bytes);
  if (error == 0) error = EpicMpichReceive(it, &buffers);
  EpicMpichFreeBuffers(&buffers);
  return error;
}

/* Makes a call that has been described, if EPIC takes it; errors that are EPIC's go to the communicator's
 * handler, as the MPI's have gone. */
static int Call(const EpicMpichCall* it) {
  int error;
  if (!EpicMpiTakes(it->hosts->epic, &it->call, &error)) return error != 0 ? error : kEpicMpiFallBack;
  error = Make(it);
  if (error != MPI_SUCCESS && error != kEpicMpiFallBack) PMPI_Comm_call_errhandler(it->hosts->comm, error);
  return error;
}

int EpicMpichAllreduce(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichAllreduceOf(sbuf, rbuf, count, type, op, comm, &it) ? Call(&it) : kEpicMpiFallBack;
}

int EpicMpichReduce(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, int root,
                    MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichReduceOf(sbuf, rbuf, count, type, op, root, comm, &it) ? Call(&it) : kEpicMpiFallBack;
}

int EpicMpichBcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichBcastOf(buffer, count, type, root, comm, &it) ? Call(&it) : kEpicMpiFallBack;
}

int EpicMpichAllgather(const void* sbuf, int scount, MPI_Datatype stype, void* rbuf, int rcount,
                       MPI_Datatype rtype, MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichAllgatherOf(sbuf, scount, stype, rbuf, rcount, rtype, comm, &it) ? Call(&it)
                                                                                   : kEpicMpiFallBack;
}

int EpicMpichReduceScatterBlock(const void* sbuf, void* rbuf, int rcount, MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichReduceScatterBlockOf(sbuf, rbuf, rcount, type, op, comm, &it) ? Call(&it)
                                                                                : kEpicMpiFallBack;
}

int EpicMpichReduceScatter(const void* sbuf, void* rbuf, const int* rcounts, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichReduceScatterOf(sbuf, rbuf, rcounts, type, op, comm, &it) ? Call(&it) : kEpicMpiFallBack;
}

int EpicMpichBarrier(MPI_Comm comm) {
  EpicMpichCall it = {0};
  return EpicMpichBarrierOf(comm, &it) ? Call(&it) : kEpicMpiFallBack;
}
