#include "mpi/openmpi/requests.h"

#include <stdlib.h>

#include "opal/class/opal_free_list.h"
#include "opal/runtime/opal_progress.h"
#include "opal/threads/mutex.h"

static void Construct(CollEpicRequest* request) { request->module = NULL; }
OBJ_CLASS_INSTANCE(CollEpicRequest, ompi_coll_base_nbc_request_t, Construct, NULL);

/* What all requests share. Their memory is used again, not given back: Open MPI looks into a request that it
 * has freed. */
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static opal_free_list_t all;
static int is_open;
/* Those under way, in the order in which they were started. */
static CollEpicRequest *oldest, *newest;

/* Packs what is sent and finds room for what is received, if there are gaps, or if the buffers cannot be
 * EPIC's. Returns as CollEpicBytesOf. */
static int Pack(CollEpicRequest* request) {
  int error;
  const CollEpicData *const in = &request->in, *const out = &request->out;
  request->send = (CollEpicBytes){.bytes = in->buffer};
  request->recv = (CollEpicBytes){.bytes = out->buffer};
  switch (request->call.collective) {
    case kEpicMpiBcast:
      error = CollEpicBytesOf(out->buffer, out->count, out->type, request->packs_in, &request->recv);
      request->send.bytes = request->recv.bytes;
      return error;
    case kEpicMpiAllgather:
      error = CollEpicBytesOf(in->buffer, in->count, in->type, 1, &request->send);
      if (error != MPI_SUCCESS) return error;
      return CollEpicBytesOf(out->buffer, out->count, out->type, 0, &request->recv);
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      /* In place MPI has the result at the buffer's begin, EPIC at this rank's part. */
      if (in->buffer != out->buffer || request->line != NULL) return MPI_SUCCESS;
      request->recv.bytes = request->recv.memory = malloc((size_t)request->call.bytes);
      return request->recv.memory != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    default:
      return MPI_SUCCESS;
  }
}

static int Unpack(CollEpicRequest* request) {
  if (request->recv.memory == NULL || !request->unpacks_out) return MPI_SUCCESS;
  if (request->call.collective == kEpicMpiBcast || request->call.collective == kEpicMpiAllgather)
    return CollEpicUnpack(&request->recv, request->out.buffer, request->out.count, request->out.type);
  memcpy(request->out.buffer, request->recv.memory, (size_t)request->call.bytes);
  return MPI_SUCCESS;
}

static void FreeBytes(CollEpicRequest* request) {
  free(request->send.memory);
  free(request->recv.memory);
  request->send.memory = request->recv.memory = NULL;
}

static int HasEnded(CollEpicRequest* request) {
  if (request->line != NULL) return EpicMpiStagedHasEnded(&request->staged, &request->error);
  return request->under_way == NULL || EpicMpiTest(request->under_way, &request->error);
}

/* Takes requests that have ended out of the list, and returns them as one. */
static CollEpicRequest* TakeEnded(void) {
  static unsigned long walk;
  CollEpicRequest* ended = NULL;
  CollEpicRequest** last_ended = &ended;
  CollEpicRequest* before = NULL;
  CollEpicRequest* next;
  ++walk;
  for (CollEpicRequest* request = oldest; request != NULL; request = next) {
    next = request->next;
    /* A communicator's calls end in order. */
    unsigned long* const stalled =
        request->super.super.req_persistent ? &request->stalled : &request->module->stalled;
    if (*stalled != walk && HasEnded(request)) {
      *(before == NULL ? &oldest : &before->next) = next;
      if (newest == request) newest = before;
      request->next = NULL;
      *last_ended = request;
      last_ended = &request->next;
    } else {
      *stalled = walk;
      before = request;
    }
  }
  return ended;
}

static void Complete(CollEpicRequest* request) {
  ompi_request_t* const super = &request->super.super;
  if (request->under_way != NULL) {
    EpicMpiRequestFree(request->under_way);
    request->under_way = NULL;
    if (request->error == 0) request->error = Unpack(request);
  } else if (request->line != NULL && request->error == 0) {
    request->error = Unpack(request);
  }
  FreeBytes(request);
  super->req_status.MPI_ERROR = request->error;
  /* Open MPI 4.1 gives the errors of collective requests to MPI_COMM_WORLD's handler, and those of messages
   * to that of their communicator. */
  if (request->error != MPI_SUCCESS) super->req_type = OMPI_REQUEST_PML;
  ompi_request_complete(super, true);
}

static int Progress(void) {
  int completed = 0;
  EpicMpiProgressStages();
  if (oldest == NULL || opal_mutex_trylock(&lock) != 0) return 0;
  CollEpicRequest* request = TakeEnded();
  opal_mutex_unlock(&lock);
  while (request != NULL) {
    CollEpicRequest* const next = request->next;
    Complete(request); /* from here on it may be started again, or freed */
    request = next;
    ++completed;
  }
  return completed;
}

static void Append(CollEpicRequest* request) {
  request->next = NULL;
  opal_mutex_lock(&lock);
  *(newest == NULL ? &oldest : &newest->next) = request;
  newest = request;
  opal_mutex_unlock(&lock);
}

static int GivesItsPart(const CollEpicRequest* request) {
  return request->call.collective != kEpicMpiAllgather ||
         CollEpicIsPart(&request->call, request->in.count, request->in.type);
}

static void StartInStages(CollEpicRequest* request) {
  EpicMpiWhyNot why_not = kEpicMpiCan;
  if (!GivesItsPart(request)) {
    why_not = kEpicMpiNoPart;
  } else {
    const int error = Pack(request);
    if (error != MPI_SUCCESS) why_not = error == MPI_ERR_NO_MEM ? kEpicMpiNoMemory : kEpicMpiNotPacked;
  }
  EpicMpiStageCall(request->line, &request->call, request->send.bytes, request->recv.bytes, why_not,
                   &request->staged);
  Append(request);
}

int CollEpicRequestStart(CollEpicRequest* request) {
  ompi_request_t* const super = &request->super.super;
  super->req_type = OMPI_REQUEST_COLL;
  super->req_status.MPI_ERROR = MPI_SUCCESS;
  super->req_complete = REQUEST_PENDING;
  super->req_state = OMPI_REQUEST_ACTIVE;
  request->error = 0;
  request->under_way = NULL;
  if (request->line != NULL) {
    StartInStages(request);
    return MPI_SUCCESS;
  }
  const int packed = GivesItsPart(request) ? Pack(request) : MPI_SUCCESS;
  if (!GivesItsPart(request)) {
    request->error = EpicMpiFail(request->epic, COLL_EPIC_NO_PART);
  } else if (packed != MPI_SUCCESS) {
    request->error = EpicMpiFail(request->epic, CollEpicWhyNotPacked(packed));
  } else {
    request->under_way = EpicMpiStart(request->epic, &request->call, request->send.bytes, request->recv.bytes,
                                      &request->error);
  }
  const int error = request->error;
  /* A persistent one ends with its error: nobody looks at what MPI_Startall's parts return. */
  if (request->under_way == NULL && !super->req_persistent) {
    FreeBytes(request);
    return error;
  }
  Append(request);
  return MPI_SUCCESS;
}

static int StartPersistent(size_t count, ompi_request_t** requests) {
  for (size_t i = 0; i < count; ++i) {
    if (requests[i]->req_state == OMPI_REQUEST_ACTIVE && !REQUEST_COMPLETE(requests[i]))
      return MPI_ERR_REQUEST;
    (void)CollEpicRequestStart((CollEpicRequest*)requests[i]);
  }
  return MPI_SUCCESS;
}

/* The program may free a derived type when the call that has it has been described. Only such are counted. */
static void Keep(const CollEpicData* data) {
  if (data->type != NULL && !ompi_datatype_is_predefined(data->type)) OBJ_RETAIN(data->type);
}

static void GiveBack(CollEpicData* data) {
  if (data->type != NULL && !ompi_datatype_is_predefined(data->type)) OBJ_RELEASE(data->type);
}

void CollEpicRequestDrop(CollEpicRequest* request) {
  ompi_communicator_t* comm = request->module->hosts.comm;
  GiveBack(&request->in);
  GiveBack(&request->out);
  OMPI_REQUEST_FINI(&request->super.super);
  OBJ_RELEASE(comm);
  opal_mutex_lock(&lock);
  opal_free_list_return_st(&all, &request->super.super.super);
  opal_mutex_unlock(&lock);
}

static int Free(ompi_request_t** super) {
  /* MPI forbids to free a collective call under way. */
  if (!REQUEST_COMPLETE(*super)) return MPI_ERR_REQUEST;
  CollEpicRequest* const request = (CollEpicRequest*)*super;
  /* Open MPI frees a request that has failed before it looks for its communicator's handler: one that the
   * program has freed has to be there then, and is so until MPI_Finalize. */
  if (request->error != MPI_SUCCESS && !request->module->stays) {
    request->module->stays = 1;
    OBJ_RETAIN(request->module->hosts.comm);
  }
  CollEpicRequestDrop(request);
  *super = MPI_REQUEST_NULL;
  return OMPI_SUCCESS;
}

/* With the lock held: what the list does without it needs instructions that a component is not built for. */
static CollEpicRequest* Take(void) {
  if (!is_open) {
    OBJ_CONSTRUCT(&all, opal_free_list_t);
    const int status =
        opal_free_list_init(&all, sizeof(CollEpicRequest), opal_cache_line_size, OBJ_CLASS(CollEpicRequest),
                            0, 0, 0, -1, 64, NULL, 0, NULL, NULL, NULL);
    is_open = status == OMPI_SUCCESS && opal_progress_register(Progress) == OPAL_SUCCESS;
  }
  return is_open ? (CollEpicRequest*)opal_free_list_get_st(&all) : NULL;
}

CollEpicRequest* CollEpicRequestNew(CollEpicModule* module, const EpicMpiCall* call, EpicMpiComm* own,
                                    CollEpicData in, CollEpicData out) {
  opal_mutex_lock(&lock);
  CollEpicRequest* const request = Take();
  opal_mutex_unlock(&lock);
  if (request == NULL) {
    (void)EpicMpiFail(own != NULL ? own : module->hosts.epic, "no memory for a request");
    return NULL;
  }
  ompi_request_t* const super = &request->super.super;
  OMPI_REQUEST_INIT(super, own != NULL);
  super->req_type = OMPI_REQUEST_COLL;
  super->req_status = ompi_status_empty;
  super->req_mpi_object.comm = module->hosts.comm;
  super->req_start = StartPersistent;
  super->req_free = Free;
  super->req_cancel = NULL;
  /* It is needed for its error handler, also when the program has freed it; and with it its modules are
   * there. */
  OBJ_RETAIN(module->hosts.comm);
  request->module = module;
  request->epic = own != NULL ? own : module->hosts.epic;
  request->call = *call;
  request->in = in;
  request->out = out;
  Keep(&in);
  Keep(&out);
  const int is_root = ompi_comm_rank(module->hosts.comm) == call->root;
  request->packs_in = call->collective == kEpicMpiBcast && is_root;
  request->unpacks_out = !request->packs_in;
  request->send = request->recv = (CollEpicBytes){0};
  request->under_way = NULL;
  request->line = NULL;
  request->stalled = 0;
  return request;
}

void CollEpicRequestsClose(void) {
  if (!is_open) return;
  (void)opal_progress_unregister(Progress);
  OBJ_DESTRUCT(&all);
  is_open = 0;
}
