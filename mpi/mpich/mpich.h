/* The front end of MPICH: what its parts share. */
#ifndef EPIC_MPI_MPICH_MPICH_H_
#define EPIC_MPI_MPICH_MPICH_H_

#include "mpi/hosts/hosts.h"
#include "mpi/mpich/front.h"

/* MPICH's own functions, of those that libepic_mpi.so has by both of their names. What this library calls as
 * PMPI_Allreduce, PMPI_Reduce, PMPI_Bcast and PMPI_Allgather are these, too (process.c). */
#define EPIC_MPICH_OWN(f)                                                                                 \
  f(Wait) f(Waitany) f(Waitsome) f(Test) f(Testall) f(Testany) f(Testsome) f(Request_get_status) f(Start) \
      f(Request_free) f(Cancel) f(Send) f(Ibarrier) f(Comm_free) f(Allreduce) f(Reduce) f(Bcast)          \
          f(Allgather)
#define EPIC_MPICH_OWN_MEMBER(name) __typeof__(PMPI_##name)* name;
typedef struct {
  EPIC_MPICH_OWN(EPIC_MPICH_OWN_MEMBER)
} EpicMpichOwnFunctions;
extern EpicMpichOwnFunctions epic_mpich;
/* Before they are called; 0: MPICH has not all of them. Every MPI has those that are called before that is
 * agreed on. */
int EpicMpichFindOwn(void);

/* Calls of one order that do not wait, those of a communicator or of one persistent call, from the oldest. */
typedef struct EpicMpichQueue {
  EpicMpiComm* epic;
  int tag; /* 0: there has been no call, else one more than that of the messages that end its requests */
  struct EpicMpichRequest *oldest, *newest;
  struct EpicMpichQueue* next; /* of those with calls */
} EpicMpichQueue;

/* What EPIC knows of a communicator. `hosts` is first, for the binding. */
typedef struct EpicMpichComm {
  EpicMpiHosts hosts;
  EpicMpiOutside outside;
  EpicMpichQueue queue;
  int requests;       /* of the program, those of persistent calls too */
  MPI_Request keeper; /* of one that the program has freed before its requests */
  struct EpicMpichComm *before, *after;
} EpicMpichComm;

/* comms.c: what EPIC knows of communicators.
 *
 * Once for a process, collective over all ranks. 0 if a rank has no memory, or is not good for it. */
int EpicMpichBeginComms(int is_good);
/* Gives up every group, in the order in which all ranks have come to the communicators. */
void EpicMpichEndComms(void);
/* A communicator, also one that can have no group; null: it is none, and its calls are the MPI's. Or there
 * is no memory: `error` is not 0 then, and the communicator's error handler has been called. */
EpicMpiHosts* EpicMpichHosts(MPI_Comm comm, int* error);
/* A communicator of this rank alone that the program does not know. */
MPI_Comm EpicMpichOwn(void);
/* What has been returned stays, with its MPI_Comm, until this has been called as often with -1 as with 1. */
void EpicMpichKeep(EpicMpiHosts* hosts, int more);

/* The class of an error as a program is to see it: EPIC's own is MPI_ERR_OTHER. */
int EpicMpichErrorClass(int error_class);

/* types.c: what EPIC reduces of a type and an operation; kEpicMpiNoType, kEpicMpiNoOp: nothing. */
EpicMpiType EpicMpichTypeOf(MPI_Datatype type);
EpicMpiOp EpicMpichOpOf(MPI_Op op);
/* Whether this can be a type: the MPI's own functions do not survive all that cannot. */
int EpicMpichIsType(MPI_Datatype type);
/* Whether this can be an operation. */
int EpicMpichIsOp(MPI_Op op);
/* Whether it is one of the MPI's own. */
int EpicMpichIsNamed(MPI_Datatype type);
/* Whether the MPI takes it for data: one of its own, or one that the program has committed. */
int EpicMpichIsCommitted(MPI_Datatype type);

/* Data of any layout as bytes in a row. */
typedef struct {
  char* bytes;  /* where they are: the buffer itself, or memory of its own */
  char* memory; /* to be freed, or null */
} EpicMpichBytes;
/* Finds room for `count` elements, and with `pack` fills it with those of the buffer, which may be
 * MPI_BOTTOM. MPI_SUCCESS, EPIC_MPICH_NO_MEMORY, or the code of an error of the MPI's. */
#define EPIC_MPICH_NO_MEMORY (-1)
int EpicMpichBytesOf(const void* buffer, int64_t count, MPI_Datatype type, int pack, EpicMpichBytes* bytes);
/* Puts what is there into the buffer, if it is not there already. An MPI error code. */
int EpicMpichUnpack(const EpicMpichBytes* bytes, void* buffer, int64_t count, MPI_Datatype type);

/* calls.c: the collectives of EpicMpichFront. */
#define EPIC_MPICH_FORMS(name, member, parameters, arguments)             \
  int EpicMpich##name parameters;                                         \
  int EpicMpichI##name(EPIC_MPICH_BARE parameters, MPI_Request* request); \
  int EpicMpich##name##Init(EPIC_MPICH_BARE parameters, MPI_Info info, MPI_Request* request);
EPIC_MPICH_EACH(EPIC_MPICH_FORMS)
#undef EPIC_MPICH_FORMS

/* comms.c: others of its functions. */
int EpicMpichCommFree(MPI_Comm* comm);
int EpicMpichCommDisconnect(MPI_Comm* comm);

/* waits.c: and those that wait or test. */
int EpicMpichWait(MPI_Request* request, MPI_Status* status);
int EpicMpichWaitall(int count, MPI_Request* requests, MPI_Status* statuses);
int EpicMpichWaitany(int count, MPI_Request* requests, int* index, MPI_Status* status);
int EpicMpichWaitsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses);
int EpicMpichTest(MPI_Request* request, int* flag, MPI_Status* status);
int EpicMpichTestall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
int EpicMpichTestany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
int EpicMpichTestsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses);
int EpicMpichRequestGetStatus(MPI_Request request, int* flag, MPI_Status* status);

/* messages.c: and those that wait for messages. */
int EpicMpichSend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int EpicMpichSsend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int EpicMpichRecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Status* status);
int EpicMpichSendrecv(const void* sbuf, int scount, MPI_Datatype stype, int to, int stag, void* rbuf,
                      int rcount, MPI_Datatype rtype, int from, int rtag, MPI_Comm comm, MPI_Status* status);
int EpicMpichProbe(int from, int tag, MPI_Comm comm, MPI_Status* status);
int EpicMpichMprobe(int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status);

#endif
