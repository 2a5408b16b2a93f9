/* The begin and the end of a program: rank 0's settings on their way to all ranks. */
#include "mpi/mpich/mpich.h"

enum { kSettingsBytes = 4096 };

static int is_first;

static int Begin(void) {
  static char text[kSettingsBytes];
  int rank, ranks;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  is_first = rank == 0;
  /* MPICH hands mpirun's variables to all hosts, but a host may have its own. */
  if (is_first) EpicMpiOwnSettings(NULL, text, sizeof text);
  if (PMPI_Bcast(text, kSettingsBytes, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) return 0;
  int usable = EpicMpiConfigure(text, is_first) && ranks > 1;
  if (usable) usable = EpicMpichBeginComms();
  return usable;
}

static void End(void) {
  /* Whoever is late may wait for a message from who is here: the MPI's own way to wait sees to it. */
  PMPI_Barrier(MPI_COMM_WORLD);
  EpicMpichEndComms();
  EpicMpiFinalize(is_first);
}

__attribute__((visibility("default"))) extern const EpicMpichFront EpicMpichFrontEnd;
const EpicMpichFront EpicMpichFrontEnd = {.begin = Begin,
                                          .end = End,
                                          .error_class = EpicMpichErrorClass,
                                          .allreduce = EpicMpichAllreduce,
                                          .reduce = EpicMpichReduce,
                                          .bcast = EpicMpichBcast,
                                          .allgather = EpicMpichAllgather,
                                          .reduce_scatter_block = EpicMpichReduceScatterBlock,
                                          .reduce_scatter = EpicMpichReduceScatter,
                                          .barrier = EpicMpichBarrier};
