/* The front end of MPICH: what its parts share. */
#ifndef EPIC_MPI_MPICH_MPICH_H_
#define EPIC_MPI_MPICH_MPICH_H_

#include "mpi/hosts/hosts.h"
#include "mpi/mpich/front.h"

/* comms.c: what EPIC knows of communicators.
 *
 * Once for a process, collective over all ranks; 0 if it has no memory. */
int EpicMpichBeginComms(void);
/* Gives up every group, in the order in which all ranks have come to the communicators. */
void EpicMpichEndComms(void);
/* A communicator that could have a group; null: all its calls are the MPI's, as of one that is none. */
EpicMpiHosts* EpicMpichHosts(MPI_Comm comm);
/* A communicator of this rank alone that the program does not know. */
MPI_Comm EpicMpichOwn(void);

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

/* Data of any layout as bytes in a row. */
typedef struct {
  char* bytes;  /* where they are: the buffer itself, or memory of its own */
  char* memory; /* to be freed, or null */
} EpicMpichBytes;
/* Finds room for `count` elements, and with `pack` fills it with those of the buffer. 0 without memory. */
int EpicMpichBytesOf(const void* buffer, int64_t count, MPI_Datatype type, int pack, EpicMpichBytes* bytes);
/* Puts what is there into the buffer, if it is not there already. An MPI error code. */
int EpicMpichUnpack(const EpicMpichBytes* bytes, void* buffer, int64_t count, MPI_Datatype type);

/* calls.c: the calls of EpicMpichFront. */
int EpicMpichAllreduce(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int EpicMpichReduce(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, int root,
                    MPI_Comm comm);
int EpicMpichBcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int EpicMpichAllgather(const void* sbuf, int scount, MPI_Datatype stype, void* rbuf, int rcount,
                       MPI_Datatype rtype, MPI_Comm comm);
int EpicMpichReduceScatterBlock(const void* sbuf, void* rbuf, int rcount, MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm);
int EpicMpichReduceScatter(const void* sbuf, void* rbuf, const int* rcounts, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm);
int EpicMpichBarrier(MPI_Comm comm);

#endif
