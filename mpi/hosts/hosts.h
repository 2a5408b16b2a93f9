/* Communicators with several ranks on a host: the MPI reduces and copies within the host, and one rank of
 * each, its leader, is in the group. In functions of every MPI, so that each front end compiles it with its
 * own mpi.h. */
#ifndef EPIC_MPI_HOSTS_HOSTS_H_
#define EPIC_MPI_HOSTS_HOSTS_H_

#include <mpi.h>

#include "mpi/binding/binding.h"

/* A communicator; a rank's number is that in it. */
typedef struct {
  EpicMpiComm* epic;
  MPI_Comm comm;
  int several;    /* whether there are several ranks on a host: the rest is of use then */
  MPI_Comm local; /* the ranks of this host; the one that is in the group is rank 0 */
  int* host_of;   /* each rank's host, which is the number of that host's rank in the group */
  int* local_of;  /* each rank's number in the communicator of its host */
} EpicMpiHosts;

static inline int EpicMpiRankIn(MPI_Comm comm) {
  int rank;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

static inline int EpicMpiRanksOf(MPI_Comm comm) {
  int ranks;
  PMPI_Comm_size(comm, &ranks);
  return ranks;
}

/* What a front end has to say.
 *
 * For every rank of the communicator the lowest one on its host. Collective; 0 or an error of the MPI's. */
int EpicMpiLeaders(const EpicMpiHosts* module, int* leaders);
/* That this communicator is none of the program's. */
void EpicMpiLocalMade(MPI_Comm local);
/* With what to reduce within a host what the call reduces, if the MPI's own has results that are not right.
 */
void EpicMpiLocalKind(const EpicMpiCall* call, MPI_Datatype* type, MPI_Op* op);
/* Waits until the communicator's calls in stages (stages.h) have ended, if there are such: a call that waits
 * must not overtake them on any host. */
void EpicMpiWaitForStages(const EpicMpiHosts* module);

/* A new error code of a class, with this text of EPIC's; the class itself if the MPI has no room. */
int EpicMpiErrorCode(int error_class, const char* text);

/* This rank's place in the group, and what is known of hosts from now on; a function of the binding's, of an
 * EpicMpiHosts of which `epic` and `comm` are set and all else is 0. */
int EpicMpiHostsPlace(void* module, EpicMpiPlace* place);
/* Frees what EpicMpiHostsPlace has made, but for `local`: an MPI that ends has functions of its own for it.
 */
void EpicMpiHostsFree(EpicMpiHosts* module);

/* The calls, where there are several ranks on a host; without derived types, and without MPI_IN_PLACE, in
 * place of which `in` is the buffer with the input. Return as EpicMpiRun does, on each rank. */
int EpicMpiHostsReduce(EpicMpiHosts* module, const EpicMpiCall* call, const void* in, void* out,
                       MPI_Datatype type, MPI_Op op);
int EpicMpiHostsScatter(EpicMpiHosts* module, const EpicMpiCall* call, const void* in, void* out,
                        MPI_Datatype type, MPI_Op op);
int EpicMpiHostsBcast(EpicMpiHosts* module, const EpicMpiCall* call, char* bytes);
int EpicMpiHostsAllgather(EpicMpiHosts* module, const EpicMpiCall* call, const char* in, char* out);
int EpicMpiHostsBarrier(EpicMpiHosts* module, const EpicMpiCall* call);
/* In place of a call that this rank cannot make, with several ranks on a host or without: an error on all
 * ranks, whose code it returns. */
int EpicMpiHostsFail(EpicMpiHosts* module, const EpicMpiCall* call, const char* why_not);

/* What calls that wait share with those in stages.
 *
 * What the ranks of a host agree on is the least of all ranks' numbers: INT64_MAX of a rank that can make the
 * call, less of one that cannot, and what must not differ. */
enum { kEpicMpiAgreed = 5 };
void EpicMpiPropose(const EpicMpiCall* call, int64_t why_not, int64_t* numbers);
int EpicMpiAreOneCall(const int64_t* least);
#define EPIC_MPI_MISMATCH "mismatch: the ranks of one host have called with different arguments"
/* The call among hosts. */
EpicMpiCall EpicMpiOfHosts(const EpicMpiHosts* module, const EpicMpiCall* call);
/* The whole buffer of a part's call in the order of hosts, from that of ranks, or back. */
void EpicMpiOrder(const EpicMpiHosts* module, size_t part, const char* from, char* to, int by_ranks);
/* Takes up an error of the leader's, which has this text, on another rank of the host. */
int EpicMpiHear(EpicMpiComm* epic, const char* text);

#endif
