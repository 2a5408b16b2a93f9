/* What libepic_mpi.so, which is loaded before the program, knows of libepic_mpi_mpich.so, which it loads when
 * the program has begun MPI: so that the first needs neither an MPI nor anything of EPIC. */
#ifndef EPIC_MPI_MPICH_FRONT_H_
#define EPIC_MPI_MPICH_FRONT_H_

#include <mpi.h>

/* One count for each rank: the one that is not null. */
typedef struct {
  const int* few;
  const MPI_Count* many;
} EpicMpichCounts;

/* The collectives, each blocking, nonblocking and persistent: f(Allreduce, allreduce, what MPI_Allreduce_c is
 * called with, the same as it is handed on); MPI_Allreduce comes here, too, so that ranks may call the one or
 * the other. The nonblocking one has a request more, the persistent one an info before that. */
#define EPIC_MPICH_EACH(f)                                                                                  \
  f(Allreduce, allreduce,                                                                                   \
    (const void* sbuf, void* rbuf, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),           \
    (sbuf, rbuf, count, type, op, comm)) f(Reduce, reduce,                                                  \
                                           (const void* sbuf, void* rbuf, MPI_Count count,                  \
                                            MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),         \
                                           (sbuf, rbuf, count, type, op, root, comm))                       \
      f(Bcast, bcast, (void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm),          \
        (buffer, count, type, root, comm)) f(Allgather, allgather,                                          \
                                             (const void* sbuf, MPI_Count scount, MPI_Datatype stype,       \
                                              void* rbuf, MPI_Count rcount, MPI_Datatype rtype,             \
                                              MPI_Comm comm),                                               \
                                             (sbuf, scount, stype, rbuf, rcount, rtype, comm))              \
          f(ReduceScatterBlock, reduce_scatter_block,                                                       \
            (const void* sbuf, void* rbuf, MPI_Count rcount, MPI_Datatype type, MPI_Op op, MPI_Comm comm),  \
            (sbuf, rbuf, rcount, type, op, comm)) f(ReduceScatter, reduce_scatter,                          \
                                                    (const void* sbuf, void* rbuf, EpicMpichCounts rcounts, \
                                                     MPI_Datatype type, MPI_Op op, MPI_Comm comm),          \
                                                    (sbuf, rbuf, rcounts, type, op, comm))                  \
              f(Barrier, barrier, (MPI_Comm comm), (comm))
#define EPIC_MPICH_BARE(...) __VA_ARGS__

#define EPIC_MPICH_MEMBERS(name, member, parameters, arguments)        \
  int(*member) parameters;                                             \
  int (*i##member)(EPIC_MPICH_BARE parameters, MPI_Request * request); \
  int (*member##_init)(EPIC_MPICH_BARE parameters, MPI_Info info, MPI_Request * request);

/* The functions have the arguments of MPI's. They return an MPI error code, for which the communicator's
 * error handler has been called, or kEpicMpiFallBack: the call is the MPI's, with the arguments as they came.
 * Not before `begin` has said so. */
typedef struct {
  /* After MPI_Init, collective over all ranks. Whether EPIC is used at all; the same on all. `requests`
   * counts what EPIC has of the program's requests: while it is 0, those of the last part need not be called.
   */
  int (*begin)(int* requests);
  /* Before MPI_Finalize, collective if EPIC is used: no call may follow. */
  void (*end)(void);
  /* The class of an error as a program is to see it, from MPICH's. */
  int (*error_class)(int error_class);
  EPIC_MPICH_EACH(EPIC_MPICH_MEMBERS)

  int (*wait)(MPI_Request* request, MPI_Status* status);
  int (*waitall)(int count, MPI_Request* requests, MPI_Status* statuses);
  int (*waitany)(int count, MPI_Request* requests, int* index, MPI_Status* status);
  int (*waitsome)(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses);
  int (*test)(MPI_Request* request, int* flag, MPI_Status* status);
  int (*testall)(int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
  int (*testany)(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
  int (*testsome)(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses);
  int (*request_get_status)(MPI_Request request, int* flag, MPI_Status* status);
  int (*start)(MPI_Request* request);
  int (*startall)(int count, MPI_Request* requests);
  int (*request_free)(MPI_Request* request);
  int (*cancel)(MPI_Request* request);
  int (*send)(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
  int (*ssend)(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
  int (*recv)(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Status* status);
  int (*sendrecv)(const void* sbuf, int scount, MPI_Datatype stype, int to, int stag, void* rbuf, int rcount,
                  MPI_Datatype rtype, int from, int rtag, MPI_Comm comm, MPI_Status* status);
  int (*probe)(int from, int tag, MPI_Comm comm, MPI_Status* status);
  int (*mprobe)(int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status);
  int (*comm_free)(MPI_Comm* comm);
  int (*comm_disconnect)(MPI_Comm* comm);
} EpicMpichFront;

/* The one variable of the library, by this name, and its file, beside libepic_mpi.so. */
#define EPIC_MPICH_FRONT "EpicMpichFrontEnd"
#define EPIC_MPICH_LIBRARY "libepic_mpi_mpich.so"

#endif
