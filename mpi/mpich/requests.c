#include "mpi/mpich/requests.h"

#include <pthread.h>
#include <stdlib.h>

/* A request that the program has. Of nonblocking calls it is here until the call has ended, or, if that was
 * with an error, until the program has that; of persistent ones until the program frees it. */
typedef struct EpicMpichRequest {
  EpicMpichQueue* queue; /* its communicator's, or `own` */
  EpicMpichQueue own;    /* of a persistent call */
  EpicMpichCall it;      /* derived types are its own */
  EpicMpichBuffers buffers;
  EpicMpiRequest* call; /* null, with `error`: it could not be started */
  MPI_Request handle;
  int is_persistent, is_under_way;
  int error;
  struct EpicMpichRequest* next;  /* in the queue */
  struct EpicMpichRequest* other; /* in the list of those that are kept */
} Request;

static struct {
  pthread_mutex_t mutex; /* of all requests and queues; never held where MPICH calls us */
  int* requests;         /* of the program; any thread reads this and the next two */
  int under_way;
  int failed;           /* with an error that the program does not have yet */
  EpicMpichQueue* busy; /* those with calls */
  Request* kept;        /* persistent ones, and those that have failed */
  char* tags;           /* whether each is taken */
  int tag_count;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void Add(int* count, int more) { (void)__atomic_add_fetch(count, more, __ATOMIC_ACQ_REL); }
static int Read(const int* count) { return __atomic_load_n(count, __ATOMIC_ACQUIRE); }

void EpicMpichBeginRequests(int* requests) { all.requests = requests; }

int EpicMpichIsBusy(void) { return Read(&all.under_way) != 0; }

/* The queue's own tag, the least that is not taken: its requests end in their order, so that one for all of
 * them will do. 0 without memory. With the mutex held, as in the rest of this part. */
static int HasTag(EpicMpichQueue* queue) {
  int tag = 0;
  if (queue->tag != 0) return 1;
  while (tag < all.tag_count && all.tags[tag]) ++tag;
  if (tag == all.tag_count) {
    const int more = 2 * all.tag_count + 16;
    char* const tags = realloc(all.tags, (size_t)more);
    if (tags == NULL) return 0;
    for (int i = all.tag_count; i < more; ++i) tags[i] = 0;
    all.tags = tags;
    all.tag_count = more;
  }
  all.tags[tag] = 1;
  queue->tag = tag + 1;
  return 1;
}

static void Append(Request* request) {
  EpicMpichQueue* const queue = request->queue;
  request->next = NULL;
  request->is_under_way = 1;
  if (queue->oldest == NULL) {
    queue->next = all.busy;
    all.busy = queue;
  }
  *(queue->oldest == NULL ? &queue->oldest : &queue->newest->next) = request;
  queue->newest = request;
  Add(&all.under_way, 1);
}

static void KeepInList(Request* request) {
  request->other = all.kept;
  all.kept = request;
}

static void TakeFromList(Request* request) {
  Request** at = &all.kept;
  while (*at != request) at = &(*at)->other;
  *at = request->other;
}

/* The request of a handle, if it is here. */
static Request* Find(MPI_Request handle) {
  for (Request* request = all.kept; request != NULL; request = request->other) {
    if (request->handle == handle) return request;
  }
  for (EpicMpichQueue* queue = all.busy; queue != NULL; queue = queue->next) {
    for (Request* request = queue->oldest; request != NULL; request = request->next) {
      if (request->handle == handle) return request;
    }
  }
  return NULL;
}

static void FreeBuffers(Request* request) {
  EpicMpichFreeBuffers(&request->buffers);
  request->buffers = (EpicMpichBuffers){0};
}

/* Ends a queue's oldest call if it has ended; what is not needed any more goes to `done`. */
static int EndOldest(EpicMpichQueue* queue, Request** done) {
  Request* const request = queue->oldest;
  if (request == NULL || (request->call != NULL && !EpicMpiTest(request->call, &request->error))) return 0;
  queue->oldest = request->next;
  request->is_under_way = 0;
  if (request->call != NULL) {
    EpicMpiRequestFree(request->call);
    request->call = NULL;
    if (request->error == 0) request->error = EpicMpichReceive(&request->it, &request->buffers);
  }
  FreeBuffers(request);
  if (request->error != 0) {
    Add(&all.failed, 1);
    if (!request->is_persistent) KeepInList(request);
  } else if (!request->is_persistent) {
    request->next = *done;
    *done = request;
  }
  /* From here on the program may have it. */
  epic_mpich.Send(NULL, 0, MPI_BYTE, 0, queue->tag - 1, EpicMpichOwn());
  Add(&all.under_way, -1);
  return 1;
}

/* The end of a request that is in no list; without the mutex. */
static void Drop(Request* request) {
  if (request->is_persistent) EpicMpichQueueEnd(&request->own);
  FreeBuffers(request);
  if (!EpicMpichIsNamed(request->it.in.type)) PMPI_Type_free(&request->it.in.type);
  if (!EpicMpichIsNamed(request->it.out.type)) PMPI_Type_free(&request->it.out.type);
  EpicMpichKeep(request->it.hosts, -1);
  Add(all.requests, -1);
  free(request);
}

void EpicMpichProgress(void) {
  Request* done = NULL;
  if (!EpicMpichIsBusy() || pthread_mutex_trylock(&all.mutex) != 0) return;
  for (EpicMpichQueue** at = &all.busy; *at != NULL;) {
    EpicMpichQueue* const queue = *at;
    while (EndOldest(queue, &done)) continue;
    if (queue->oldest == NULL)
      *at = queue->next;
    else
      at = &queue->next;
  }
  pthread_mutex_unlock(&all.mutex);
  while (done != NULL) {
    Request* const next = done->next;
    Drop(done);
    done = next;
  }
}

int EpicMpichIsBusyOf(const EpicMpiHosts* hosts) {
  int is_busy = 0;
  pthread_mutex_lock(&all.mutex);
  for (const EpicMpichQueue* queue = all.busy; queue != NULL; queue = queue->next)
    is_busy |= queue->oldest->it.hosts == hosts;
  pthread_mutex_unlock(&all.mutex);
  return is_busy;
}

void EpicMpichQueueEnd(EpicMpichQueue* queue) {
  pthread_mutex_lock(&all.mutex);
  if (queue->tag != 0) all.tags[queue->tag - 1] = 0;
  queue->tag = 0;
  pthread_mutex_unlock(&all.mutex);
}

/* A type of the request's own: the program may free its while the call is under way. */
static int OwnType(MPI_Datatype* type) {
  MPI_Datatype own;
  if (EpicMpichIsNamed(*type)) return MPI_SUCCESS;
  const int error = PMPI_Type_contiguous(1, *type, &own);
  *type = error == MPI_SUCCESS ? own : MPI_BYTE;
  return error == MPI_SUCCESS ? PMPI_Type_commit(type) : error;
}

/* Returns as EpicMpichPack. `own`: of a persistent call. */
static int Make(const EpicMpichCall* it, EpicMpiComm* own, Request** made) {
  Request* const request = calloc(1, sizeof *request);
  if (request == NULL) return EPIC_MPICH_NO_MEMORY;
  request->it = *it;
  request->own.epic = own;
  request->is_persistent = own != NULL;
  request->queue = own != NULL ? &request->own : &((EpicMpichComm*)it->hosts)->queue;
  pthread_mutex_lock(&all.mutex);
  int error = HasTag(request->queue) ? MPI_SUCCESS : EPIC_MPICH_NO_MEMORY;
  pthread_mutex_unlock(&all.mutex);
  if (it->call.collective == kEpicMpiBarrier) request->it.in.type = request->it.out.type = MPI_BYTE;
  const int of_in = OwnType(&request->it.in.type), of_out = OwnType(&request->it.out.type);
  if (error == MPI_SUCCESS) error = of_in != MPI_SUCCESS ? of_in : of_out;
  EpicMpichKeep(it->hosts, 1);
  Add(all.requests, 1);
  *made = request;
  if (error != MPI_SUCCESS) Drop(request);
  return error;
}

/* This rank has not packed its part, or has no request for it: the others hear why. */
static int Fail(EpicMpiComm* epic, int error) {
  char why_not[MPI_MAX_ERROR_STRING];
  EpicMpichWhyNotPacked(error, why_not);
  return EpicMpiFail(epic, why_not);
}

/* Starts EPIC's call; `error` says if it could not. */
static void Begin(Request* request) {
  EpicMpiComm* const epic = request->queue->epic;
  request->error = 0;
  if (request->it.differs) {
    request->error = EpicMpiFail(epic, EPIC_MPICH_DIFFERS);
    return;
  }
  const int error = EpicMpichPack(&request->it, &request->buffers);
  if (error != MPI_SUCCESS) {
    request->error = Fail(epic, error);
    return;
  }
  request->call = EpicMpiStart(epic, &request->it.call, request->buffers.send.bytes,
                               request->buffers.recv.bytes, &request->error);
}

static int Tell(const EpicMpiHosts* hosts, int error) {
  if (error != MPI_SUCCESS) PMPI_Comm_call_errhandler(hosts->comm, error);
  return error;
}

static int Refuse(Request* request, int error) {
  Tell(request->it.hosts, error);
  Drop(request);
  return error;
}

int EpicMpichStart(const EpicMpichCall* it, MPI_Request* handle) {
  if (!EpicMpiTakesRequest(it->hosts->epic, &it->call)) return kEpicMpiFallBack;
  Request* request;
  int error = Make(it, NULL, &request);
  if (error != MPI_SUCCESS) return Tell(it->hosts, Fail(it->hosts->epic, error));
  error = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, request->queue->tag - 1, EpicMpichOwn(), &request->handle);
  if (error != MPI_SUCCESS) return Refuse(request, error);
  Begin(request);
  if (request->call == NULL) {
    epic_mpich.Cancel(&request->handle);
    epic_mpich.Wait(&request->handle, MPI_STATUS_IGNORE);
    return Refuse(request, request->error);
  }
  *handle = request->handle;
  pthread_mutex_lock(&all.mutex);
  Append(request);
  pthread_mutex_unlock(&all.mutex);
  return MPI_SUCCESS;
}

int EpicMpichMake(const EpicMpichCall* it, MPI_Request* handle) {
  int error;
  EpicMpiComm* const own = EpicMpiCommOfPersistent(it->hosts->epic, &it->call, &error);
  if (own == NULL) return error != 0 ? error : kEpicMpiFallBack;
  Request* request;
  error = Make(it, own, &request);
  if (error != MPI_SUCCESS) return Tell(it->hosts, Fail(own, error));
  error = PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, request->queue->tag - 1, EpicMpichOwn(), &request->handle);
  if (error != MPI_SUCCESS) return Refuse(request, error);
  *handle = request->handle;
  pthread_mutex_lock(&all.mutex);
  KeepInList(request);
  pthread_mutex_unlock(&all.mutex);
  return MPI_SUCCESS;
}

/* The request of a handle; null: it is not here. */
static Request* Known(MPI_Request handle) {
  pthread_mutex_lock(&all.mutex);
  Request* const request = Find(handle);
  pthread_mutex_unlock(&all.mutex);
  return request;
}

static int IsPersistent(MPI_Request handle) {
  const Request* const request = Known(handle);
  return request != NULL && request->is_persistent;
}

int EpicMpichStartRequest(MPI_Request* handle) {
  if (handle == NULL || !IsPersistent(*handle)) return kEpicMpiFallBack;
  Request* const request = Known(*handle);
  const int error = epic_mpich.Start(handle);
  if (error != MPI_SUCCESS) return Tell(request->it.hosts, error);
  /* One that cannot be started ends with its error: nobody looks at what the parts of MPI_Startall return. */
  Begin(request);
  pthread_mutex_lock(&all.mutex);
  Append(request);
  pthread_mutex_unlock(&all.mutex);
  return MPI_SUCCESS;
}

int EpicMpichStartall(int count, MPI_Request* requests) {
  int first = 0;
  if (count <= 0 || requests == NULL) return kEpicMpiFallBack;
  while (first < count && !IsPersistent(requests[first])) ++first;
  if (first == count) return kEpicMpiFallBack;
  for (int i = 0; i < count; ++i) {
    int error = EpicMpichStartRequest(&requests[i]);
    if (error == kEpicMpiFallBack) error = epic_mpich.Start(&requests[i]);
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}

/* MPI forbids to free or cancel a collective call under way. */
int EpicMpichRequestFree(MPI_Request* handle) {
  Request* const request = handle == NULL ? NULL : Known(*handle);
  if (request == NULL) return kEpicMpiFallBack;
  if (request->is_under_way) return Tell(request->it.hosts, MPI_ERR_REQUEST);
  pthread_mutex_lock(&all.mutex);
  TakeFromList(request);
  pthread_mutex_unlock(&all.mutex);
  if (request->error != 0) Add(&all.failed, -1);
  const int error = epic_mpich.Request_free(handle);
  Drop(request);
  return error;
}

int EpicMpichCancel(MPI_Request* handle) {
  const Request* const request = handle == NULL ? NULL : Known(*handle);
  if (request == NULL || !request->is_under_way) return kEpicMpiFallBack;
  return Tell(request->it.hosts, MPI_ERR_REQUEST);
}

int EpicMpichErrorOf(MPI_Request handle) {
  if (Read(&all.failed) == 0) return MPI_SUCCESS;
  const Request* const request = Known(handle);
  return request == NULL || request->is_under_way ? MPI_SUCCESS : Tell(request->it.hosts, request->error);
}

int EpicMpichEnded(MPI_Request handle) {
  int error = MPI_SUCCESS;
  if (Read(&all.failed) == 0) return MPI_SUCCESS;
  pthread_mutex_lock(&all.mutex);
  Request* const request = Find(handle);
  if (request != NULL && !request->is_under_way && request->error != 0) {
    error = request->error;
    request->error = 0;
    Add(&all.failed, -1);
    if (!request->is_persistent) TakeFromList(request);
  }
  pthread_mutex_unlock(&all.mutex);
  if (error == MPI_SUCCESS) return MPI_SUCCESS;
  return request->is_persistent ? Tell(request->it.hosts, error) : Refuse(request, error);
}

void EpicMpichEndRequests(void) {
  for (const EpicMpichQueue* queue = all.busy; queue != NULL; queue = queue->next)
    (void)EpicMpiFail(queue->epic, "the program has ended with calls under way");
  while (EpicMpichIsBusy()) EpicMpichProgress();
}
