/* A tool as MPI has them (PMPI), preloaded or linked: counts calls, and says at the end how many all ranks
 * have made. It knows nothing of EPIC. */
#include <mpi.h>
#include <stdio.h>

enum { kAllreduce, kIallreduce, kBarrier, kWait, kCounts };
static int counts[kCounts];

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++counts[kAllreduce];
  return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  ++counts[kIallreduce];
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Barrier(MPI_Comm comm) {
  ++counts[kBarrier];
  return PMPI_Barrier(comm);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  ++counts[kWait];
  return PMPI_Wait(request, status);
}

int MPI_Finalize(void) {
  int rank, sums[kCounts];
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Reduce(counts, sums, kCounts, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("tool: %d Allreduce, %d Iallreduce, %d Barrier, %d Wait\n", sums[kAllreduce], sums[kIallreduce],
           sums[kBarrier], sums[kWait]);
  fflush(stdout);
  return PMPI_Finalize();
}
