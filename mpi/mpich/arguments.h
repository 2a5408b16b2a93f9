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
  int error;   /* of a call that is not described: 0, or it ends with this */
} EpicMpichCall;

/* Describe a call, all of whose members are 0 before. 0: it is the MPI's, which must refuse it. */
#define EPIC_MPICH_DESCRIBE(name, member, parameters, arguments) \
  int EpicMpich##name##Of(EPIC_MPICH_BARE parameters, EpicMpichCall* it);
EPIC_MPICH_EACH(EPIC_MPICH_DESCRIBE)
#undef EPIC_MPICH_DESCRIBE

/* With what bytes EPIC makes a call: the program's, or memory of its own. */
typedef struct {
  EpicMpichBytes send, recv;
} EpicMpichBuffers;
#define EPIC_MPICH_DIFFERS "MPI_Allgather sends and receives parts of different sizes"
/* Packs what is sent, and finds room for what is received. Returns as EpicMpichBytesOf; to be freed in any
 * case. */
int EpicMpichPack(const EpicMpichCall* it, EpicMpichBuffers* buffers);
/* What an error of EpicMpichPack means to the other ranks, which have to hear of it. `text` has room for
 * MPI_MAX_ERROR_STRING. */
void EpicMpichWhyNotPacked(int error, char* text);
/* Puts what has been received where the program wants it. An MPI error code. */
int EpicMpichReceive(const EpicMpichCall* it, const EpicMpichBuffers* buffers);
void EpicMpichFreeBuffers(EpicMpichBuffers* buffers);

#endif
