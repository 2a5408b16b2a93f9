/* Calls that do not wait, nonblocking and persistent, of communicators with several ranks on a host: in
 * stages, each of which is a collective or a message of the MPI's within the host, or EPIC's call among the
 * hosts. docs/MPI.md, "How it works", has them. */
#ifndef EPIC_MPI_HOSTS_STAGES_H_
#define EPIC_MPI_HOSTS_STAGES_H_

#include "mpi/hosts/hosts.h"

/* Why a rank cannot make a call, by numbers that mean the same to all ranks. */
typedef enum { kEpicMpiCan, kEpicMpiNoMemory, kEpicMpiNoPart, kEpicMpiNotPacked } EpicMpiWhyNot;
#define EPIC_MPI_NO_PART "MPI_Allgather sends and receives parts of different sizes"

/* Calls of one order: those of a communicator, or one persistent call. */
typedef struct EpicMpiLine {
  EpicMpiHosts* hosts;
  EpicMpiComm* epic; /* the communicator's, or a persistent call's own */
  /* Of the ranks of this host. Their collectives have to be started in one order on all ranks, and so each of
   * the stages that run side by side has one to itself. A persistent call is under way once at a time, and
   * has one for all of them. */
  MPI_Comm agree, up, down;
  struct EpicMpiStaged *oldest, *newest;
  int begun;                /* how many are in a stage */
  int calls;                /* how many there are; any thread may read it */
  struct EpicMpiLine* next; /* of those with calls */
} EpicMpiLine;

/* A call under way. */
typedef struct EpicMpiStaged {
  EpicMpiLine* line;
  EpicMpiCall call;
  const char* in;
  char* out;
  int stage;
  int is_dropped; /* the ranks of the host have agreed that it is not made: nothing is done in other stages */
  int has_ended;  /* set last: the front end's from then on */
  int error;
  int64_t least[kEpicMpiAgreed];
  struct {
    int has_failed;
    char text[MPI_MAX_ERROR_STRING];
  } word;               /* of the leader, on how EPIC's call went */
  MPI_Request inner[2]; /* of this stage */
  char* memory;         /* the leader's, of all that are here */
  EpicMpiRequest* epic; /* the leader's call */
  struct EpicMpiStaged* next;
} EpicMpiStaged;

/* What a front end has to say beside what hosts.h wants of it.
 *
 * Whether a request of the MPI's has ended, which is freed then. Makes no progress: it is called from there.
 */
int EpicMpiHasEnded(MPI_Request* request, int* error);
/* Makes progress with the MPI's messages, and with calls in stages. */
void EpicMpiMakeProgress(void);

/* The line of a communicator, which has several ranks on a host. Collective within the host, as its calls
 * wait. An error of the MPI's. */
int EpicMpiLineOfComm(EpicMpiLine* line, EpicMpiHosts* hosts);
/* The same of a persistent call, whose communicator of the binding's is `epic`. */
int EpicMpiLineOfPersistent(EpicMpiLine* line, EpicMpiHosts* hosts, EpicMpiComm* epic);
/* Calls `free` with each communicator of a line without calls. */
void EpicMpiLineEnd(EpicMpiLine* line, void (*free_comm)(MPI_Comm* comm));

/* Starts a call that EPIC takes, with bytes in a row as in hosts.h; `in` of a call in place is what of `out`
 * has the input. `staged` and the buffers must be there until it has ended. All ranks of the host must call,
 * also one that cannot make the call: all of them get the error. */
void EpicMpiStageCall(EpicMpiLine* line, const EpicMpiCall* call, const void* in, void* out,
                      EpicMpiWhyNot why_not, EpicMpiStaged* staged);
/* Whether it has ended, with 0 or the code of an MPI error. */
int EpicMpiStagedHasEnded(EpicMpiStaged* staged, int* error);
/* Takes all calls as far as they can go. Never waits; does nothing if it is being done. */
void EpicMpiProgressStages(void);
/* Returns when a line has no calls. */
void EpicMpiLineWait(const EpicMpiLine* line);

#endif
