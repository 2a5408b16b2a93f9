/* What an MPI's front end does with EPIC: everything but translating its arguments. In C, for MPIs are.
 *
 * Functions may be called by several threads, those of one communicator by one at a time; but for
 * EpicMpiTest, and EpicMpiRequestFree, which any thread may call for a request of which no other thread does.
 */
#ifndef EPIC_MPI_BINDING_BINDING_H_
#define EPIC_MPI_BINDING_BINDING_H_

#include <stddef.h>
#include <stdint.h>

#include "mpi/core/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's place in the group of a communicator: one rank of each host is in it. */
typedef struct {
  int group_rank;   /* of this rank; -1: another one of its host is in the group */
  int group_ranks;  /* how many hosts there are */
  int even;         /* whether all hosts have the same number of ranks */
  uint64_t members; /* the same on all ranks; of groups of other processes, or in another order, most likely
                       another number */
} EpicMpiPlace;

/* What is needed of the MPI; functions return 0 or the MPI's error code. `mpi_comm` is that of
 * EpicMpiCommNew. The first two are collective, by the MPI's own means. */
typedef struct {
  int (*min)(void* mpi_comm, int* value); /* the least of all ranks' */
  int (*broadcast)(void* mpi_comm, void* data, size_t bytes, int root);
  void (*progress)(void);                            /* of the MPI's messages */
  int (*error_code)(const char* text);               /* a new code of class MPI_ERR_OTHER with this text */
  int (*place)(void* mpi_comm, EpicMpiPlace* place); /* collective; asked once, before there is a group */
  /* Whether there are nonblocking and persistent calls with several ranks on a host (mpi/hosts/stages.h);
   * else these are the MPI's. */
  int has_stages;
} EpicMpiFunctions;

/* This rank's settings as text that ends with a zero, for the others; `manager` is what the MPI's
 * configuration says, may be null. Returns the bytes of the text, the zero included; what does not fit into
 * `size` is cut, and not usable then. */
size_t EpicMpiOwnSettings(const char* manager, char* text, size_t size);
/* Takes rank 0's settings; once, before any communicator is made. Whether EPIC is to be used at all.
 * `is_first`: of rank 0 itself, which says on standard error what is wrong with them. */
int EpicMpiConfigure(const char* text, int is_first);

/* The state of a communicator. `softnic`: a libibverbs to be used in place of the
 * system's, or null. Null without memory. */
typedef struct EpicMpiComm EpicMpiComm;
EpicMpiComm* EpicMpiCommNew(int rank, int ranks, const EpicMpiFunctions* mpi, void* mpi_comm,
                            const char* softnic);
/* All calls of this one are the MPI's, and counted as such. */
void EpicMpiCommKeepOut(EpicMpiComm* comm, EpicMpiOutside why);
/* A communicator of the front end's own: no call is EPIC's, none is in the report. */
void EpicMpiCommIgnore(EpicMpiComm* comm);
/* Does not wait for other ranks: the group is kept for another communicator of its ranks, or a thread leaves
 * it. Calls under way go on, if their requests are tested, and keep it. */
void EpicMpiCommFree(EpicMpiComm* comm);

/* Whether EPIC makes this call; the same on every rank. Before some such calls, the same on all ranks, the
 * ranks agree on the communicator's group, which waits for all of them: docs/MPI.md, "When a communicator
 * gets a group". `error` is 0, or what an MPI function has returned. */
int EpicMpiTakes(EpicMpiComm* comm, const EpicMpiCall* call, int* error);

/* Whether EPIC makes this call if it is not to wait for other ranks; the same on every rank. Never makes a
 * group, which would wait, so that calls before the first that waits are the MPI's. */
int EpicMpiTakesRequest(EpicMpiComm* comm, const EpicMpiCall* call);
/* For a persistent call, when it is made: a communicator of its own, with a group of its own, as ranks may
 * start persistent calls in different orders, and EPIC's calls have one. Waits for all ranks. Null if the
 * call is the MPI's, on every rank, with `error` as above. Belongs to `comm` and goes with it: must not be
 * freed. */
EpicMpiComm* EpicMpiCommOfPersistent(EpicMpiComm* comm, const EpicMpiCall* call, int* error);

/* Makes a call that EPIC takes, on a rank that is in the group; counts and root are those of the group.
 * Buffers are epic.h's. Returns 0, the code of an MPI error, or kEpicMpiFallBack: on every rank and before
 * anything was sent the call has been refused, and is the MPI's.
 */
enum { kEpicMpiFallBack = -1000 };
int EpicMpiRun(EpicMpiComm* comm, const EpicMpiCall* call, const void* send, void* recv);

/* Counts a call that EPIC has taken, on a rank that is not in the group: each time that it is made. */
void EpicMpiCountHanded(EpicMpiComm* comm, const EpicMpiCall* call);

/* Starts a call that EpicMpiTakesRequest has taken, or one of a communicator of EpicMpiCommOfPersistent, on a
 * rank that is in the group, whose count and root are those of the group; does not wait. It ends after those
 * that were started before it. The buffers are the request's until it has ended; the request is the caller's,
 * to be freed when it has. Null: the code of an MPI error is in `error`.
 */
typedef struct EpicMpiRequest EpicMpiRequest;
EpicMpiRequest* EpicMpiStart(EpicMpiComm* comm, const EpicMpiCall* call, const void* send, void* recv,
                             int* error);
/* Whether the call has ended, with 0 or the code of an MPI error; makes progress with all of its
 * communicator. */
int EpicMpiTest(EpicMpiRequest* request, int* error);
void EpicMpiRequestFree(EpicMpiRequest* request);

/* This rank cannot make a call that the others make: ends the group. Returns the code of the error. */
int EpicMpiFail(EpicMpiComm* comm, const char* text);

/* Waits until all groups have been left; `is_first` prints the report if there is to be one. */
void EpicMpiFinalize(int is_first);

#ifdef __cplusplus
}
#endif
#endif
