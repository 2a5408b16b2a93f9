/* A communicator for each step of a program: duplicates one, makes some sums, and frees it. Prints for 1, 10, 100
 * and 1000 sums what such a step takes, in ms: "100|12.345". */
#include <mpi.h>
#include <stdio.h>

enum { kSteps = 10 };

static void step(int sums) {
  int one = 1, all;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < sums; ++i) MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_free(&comm);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int sums = 1; sums <= 1000; sums *= 10) {
    const double begin = MPI_Wtime();
    for (int i = 0; i < kSteps; ++i) step(sums);
    if (rank == 0) printf("%d|%.3f\n", sums, (MPI_Wtime() - begin) * 1e3 / kSteps);
  }
  MPI_Finalize();
  return 0;
}
