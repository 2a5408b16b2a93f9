/* What EPIC knows of a communicator is an attribute of it, which a duplicate does not inherit and which the
 * MPI gives back when nothing uses the communicator any more; and what the binding needs of MPICH. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/mpich/requests.h"

typedef EpicMpichComm Comm;

static struct {
  pthread_mutex_t mutex; /* of the list, and of the class */
  Comm *first, *last;    /* all that are known, in the order of their first calls */
  int keyval;
  MPI_Comm own;
  MPI_Group world;
  int ranks;          /* of the world */
  int* leaders;       /* of each rank of the world the lowest one on its host */
  int error_class;    /* 0: there has been no error */
  MPI_Op least, most; /* of unsigned numbers */
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

MPI_Comm EpicMpichOwn(void) { return process.own; }

static int Min(void* mpi_comm, int* value) {
  const EpicMpiHosts* const hosts = mpi_comm;
  return PMPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT, MPI_MIN, hosts->comm);
}

static int Broadcast(void* mpi_comm, void* data, size_t bytes, int root) {
  const EpicMpiHosts* const hosts = mpi_comm;
  return PMPI_Bcast(data, (int)bytes, MPI_BYTE, root, hosts->comm);
}

/* Looking for a message where none can come: what this rank sends itself there is waited for already. */
static void Progress(void) {
  int found;
  EpicMpichProgress();
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, process.own, &found, MPI_STATUS_IGNORE);
}

/* MPICH 4.0.2 has texts for codes of added classes only. */
static int ErrorCode(const char* text) {
  pthread_mutex_lock(&process.mutex);
  if (process.error_class == 0) PMPI_Add_error_class(&process.error_class);
  pthread_mutex_unlock(&process.mutex);
  return EpicMpiErrorCode(process.error_class, text);
}

int EpicMpichErrorClass(int error_class) {
  return error_class == process.error_class && error_class != 0 ? MPI_ERR_OTHER : error_class;
}

static const EpicMpiFunctions functions = {.min = Min,
                                           .broadcast = Broadcast,
                                           .progress = Progress,
                                           .error_code = ErrorCode,
                                           .place = EpicMpiHostsPlace};

/* The ranks of a communicator as ranks of the world; MPI_UNDEFINED: of another one. 0 without memory. */
static int* WorldRanks(MPI_Comm comm, int* ranks) {
  MPI_Group group;
  PMPI_Comm_size(comm, ranks);
  int* const numbers = malloc(2 * (size_t)*ranks * sizeof(int));
  if (numbers == NULL) return NULL;
  int* const own = numbers + *ranks;
  for (int rank = 0; rank < *ranks; ++rank) own[rank] = rank;
  PMPI_Comm_group(comm, &group);
  PMPI_Group_translate_ranks(group, *ranks, own, process.world, numbers);
  PMPI_Group_free(&group);
  return numbers;
}

int EpicMpiLeaders(const EpicMpiHosts* module, int* leaders) {
  int ranks;
  int* const numbers = WorldRanks(module->comm, &ranks);
  int* const lowest = malloc((size_t)process.ranks * sizeof(int));
  const int good = numbers != NULL && lowest != NULL;
  for (int rank = 0; good && rank < process.ranks; ++rank) lowest[rank] = -1;
  for (int rank = 0; good && rank < ranks; ++rank) {
    int* const at = &lowest[process.leaders[numbers[rank]]];
    if (*at < 0) *at = rank;
    leaders[rank] = *at;
  }
  free(numbers);
  free(lowest);
  return good ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void EpicMpiLocalMade(MPI_Comm local) { (void)local; }

/* There are none: a rank that waits in a function of MPICH's alone would not take them on, and others may
 * wait for it before they come to that function. */
void EpicMpiWaitForStages(const EpicMpiHosts* module) { (void)module; }

/* Runs `step` with pointers to elements that the type has. */
#define OF_UNSIGNED(bits, is_better)                             \
  case bits / 8:                                                 \
    for (int i = 0; i < *count; ++i) {                           \
      const uint##bits##_t one = ((const uint##bits##_t*)in)[i]; \
      uint##bits##_t* const other = (uint##bits##_t*)inout + i;  \
      if (one is_better * other) *other = one;                   \
    }                                                            \
    break;

#define REDUCE_UNSIGNED(name, is_better)                                    \
  static void name(void* in, void* inout, int* count, MPI_Datatype* type) { \
    int size;                                                               \
    PMPI_Type_size(*type, &size);                                           \
    switch (size) {                                                         \
      OF_UNSIGNED(8, is_better)                                             \
      OF_UNSIGNED(16, is_better)                                            \
      OF_UNSIGNED(32, is_better)                                            \
      OF_UNSIGNED(64, is_better)                                            \
      default:                                                              \
        break;                                                              \
    }                                                                       \
  }
REDUCE_UNSIGNED(Least, <)
REDUCE_UNSIGNED(Most, >)

/* MPICH 4.0.2 compares unsigned numbers as signed ones. */
void EpicMpiLocalKind(const EpicMpiCall* call, MPI_Datatype* type, MPI_Op* op) {
  (void)type;
  if (call->type < kEpicMpiUint8 || call->type > kEpicMpiUint64) return;
  if (call->op == kEpicMpiMin) *op = process.least;
  if (call->op == kEpicMpiMax) *op = process.most;
}

/* The MPI has nothing more to do with the communicator. */
static int OnDelete(MPI_Comm mpi_comm, int keyval, void* value, void* extra) {
  (void)mpi_comm;
  (void)keyval;
  (void)extra;
  Comm* const comm = value;
  pthread_mutex_lock(&process.mutex);
  *(comm->before == NULL ? &process.first : &comm->before->after) = comm->after;
  *(comm->after == NULL ? &process.last : &comm->after->before) = comm->before;
  pthread_mutex_unlock(&process.mutex);
  EpicMpichQueueEnd(&comm->queue);
  EpicMpiCommFree(comm->hosts.epic);
  if (comm->hosts.several) epic_mpich.Comm_free(&comm->hosts.local);
  EpicMpiHostsFree(&comm->hosts);
  free(comm);
  return MPI_SUCCESS;
}

/* 0 without memory. */
static int FindOutside(MPI_Comm comm, EpicMpiOutside* outside) {
  int is_inter, ranks;
  PMPI_Comm_test_inter(comm, &is_inter);
  *outside = kEpicMpiInter;
  if (is_inter) return 1;
  int* const numbers = WorldRanks(comm, &ranks);
  if (numbers == NULL) return 0;
  *outside = ranks > 1 ? kEpicMpiInside : kEpicMpiOneRank;
  for (int rank = 0; rank < ranks; ++rank) {
    if (numbers[rank] == MPI_UNDEFINED) *outside = kEpicMpiSeveralJobs;
  }
  free(numbers);
  return 1;
}

/* Null without memory. */
static Comm* New(MPI_Comm mpi_comm) {
  int rank, ranks;
  PMPI_Comm_rank(mpi_comm, &rank);
  PMPI_Comm_size(mpi_comm, &ranks);
  Comm* const comm = calloc(1, sizeof *comm);
  if (comm == NULL || !FindOutside(mpi_comm, &comm->outside)) {
    free(comm);
    return NULL;
  }
  comm->hosts.comm = mpi_comm;
  comm->keeper = MPI_REQUEST_NULL;
  /* softnic, if it is to be used, is in the library path (epic-run): MPICH itself asks for the libibverbs. */
  comm->hosts.epic = EpicMpiCommNew(rank, ranks, &functions, &comm->hosts, NULL);
  if (comm->hosts.epic == NULL) {
    free(comm);
    return NULL;
  }
  EpicMpiCommKeepOut(comm->hosts.epic, comm->outside);
  comm->queue.epic = comm->hosts.epic;
  pthread_mutex_lock(&process.mutex);
  comm->before = process.last;
  *(process.last == NULL ? &process.first : &process.last->after) = comm;
  process.last = comm;
  pthread_mutex_unlock(&process.mutex);
  return comm;
}

/* MPICH's handles say what they are of, in the bits that mpi.h's constants have in common. */
static int IsComm(MPI_Comm comm) {
  const unsigned kind = (unsigned)comm >> 26;
  return (kind & 0xf) == ((unsigned)MPI_COMM_WORLD >> 26 & 0xf) && kind >> 4 != 0;
}

/* Whether it is a communicator; `value` is null if nothing is known of it. */
static int Look(MPI_Comm mpi_comm, void** value) {
  int found;
  if (!IsComm(mpi_comm) || PMPI_Comm_get_attr(mpi_comm, process.keyval, value, &found) != MPI_SUCCESS) {
    return 0;
  }
  if (!found) *value = NULL;
  return 1;
}

/* This rank could not take part in a call then, nor make it by the MPI alone: the others would wait. */
static EpicMpiHosts* WithoutMemory(MPI_Comm mpi_comm, int* error) {
  fprintf(stderr, "EPIC: no memory for what it knows of a communicator\n");
  *error = MPI_ERR_NO_MEM;
  PMPI_Comm_call_errhandler(mpi_comm, *error);
  return NULL;
}

EpicMpiHosts* EpicMpichHosts(MPI_Comm mpi_comm, int* error) {
  void* value;
  if (!Look(mpi_comm, &value)) return NULL;
  if (value == NULL) {
    value = New(mpi_comm);
    if (value == NULL) return WithoutMemory(mpi_comm, error);
    *error = PMPI_Comm_set_attr(mpi_comm, process.keyval, value);
    if (*error != MPI_SUCCESS) return NULL; /* the MPI has called the handler */
  }
  return &((Comm*)value)->hosts;
}

/* Null: there has been no call. */
static Comm* Known(MPI_Comm mpi_comm) {
  void* value;
  return Look(mpi_comm, &value) ? value : NULL;
}

void EpicMpichKeep(EpicMpiHosts* hosts, int more) {
  Comm* const comm = (Comm*)hosts;
  MPI_Request keeper = MPI_REQUEST_NULL;
  pthread_mutex_lock(&process.mutex);
  comm->requests += more;
  if (comm->requests == 0) {
    keeper = comm->keeper;
    comm->keeper = MPI_REQUEST_NULL;
  }
  pthread_mutex_unlock(&process.mutex);
  /* With it the communicator may go. */
  if (keeper != MPI_REQUEST_NULL) epic_mpich.Request_free(&keeper);
}

/* Has the MPI keep a communicator that is about to be freed until its requests of EPIC's have ended, as it
 * does for its own: a request that is never started. Whether there are such. */
static int Outlives(MPI_Comm mpi_comm, int* error) {
  Comm* const comm = Known(mpi_comm);
  int outlives;
  *error = MPI_SUCCESS;
  if (comm == NULL) return 0;
  pthread_mutex_lock(&process.mutex);
  outlives = comm->requests > 0;
  if (outlives && comm->keeper == MPI_REQUEST_NULL)
    *error = PMPI_Recv_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, mpi_comm, &comm->keeper);
  pthread_mutex_unlock(&process.mutex);
  return outlives;
}

int EpicMpichCommFree(MPI_Comm* comm) {
  int error;
  if (comm == NULL || !Outlives(*comm, &error) || error == MPI_SUCCESS) return kEpicMpiFallBack;
  return error;
}

/* Waits for the communicator's requests. MPICH itself would wait for persistent ones, too, which may never be
 * freed: they keep it as they do when it is freed. */
int EpicMpichCommDisconnect(MPI_Comm* mpi_comm) {
  Comm* const comm = mpi_comm == NULL ? NULL : Known(*mpi_comm);
  int error;
  if (comm == NULL) return kEpicMpiFallBack;
  while (EpicMpichIsBusyOf(&comm->hosts)) Progress();
  if (!Outlives(*mpi_comm, &error)) return kEpicMpiFallBack;
  return error != MPI_SUCCESS ? error : epic_mpich.Comm_free(mpi_comm);
}

/* Finds out which ranks of the world are on one host; 0 if any rank cannot go on. */
static int FindLeaders(int is_good) {
  MPI_Comm local;
  int leader;
  process.leaders = malloc((size_t)process.ranks * sizeof(int));
  int good = process.leaders != NULL && is_good;
  PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!good) return 0;
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  PMPI_Comm_rank(MPI_COMM_WORLD, &leader);
  PMPI_Bcast(&leader, 1, MPI_INT, 0, local);
  epic_mpich.Comm_free(&local);
  PMPI_Allgather(&leader, 1, MPI_INT, process.leaders, 1, MPI_INT, MPI_COMM_WORLD);
  return 1;
}

int EpicMpichBeginComms(int is_good) {
  PMPI_Comm_size(MPI_COMM_WORLD, &process.ranks);
  if (!FindLeaders(is_good)) return 0;
  PMPI_Comm_group(MPI_COMM_WORLD, &process.world);
  PMPI_Comm_dup(MPI_COMM_SELF, &process.own);
  PMPI_Comm_set_errhandler(process.own, MPI_ERRORS_RETURN);
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, OnDelete, &process.keyval, NULL);
  PMPI_Op_create(Least, 1, &process.least);
  PMPI_Op_create(Most, 1, &process.most);
  return 1;
}

void EpicMpichEndComms(void) {
  while (process.first != NULL) PMPI_Comm_delete_attr(process.first->hosts.comm, process.keyval);
  PMPI_Comm_free_keyval(&process.keyval);
  PMPI_Op_free(&process.least);
  PMPI_Op_free(&process.most);
  epic_mpich.Comm_free(&process.own);
  PMPI_Group_free(&process.world);
  free(process.leaders);
}
