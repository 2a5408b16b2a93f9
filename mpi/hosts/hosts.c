/* Communicators with several ranks on a host: the MPI reduces and copies within the host, and one rank of
 * each, its leader, is in the group. Every call ends within the host with the leader's word on how it went.
 */
#include "mpi/hosts/hosts.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/binding/rest.h"

enum { kTag = 1, kWordTag = 2 };

int EpicMpiErrorCode(int error_class, const char* text) {
  char cut[MPI_MAX_ERROR_STRING];
  int code;
  snprintf(cut, sizeof cut, "EPIC: %s", text);
  if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS ||
      PMPI_Add_error_string(code, cut) != MPI_SUCCESS) {
    return error_class;
  }
  return code;
}

static int IsLeader(const EpicMpiHosts* module) { return EpicMpiRankIn(module->local) == 0; }
static int Host(const EpicMpiHosts* module) { return module->host_of[EpicMpiRankIn(module->comm)]; }

/* From each rank's leader: hosts in the order of their leaders. Returns how many; `even` as EpicMpiPlace has
 * it. */
static int Number(EpicMpiHosts* module, const int* leaders, int* even) {
  const int ranks = EpicMpiRanksOf(module->comm);
  int hosts = 0;
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    /* The leader is the first of its host, and has been seen. */
    module->host_of[rank] = leaders[rank] == rank ? hosts++ : module->host_of[leaders[rank]];
    module->local_of[rank] = 0;
    for (int other = 0; other < rank; ++other) module->local_of[rank] += leaders[other] == leaders[rank];
    if (module->local_of[rank] + 1 > most) most = module->local_of[rank] + 1;
  }
  *even = hosts * most == ranks;
  return hosts;
}

/* From the ranks of the world that are leaders, in their order: FNV-1a of these. 0 without memory, on this
 * rank alone, which costs no more than a group that is made anew. */
static uint64_t Members(const EpicMpiHosts* module, const int* leaders) {
  const int ranks = EpicMpiRanksOf(module->comm);
  int* const of_world = malloc((size_t)ranks * sizeof(int));
  MPI_Group group, world;
  uint64_t members = 0xcbf29ce484222325;
  if (of_world == NULL) return 0;
  PMPI_Comm_group(module->comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_translate_ranks(group, ranks, leaders, world, of_world);
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  for (int rank = 0; rank < ranks; ++rank) {
    if (leaders[rank] == rank) members = (members ^ (uint64_t)of_world[rank]) * 0x100000001b3;
  }
  free(of_world);
  return members;
}

int EpicMpiHostsPlace(void* of, EpicMpiPlace* place) {
  EpicMpiHosts* const module = of;
  const int ranks = EpicMpiRanksOf(module->comm);
  const int rank = EpicMpiRankIn(module->comm);
  *place = (EpicMpiPlace){.group_rank = -1, .group_ranks = 1, .even = 1};
  int* const leaders = malloc((size_t)ranks * sizeof(int));
  module->host_of = malloc((size_t)ranks * sizeof(int));
  module->local_of = malloc((size_t)ranks * sizeof(int));
  int error =
      leaders == NULL || module->host_of == NULL || module->local_of == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  if (error == MPI_SUCCESS) error = EpicMpiLeaders(module, leaders);
  if (error == MPI_SUCCESS) {
    place->group_ranks = Number(module, leaders, &place->even);
    if (leaders[rank] == rank) place->group_rank = module->host_of[rank];
    if (place->group_ranks > 1) place->members = Members(module, leaders);
    if (place->group_ranks > 1 && place->group_ranks < ranks) {
      error = PMPI_Comm_split(module->comm, module->host_of[rank], rank, &module->local);
      module->several = error == MPI_SUCCESS;
      if (module->several) {
        PMPI_Comm_set_errhandler(module->local, MPI_ERRORS_RETURN);
        EpicMpiLocalMade(module->local);
      }
    }
  }
  free(leaders);
  return error;
}

void EpicMpiHostsFree(EpicMpiHosts* module) {
  free(module->host_of);
  free(module->local_of);
}

/* From the leader to this rank. While it waits, whom it waits for may want this processor. */
static int Hear(const EpicMpiHosts* module, void* word, int bytes) {
  MPI_Request request;
  EpicMpiWaiting waiting = {0, 0};
  int heard = 0;
  int error = PMPI_Irecv(word, bytes, MPI_BYTE, 0, kWordTag, module->local, &request);
  while (error == MPI_SUCCESS && !heard) {
    error = PMPI_Test(&request, &heard, MPI_STATUS_IGNORE);
    if (!heard) EpicMpiRest(&waiting);
  }
  return error;
}

/* From the leader to all ranks of the host. */
static int Tell(const EpicMpiHosts* module, void* word, int bytes) {
  int error = MPI_SUCCESS;
  if (!IsLeader(module)) return Hear(module, word, bytes);
  for (int rank = 1; error == MPI_SUCCESS && rank < EpicMpiRanksOf(module->local); ++rank) {
    error = PMPI_Send(word, bytes, MPI_BYTE, rank, kWordTag, module->local);
  }
  return error;
}

int EpicMpiHear(EpicMpiComm* epic, const char* text) {
  static const char prefix[] = "EPIC: ";
  const size_t skip = strncmp(text, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
  return EpicMpiFail(epic, text + skip);
}

/* Hands the leader's word to all ranks of the host: 0, kEpicMpiFallBack, or an error, of which every rank
 * makes a code of its own with the same text. */
static int Share(EpicMpiHosts* module, int result) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (IsLeader(module) && result != 0 && result != kEpicMpiFallBack) {
    PMPI_Error_string(result, text, &length);
    /* If it is the MPI's: the other hosts' leaders have to learn of it. */
    result = EpicMpiFail(module->epic, text);
  }
  int error = Tell(module, &result, sizeof result);
  if (error != MPI_SUCCESS || result == 0 || result == kEpicMpiFallBack) return error ? error : result;
  error = Tell(module, text, sizeof text);
  if (error != MPI_SUCCESS || IsLeader(module)) return error ? error : result;
  return EpicMpiHear(module->epic, text);
}

void EpicMpiPropose(const EpicMpiCall* call, int64_t why_not, int64_t* numbers) {
  const int64_t what =
      (int64_t)(((int)call->collective * kEpicMpiTypes + (int)call->type) * kEpicMpiOps + (int)call->op)
          << 32 |
      call->root;
  /* Of what must not differ the least and the greatest. */
  const int64_t own[kEpicMpiAgreed] = {why_not, what, -what, call->bytes, -call->bytes};
  memcpy(numbers, own, sizeof own);
}

int EpicMpiAreOneCall(const int64_t* least) { return least[1] == -least[2] && least[3] == -least[4]; }

/* The ranks of the host agree that all of them can make the call, and that it is the same one: a rank that
 * went away by itself would leave the others waiting. `why_not`: null if this rank can. Returns 0, or on
 * every rank the code of an error, which has ended the group. */
static int Agree(EpicMpiHosts* module, const EpicMpiCall* call, const char* why_not) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int64_t least[kEpicMpiAgreed];
  EpicMpiWaitForStages(module);
  EpicMpiPropose(call, why_not == NULL ? INT64_MAX : EpicMpiRankIn(module->local), least);
  int error = PMPI_Allreduce(MPI_IN_PLACE, least, kEpicMpiAgreed, MPI_INT64_T, MPI_MIN, module->local);
  if (error != MPI_SUCCESS) return error;
  if (least[0] == INT64_MAX) {
    return EpicMpiAreOneCall(least) ? 0 : EpicMpiFail(module->epic, EPIC_MPI_MISMATCH);
  }
  if (why_not != NULL) snprintf(text, sizeof text, "%s", why_not);
  error = PMPI_Bcast(text, sizeof text, MPI_BYTE, (int)least[0], module->local);
  return error != MPI_SUCCESS ? error : EpicMpiFail(module->epic, text);
}

int EpicMpiHostsFail(EpicMpiHosts* module, const EpicMpiCall* call, const char* why_not) {
  return module->several ? Agree(module, call, why_not) : EpicMpiFail(module->epic, why_not);
}

/* Agrees, with memory that the leader needs. */
static int AgreeWithMemory(EpicMpiHosts* module, const EpicMpiCall* call, int64_t bytes, char** memory) {
  *memory = IsLeader(module) ? malloc((size_t)bytes) : NULL;
  const int lacks = IsLeader(module) && *memory == NULL;
  const int error = Agree(module, call, lacks ? "no memory for the ranks of this host" : NULL);
  if (error != 0) free(*memory);
  return error;
}

EpicMpiCall EpicMpiOfHosts(const EpicMpiHosts* module, const EpicMpiCall* call) {
  EpicMpiCall of_hosts = *call;
  switch (call->collective) {
    case kEpicMpiReduce:
    case kEpicMpiBcast:
      of_hosts.root = module->host_of[call->root];
      break;
    case kEpicMpiAllgather:
    case kEpicMpiReduceScatterBlock:
    case kEpicMpiReduceScatter:
      of_hosts.count *= EpicMpiRanksOf(module->local);
      of_hosts.bytes *= EpicMpiRanksOf(module->local);
      break;
    default:
      break;
  }
  return of_hosts;
}

void EpicMpiOrder(const EpicMpiHosts* module, size_t part, const char* from, char* to, int by_ranks) {
  const int ranks = EpicMpiRanksOf(module->comm);
  const size_t per_host = (size_t)EpicMpiRanksOf(module->local);
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t at = ((size_t)module->host_of[rank] * per_host + (size_t)module->local_of[rank]) * part;
    memcpy(to + (by_ranks ? (size_t)rank * part : at), from + (by_ranks ? at : (size_t)rank * part), part);
  }
}

/* The MPI counts in int: how much of the rest goes at once. */
static int AtOnce(int64_t rest) { return rest < 1 << 30 ? (int)rest : 1 << 30; }

/* Bytes in a row, of any number, from the leader to its host's ranks. */
static int LocalBcast(const EpicMpiHosts* module, char* bytes, int64_t count) {
  int error = MPI_SUCCESS;
  for (int64_t done = 0; error == MPI_SUCCESS && done < count; done += AtOnce(count - done)) {
    error = PMPI_Bcast(bytes + done, AtOnce(count - done), MPI_BYTE, 0, module->local);
  }
  return error;
}

/* The same from one rank of the host to another, which may be itself; the others do nothing. */
static int Move(const EpicMpiHosts* module, int sender, const char* from, int receiver, char* to,
                int64_t count) {
  const int rank = EpicMpiRankIn(module->local);
  int error = MPI_SUCCESS;
  if (sender == receiver) {
    if (rank == sender && from != to) memcpy(to, from, (size_t)count);
    return error;
  }
  for (int64_t done = 0; error == MPI_SUCCESS && done < count; done += AtOnce(count - done)) {
    const int length = AtOnce(count - done);
    if (rank == sender) error = PMPI_Send(from + done, length, MPI_BYTE, receiver, kTag, module->local);
    if (rank == receiver)
      error = PMPI_Recv(to + done, length, MPI_BYTE, sender, kTag, module->local, MPI_STATUS_IGNORE);
  }
  return error;
}

/* The sum of the host's ranks, of any number of elements, to the leader. */
static int LocalReduce(const EpicMpiHosts* module, const EpicMpiCall* call, const char* in, char* sum,
                       int64_t elements, MPI_Datatype type, MPI_Op op) {
  const size_t size = (size_t)(call->bytes / call->count);
  int error = MPI_SUCCESS;
  EpicMpiLocalKind(call, &type, &op);
  for (int64_t done = 0; error == MPI_SUCCESS && done < elements; done += AtOnce(elements - done)) {
    const size_t at = (size_t)done * size;
    error = PMPI_Reduce(in + at, sum == NULL ? NULL : sum + at, AtOnce(elements - done), type, op, 0,
                        module->local);
  }
  return error;
}

int EpicMpiHostsReduce(EpicMpiHosts* module, const EpicMpiCall* call, const void* in, void* out,
                       MPI_Datatype type, MPI_Op op) {
  const int to_all = call->collective == kEpicMpiAllreduce;
  const int root_is_here = !to_all && module->host_of[call->root] == Host(module);
  char* sum;
  int error = AgreeWithMemory(module, call, call->bytes, &sum);
  if (error != 0) return error;
  error = LocalReduce(module, call, in, sum, call->count, type, op);
  if (error == 0 && IsLeader(module)) {
    const EpicMpiCall of_hosts = EpicMpiOfHosts(module, call);
    error = EpicMpiRun(module->epic, &of_hosts, sum, sum);
  }
  error = Share(module, error);
  if (error == 0 && to_all) {
    if (IsLeader(module)) memcpy(out, sum, (size_t)call->bytes);
    error = LocalBcast(module, out, call->bytes);
  }
  if (error == 0 && root_is_here)
    error = Move(module, 0, sum, module->local_of[call->root], out, call->bytes);
  free(sum);
  return error;
}

int EpicMpiHostsScatter(EpicMpiHosts* module, const EpicMpiCall* call, const void* in, void* out,
                        MPI_Datatype type, MPI_Op op) {
  const int per_host = EpicMpiRanksOf(module->local);
  const int64_t all = call->bytes * EpicMpiRanksOf(module->comm);
  char* sum;
  int error = AgreeWithMemory(module, call, 2 * all, &sum);
  if (error != 0) return error;
  error = LocalReduce(module, call, in, sum, call->count * EpicMpiRanksOf(module->comm), type, op);
  if (error == 0 && IsLeader(module)) {
    const EpicMpiCall of_hosts = EpicMpiOfHosts(module, call);
    EpicMpiOrder(module, (size_t)call->bytes, sum, sum + all, 0);
    error = EpicMpiRun(module->epic, &of_hosts, sum + all, sum);
  }
  error = Share(module, error);
  for (int rank = 0; error == 0 && rank < per_host; ++rank) {
    error = Move(module, 0, sum == NULL ? NULL : sum + rank * call->bytes, rank, out, call->bytes);
  }
  free(sum);
  return error;
}

int EpicMpiHostsBcast(EpicMpiHosts* module, const EpicMpiCall* call, char* bytes) {
  int error = Agree(module, call, NULL);
  if (error != 0) return error;
  if (module->host_of[call->root] == Host(module)) {
    error = Move(module, module->local_of[call->root], bytes, 0, bytes, call->bytes);
  }
  if (error == 0 && IsLeader(module)) {
    const EpicMpiCall of_hosts = EpicMpiOfHosts(module, call);
    error = EpicMpiRun(module->epic, &of_hosts, bytes, bytes);
  }
  error = Share(module, error);
  return error != 0 ? error : LocalBcast(module, bytes, call->bytes);
}

int EpicMpiHostsAllgather(EpicMpiHosts* module, const EpicMpiCall* call, const char* in, char* out) {
  const int per_host = EpicMpiRanksOf(module->local);
  const int64_t all = call->bytes * EpicMpiRanksOf(module->comm);
  char* parts;
  int error = AgreeWithMemory(module, call, all + call->bytes * per_host, &parts);
  if (error != 0) return error;
  char* const own = parts == NULL ? NULL : parts + all;
  for (int rank = 0; error == 0 && rank < per_host; ++rank) {
    error = Move(module, rank, in, 0, own == NULL ? NULL : own + rank * call->bytes, call->bytes);
  }
  if (error == 0 && IsLeader(module)) {
    const EpicMpiCall of_hosts = EpicMpiOfHosts(module, call);
    error = EpicMpiRun(module->epic, &of_hosts, own, parts);
    if (error == 0) EpicMpiOrder(module, (size_t)call->bytes, parts, out, 1);
  }
  error = Share(module, error);
  if (error == 0) error = LocalBcast(module, out, all);
  free(parts);
  return error;
}

int EpicMpiHostsBarrier(EpicMpiHosts* module, const EpicMpiCall* call) {
  int error = Agree(module, call, NULL);
  if (error != 0) return error;
  if (IsLeader(module)) error = EpicMpiRun(module->epic, call, NULL, NULL);
  return Share(module, error);
}
