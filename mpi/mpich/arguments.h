/* Calls as the rest of the front end has them, from the arguments of MPI's functions. */
#ifndef EPIC_MPI_MPICH_ARGUMENTS_H_
#define EPIC_MPI_MPICH_ARGUMENTS_H_

#include "mpi/mpich/mpich.h"

/* `count` elements at `buffer`. */
typedef struct {
  void* buffer;
  int64_t count;
  MPI_Datatype type;
} EpicMpichData;

typedef struct {
  EpicMpiHosts* hosts;
  EpicMpiCall call;
  EpicMpichData in, out; /* without MPI_IN_PLACE: calls that reduce are in place where the buffers are one */
  MPI_Op op;
  int is_root; /* of Bcast */
  int differs; /* Allgather: what is sent has not the size of a part, and the call cannot be made */
} EpicMpichCall;

/* Describe a call, all of whose members are 0 before. 0: it is the MPI's, which must refuse it, or whose
 * communicator can have no group. */
int EpicMpichAllreduceOf(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                         EpicMpichCall* it);
int EpicMpichReduceOf(const void* sbuf, void* rbuf, int count, MPI_Datatype type, MPI_Op op, int root,
                      MPI_Comm comm, EpicMpichCall* it);
int EpicMpichBcastOf(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, EpicMpichCall* it);
int EpicMpichAllgatherOf(const void* sbuf, int scount, MPI_Datatype stype, void* rbuf, int rcount,
                         MPI_Datatype rtype, MPI_Comm comm, EpicMpichCall* it);
int EpicMpichReduceScatterBlockOf(const void* sbuf, void* rbuf, int rcount, MPI_Datatype type, MPI_Op op,
                                  MPI_Comm comm, EpicMpichCall* it);
int EpicMpichReduceScatterOf(const void* sbuf, void* rbuf, const int* rcounts, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm, EpicMpichCall* it);
int EpicMpichBarrierOf(MPI_Comm comm, EpicMpichCall* it);

/* With what bytes EPIC makes a call: the program's, or memory of its own. */
typedef struct {
  EpicMpichBytes send, recv;
} EpicMpichBuffers;
#define EPIC_MPICH_NO_MEMORY "no memory for a buffer that is not in a row or in place"
/* Packs what is sent, and finds room for what is received. 0 without memory; to be freed then, too. */
int EpicMpichPack(const EpicMpichCall* it, EpicMpichBuffers* buffers);
/* Puts what has been received where the program wants it. An MPI error code. */
int EpicMpichReceive(const EpicMpichCall* it, const EpicMpichBuffers* buffers);
void EpicMpichFreeBuffers(EpicMpichBuffers* buffers);

#endif
