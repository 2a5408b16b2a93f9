/* The collectives: those that wait are made here, the others in requests.c. */
#include <stdlib.h>
#include <string.h>

#include "mpi/mpich/requests.h"

int EpicMpichPack(const EpicMpichCall* it, EpicMpichBuffers* buffers) {
  const EpicMpichData *const in = &it->in, *const out = &it->out;
  int error;
  buffers->send = (EpicMpichBytes){.bytes = in->buffer};
  buffers->recv = (EpicMpichBytes){.bytes = out->buffer};
  switch (it->call.collective) {
    case kEpicMpiBcast:
      error = EpicMpichBytesOf(out->buffer, out->count, out->type, it->is_root, &buffers->recv);
      buffers->send.bytes = buffers->recv.bytes;
      return error;
    case kEpicMpiAllgather:
      error = EpicMpichBytesOf(in->buffer, in->count, in->type, 1, &buffers->send);
      if (error != MPI_SUCCESS) return error;
      return EpicMpichBytesOf(out->buffer, out->count, out->type, 0, &buffers->recv);
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      /* MPI's in place has the result at the buffer's begin, EPIC's at this rank's part. */
      if (in->buffer != out->buffer || it->hosts->several) return MPI_SUCCESS;
      buffers->recv.bytes = buffers->recv.memory = malloc((size_t)it->call.bytes);
      return buffers->recv.memory != NULL ? MPI_SUCCESS : EPIC_MPICH_NO_MEMORY;
    default:
      return MPI_SUCCESS;
  }
}

void EpicMpichWhyNotPacked(int error, char* text) {
  int length;
  if (error == EPIC_MPICH_NO_MEMORY)
    strcpy(text, "no memory for a buffer that is not in a row or in place");
  else
    PMPI_Error_string(error, text, &length);
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
    return EpicMpiHostsFail(it->hosts, &it->call, EPIC_MPICH_DIFFERS);
  }
  int error = EpicMpichPack(it, &buffers);
  if (error != MPI_SUCCESS) {
    char why_not[MPI_MAX_ERROR_STRING];
    EpicMpichFreeBuffers(&buffers);
    EpicMpichWhyNotPacked(error, why_not);
    return EpicMpiHostsFail(it->hosts, &it->call, why_not);
  }
  error = it->hosts->several ? RunOnHosts(it, buffers.send.bytes, buffers.recv.bytes)
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

/* A call that has not been described: the MPI's, unless it has ended. */
static int NotDescribed(const EpicMpichCall* it) { return it->error != 0 ? it->error : kEpicMpiFallBack; }

#define FORMS(name, member, parameters, arguments)                                                         \
  int EpicMpich##name parameters {                                                                         \
    EpicMpichCall it = {0};                                                                                \
    return EpicMpich##name##Of(EPIC_MPICH_BARE arguments, &it) ? Call(&it) : NotDescribed(&it);            \
  }                                                                                                        \
  int EpicMpichI##name(EPIC_MPICH_BARE parameters, MPI_Request* request) {                                 \
    EpicMpichCall it = {0};                                                                                \
    if (request == NULL || !EpicMpich##name##Of(EPIC_MPICH_BARE arguments, &it)) return NotDescribed(&it); \
    return EpicMpichStart(&it, request);                                                                   \
  }                                                                                                        \
  int EpicMpich##name##Init(EPIC_MPICH_BARE parameters, MPI_Info info, MPI_Request* request) {             \
    EpicMpichCall it = {0};                                                                                \
    (void)info;                                                                                            \
    if (request == NULL || !EpicMpich##name##Of(EPIC_MPICH_BARE arguments, &it)) return NotDescribed(&it); \
    return EpicMpichMake(&it, request);                                                                    \
  }
EPIC_MPICH_EACH(FORMS)
