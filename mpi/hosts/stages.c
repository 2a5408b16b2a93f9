/* The stages of a call, for each of which the order of calls is that of their line: no call enters a stage
 * before the one in front of it has. */
#include "mpi/hosts/stages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/binding/rest.h"

typedef EpicMpiStaged Call;

enum { kWaits, kAgrees, kGoesUp, kIsAmongHosts, kComesDown, kHasEnded };

/* So many calls of a line are in a stage; the others wait, as those of the binding's do. */
enum { kMostBegun = 64 };
enum { kUpTag = 3, kDownTag = 4 };

/* The calls' lists, and what goes on in them. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static EpicMpiLine* busy;

/* By EpicMpiType and EpicMpiOp: what of the MPI's has the same results as the type that the program has. */
static const MPI_Datatype types[kEpicMpiTypes] = {MPI_DATATYPE_NULL, MPI_FLOAT,    MPI_DOUBLE,  MPI_INT8_T,
                                                  MPI_INT16_T,       MPI_INT32_T,  MPI_INT64_T, MPI_UINT8_T,
                                                  MPI_UINT16_T,      MPI_UINT32_T, MPI_UINT64_T};
static const MPI_Op ops[kEpicMpiOps] = {MPI_OP_NULL, MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX,
                                        MPI_BAND,    MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR};

static EpicMpiHosts* HostsOf(const Call* call) { return call->line->hosts; }
static int IsLeader(const Call* call) { return EpicMpiRankIn(HostsOf(call)->local) == 0; }

/* The root's number on this host; -1: it is on another one. */
static int RootHere(const Call* call) {
  const EpicMpiHosts* const hosts = HostsOf(call);
  const int root = call->call.root;
  return hosts->host_of[root] == hosts->host_of[EpicMpiRankIn(hosts->comm)] ? hosts->local_of[root] : -1;
}

static int IsScatter(const Call* call) {
  return call->call.collective == kEpicMpiReduceScatterBlock ||
         call->call.collective == kEpicMpiReduceScatter;
}

/* The bytes of all ranks' parts, and of those of this host's. The binding takes no call of which an int does
 * not have them. */
static size_t All(const Call* call) {
  return (size_t)call->call.bytes * (size_t)EpicMpiRanksOf(HostsOf(call)->comm);
}
static size_t OfHost(const Call* call) {
  return (size_t)call->call.bytes * (size_t)EpicMpiRanksOf(HostsOf(call)->local);
}

/* What the leader needs beside the program's buffers. */
static size_t Room(const Call* call) {
  switch (call->call.collective) {
    case kEpicMpiAllreduce:
    case kEpicMpiReduce:
      return (size_t)call->call.bytes;
    case kEpicMpiAllgather:
      return All(call) + OfHost(call);
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      return 2 * All(call);
    default:
      return 0;
  }
}

/* An error of the MPI's is the call's; the leader tells the other hosts. */
static void Note(Call* call, int error) {
  if (error == MPI_SUCCESS || call->error != 0) return;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  PMPI_Error_string(error, text, &length);
  call->error = EpicMpiHear(call->line->epic, text);
}

/* What the function said that has started an inner request; one that has failed may leave anything there. */
static void Started(Call* call, MPI_Request* request, int error) {
  if (error != MPI_SUCCESS) *request = MPI_REQUEST_NULL;
  Note(call, error);
}

static void Agree(Call* call) {
  const size_t room = IsLeader(call) ? Room(call) : 0;
  if (room != 0 && (call->memory = malloc(room)) == NULL) call->least[0] = kEpicMpiNoMemory;
  MPI_Request* const request = &call->inner[0];
  Started(call, request,
          PMPI_Iallreduce(MPI_IN_PLACE, call->least, kEpicMpiAgreed, MPI_INT64_T, MPI_MIN, call->line->agree,
                          request));
}

static void HearAgreement(Call* call) {
  const char* why_not = NULL;
  if (call->error == 0) {
    if (call->least[0] == kEpicMpiNoMemory)
      why_not = "no memory for a call on a host with several ranks";
    else if (call->least[0] == kEpicMpiNoPart)
      why_not = EPIC_MPI_NO_PART;
    else if (call->least[0] == kEpicMpiNotPacked)
      why_not = "the MPI does not pack a derived type";
    else if (!EpicMpiAreOneCall(call->least))
      why_not = EPIC_MPI_MISMATCH;
  }
  if (why_not != NULL) call->error = EpicMpiFail(call->line->epic, why_not);
  call->is_dropped = call->error != 0;
}

/* From the ranks of the host to the leader. */
static void GoUp(Call* call) {
  const EpicMpiCall* const it = &call->call;
  const MPI_Comm comm = call->line->up;
  MPI_Request* const request = &call->inner[0];
  const int bytes = (int)it->bytes;
  const int sender = it->collective == kEpicMpiBcast ? RootHere(call) : -1;
  switch (it->collective) {
    case kEpicMpiBcast:
      if (sender <= 0) return; /* of another host, or the leader */
      if (EpicMpiRankIn(comm) == sender)
        Started(call, request, PMPI_Isend(call->out, bytes, MPI_BYTE, 0, kUpTag, comm, request));
      else if (IsLeader(call))
        Started(call, request, PMPI_Irecv(call->out, bytes, MPI_BYTE, sender, kUpTag, comm, request));
      return;
    case kEpicMpiAllgather: {
      char* const own = call->memory == NULL ? NULL : call->memory + All(call);
      Started(call, request, PMPI_Igather(call->in, bytes, MPI_BYTE, own, bytes, MPI_BYTE, 0, comm, request));
      return;
    }
    case kEpicMpiBarrier:
      return;
    default: {
      const int count = (int)it->count * (IsScatter(call) ? EpicMpiRanksOf(HostsOf(call)->comm) : 1);
      Started(call, request,
              PMPI_Ireduce(call->in, call->memory, count, types[it->type], ops[it->op], 0, comm, request));
    }
  }
}

/* The leader's part. */
static void CallHosts(Call* call) {
  const EpicMpiHosts* const hosts = HostsOf(call);
  const EpicMpiCall of_hosts = EpicMpiOfHosts(hosts, &call->call);
  char *send = call->memory, *recv = call->memory;
  if (call->call.collective == kEpicMpiBcast) send = recv = call->out;
  if (call->call.collective == kEpicMpiAllgather) send += All(call);
  if (IsScatter(call)) {
    send += All(call);
    EpicMpiOrder(hosts, (size_t)call->call.bytes, call->memory, send, 0);
  }
  call->epic = EpicMpiStart(call->line->epic, &of_hosts, send, recv, &call->error);
}

/* Whether it has ended. */
static int HearHosts(Call* call) {
  if (call->epic == NULL) return 1;
  if (!EpicMpiTest(call->epic, &call->error)) return 0;
  EpicMpiRequestFree(call->epic);
  call->epic = NULL;
  return 1;
}

/* The root gets the result of Reduce from its host's leader. */
static void GiveToRoot(Call* call) {
  const int root = RootHere(call);
  const int bytes = (int)call->call.bytes;
  const MPI_Comm comm = call->line->down;
  MPI_Request* const request = &call->inner[1];
  if (root == 0 && IsLeader(call) && call->error == 0) memcpy(call->out, call->memory, (size_t)bytes);
  if (root <= 0) return;
  if (IsLeader(call))
    Started(call, request, PMPI_Isend(call->memory, bytes, MPI_BYTE, root, kDownTag, comm, request));
  else if (EpicMpiRankIn(comm) == root)
    Started(call, request, PMPI_Irecv(call->out, bytes, MPI_BYTE, 0, kDownTag, comm, request));
}

/* From the leader, first its word. The result comes also if there is none: it is waited for already. */
static void ComeDown(Call* call) {
  const EpicMpiCall* const it = &call->call;
  const MPI_Comm comm = call->line->down;
  MPI_Request* const request = &call->inner[1];
  const int is_good = call->error == 0;
  int bytes = (int)it->bytes, length;
  if (IsLeader(call)) {
    call->word.has_failed = !is_good;
    if (!is_good) PMPI_Error_string(call->error, call->word.text, &length);
  }
  Started(call, &call->inner[0],
          PMPI_Ibcast(&call->word, sizeof call->word, MPI_BYTE, 0, comm, &call->inner[0]));
  switch (it->collective) {
    case kEpicMpiBarrier:
      return;
    case kEpicMpiReduce:
      GiveToRoot(call);
      return;
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      Started(call, request,
              PMPI_Iscatter(call->memory, bytes, MPI_BYTE, call->out, bytes, MPI_BYTE, 0, comm, request));
      return;
    case kEpicMpiAllreduce:
      if (IsLeader(call) && is_good) memcpy(call->out, call->memory, (size_t)bytes);
      break;
    case kEpicMpiAllgather:
      bytes = (int)All(call);
      if (IsLeader(call) && is_good)
        EpicMpiOrder(HostsOf(call), (size_t)it->bytes, call->memory, call->out, 1);
      break;
    default:
      break;
  }
  Started(call, request, PMPI_Ibcast(call->out, bytes, MPI_BYTE, 0, comm, request));
}

static void End(Call* call) {
  if (!IsLeader(call) && call->word.has_failed) call->error = EpicMpiHear(call->line->epic, call->word.text);
  free(call->memory);
  call->memory = NULL;
  --call->line->begun;
}

static int InnerHaveEnded(Call* call) {
  for (int i = 0; i < 2; ++i) {
    int error = MPI_SUCCESS;
    if (call->inner[i] == MPI_REQUEST_NULL) continue;
    if (!EpicMpiHasEnded(&call->inner[i], &error)) return 0;
    Note(call, error);
  }
  return 1;
}

/* Takes a call to its next stage; 0: it has to stay where it is. */
static int Step(Call* call) {
  if (!InnerHaveEnded(call)) return 0;
  switch (call->stage) {
    case kWaits:
      if (call->line->begun == kMostBegun) return 0;
      ++call->line->begun;
      Agree(call);
      break;
    case kAgrees:
      HearAgreement(call);
      if (!call->is_dropped) GoUp(call);
      break;
    case kGoesUp:
      if (IsLeader(call) && call->error == 0) CallHosts(call);
      break;
    case kIsAmongHosts:
      if (!HearHosts(call)) return 0;
      if (!call->is_dropped) ComeDown(call);
      break;
    default:
      End(call);
  }
  ++call->stage;
  return 1;
}

/* Takes the calls of a line as far as they can go; those that have ended go to `ended`. */
static void Advance(EpicMpiLine* line, Call** ended) {
  int before = kHasEnded;
  for (Call* call = line->oldest; call != NULL && before != kWaits; call = call->next) {
    while (call->stage < before && Step(call)) continue;
    before = call->stage;
  }
  while (line->oldest != NULL && line->oldest->stage == kHasEnded) {
    Call* const call = line->oldest;
    line->oldest = call->next;
    call->next = *ended;
    *ended = call;
  }
  if (line->oldest == NULL) line->newest = NULL;
}

/* With the mutex held. */
static void AdvanceAll(void) {
  Call* ended = NULL;
  for (EpicMpiLine** at = &busy; *at != NULL;) {
    EpicMpiLine* const line = *at;
    Advance(line, &ended);
    if (line->oldest == NULL)
      *at = line->next;
    else
      at = &line->next;
  }
  /* With its last call a line may be gone. */
  while (ended != NULL) {
    Call* const call = ended;
    ended = call->next;
    (void)__atomic_sub_fetch(&call->line->calls, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&call->has_ended, 1, __ATOMIC_RELEASE);
  }
}

void EpicMpiProgressStages(void) {
  if (__atomic_load_n(&busy, __ATOMIC_ACQUIRE) == NULL) return;
  if (pthread_mutex_trylock(&mutex) != 0) return;
  AdvanceAll();
  pthread_mutex_unlock(&mutex);
}

void EpicMpiStageCall(EpicMpiLine* line, const EpicMpiCall* call, const void* in, void* out,
                      EpicMpiWhyNot why_not, EpicMpiStaged* staged) {
  *staged = (Call){
      .line = line, .call = *call, .in = in, .out = out, .inner = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
  EpicMpiPropose(call, why_not == kEpicMpiCan ? INT64_MAX : (int64_t)why_not, staged->least);
  if (!IsLeader(staged)) EpicMpiCountHanded(line->epic, call);
  (void)__atomic_add_fetch(&line->calls, 1, __ATOMIC_ACQ_REL);
  pthread_mutex_lock(&mutex);
  if (line->oldest == NULL) {
    line->next = busy;
    busy = line;
  }
  *(line->oldest == NULL ? &line->oldest : &line->newest->next) = staged;
  line->newest = staged;
  AdvanceAll();
  pthread_mutex_unlock(&mutex);
}

int EpicMpiStagedHasEnded(EpicMpiStaged* staged, int* error) {
  if (!__atomic_load_n(&staged->has_ended, __ATOMIC_ACQUIRE)) return 0;
  *error = staged->error;
  return 1;
}

void EpicMpiLineWait(const EpicMpiLine* line) {
  for (EpicMpiWaiting waiting = {0, 0}; __atomic_load_n(&line->calls, __ATOMIC_ACQUIRE) != 0;
       EpicMpiRest(&waiting))
    EpicMpiMakeProgress();
}

static int Duplicate(MPI_Comm local, MPI_Comm* copy) {
  const int error = PMPI_Comm_dup(local, copy);
  if (error != MPI_SUCCESS) {
    *copy = MPI_COMM_NULL;
    return error;
  }
  PMPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
  EpicMpiLocalMade(*copy);
  return MPI_SUCCESS;
}

int EpicMpiLineOfComm(EpicMpiLine* line, EpicMpiHosts* hosts) {
  *line = (EpicMpiLine){.hosts = hosts,
                        .epic = hosts->epic,
                        .agree = hosts->local, /* with calls that wait, which do not overtake */
                        .up = MPI_COMM_NULL,
                        .down = MPI_COMM_NULL};
  const int error = Duplicate(hosts->local, &line->up);
  return error != MPI_SUCCESS ? error : Duplicate(hosts->local, &line->down);
}

int EpicMpiLineOfPersistent(EpicMpiLine* line, EpicMpiHosts* hosts, EpicMpiComm* epic) {
  *line = (EpicMpiLine){.hosts = hosts, .epic = epic};
  const int error = Duplicate(hosts->local, &line->up);
  line->agree = line->down = line->up;
  return error;
}

void EpicMpiLineEnd(EpicMpiLine* line, void (*free_comm)(MPI_Comm* comm)) {
  if (line->up != MPI_COMM_NULL && line->up != line->down) free_comm(&line->up);
  if (line->down != MPI_COMM_NULL) free_comm(&line->down);
}
