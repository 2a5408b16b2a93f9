/* What libepic_mpi.so, which is loaded before the program, knows of libepic_mpi_mpich.so, which it loads when
 * the program has begun MPI: so that the first needs neither an MPI nor anything of EPIC. */
#ifndef EPIC_MPI_MPICH_FRONT_H_
#define EPIC_MPI_MPICH_FRONT_H_

#include <mpi.h>

/* The calls have the arguments of MPI's functions. They return an MPI error code, for which the
 * communicator's error handler has been called, or kEpicMpiFallBack: the call is the MPI's, with the
 * arguments as they came. Not before `begin` has said so. */
typedef struct {
  /* After MPI_Init, collective over all ranks. Whether EPIC is used at all; the same on all. */
  int (*begin)(void);
  /* Before MPI_Finalize, collective if EPIC is used: no call may follow. */
  void (*end)(void);
  /* The class of an error as a program is to see it, from MPICH's. */
  int (*error_class)(int error_class);
  int (*allreduce)(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
  int (*reduce)(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm);
  int (*bcast)(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
  int (*allgather)(const void* sbuf, int scount, MPI_Datatype stype, void* rbuf, int rcount,
                   MPI_Datatype rtype, MPI_Comm comm);
  int (*reduce_scatter_block)(const void* sbuf, void* rbuf, int rcount, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm);
  int (*reduce_scatter)(const void* sbuf, void* rbuf, const int* rcounts, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm);
  int (*barrier)(MPI_Comm comm);
} EpicMpichFront;

/* The one variable of the library, by this name, and its file, beside libepic_mpi.so. */
#define EPIC_MPICH_FRONT "EpicMpichFrontEnd"
#define EPIC_MPICH_LIBRARY "libepic_mpi_mpich.so"

#endif
